"""`JointTagger`: one field of words and tags, learned in time independent of the text's size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Estimator, Parts
from mrflearn.estimators.crf_validation import accuracy
from mrflearn.estimators.tagger_file import LearnedTagger, restore, store
from mrflearn.estimators.tagger_learning import Learning, TaggerPlan, learn
from mrflearn.estimators.tagger_training import TaggerSettings
from mrflearn.execution.threads import one_thread
from mrflearn.features.labels import warn_of_single_label
from mrflearn.features.tagged_sentences import Tags, check_tags
from mrflearn.graph.tag_scores import PLACES
from mrflearn.inference.sentence_tags import SentenceTags
from mrflearn.io.files import PathLike
from mrflearn.io.tag_files import TagSource
from mrflearn.models.storage import figure
from mrflearn.objectives.tagger_normaliser import BOUNDS, TagCeiling, TaggerBoundName
from mrflearn.training.checkpoint import Checkpoint, Stages

Sentences = Iterable[Sequence[str]]
Held = tuple[list[Sequence[str]], list[Sequence[str]]]
LARGEST_BATCH = 2**24  # scores of states held at once; bounds memory, changes no result


class JointTagger(Estimator):
    """A field in which tags are bound to the tags and words near them; a word acts by its spelling.

    context: each tag is bound to the tags up to so many places away, 1 or 2.
    words: each tag is bound to its own word (1), or to the words beside it too (3).
    bound: what training makes large: the likelihood itself (`"exact"`), a lower bound on it from
        chains of tags (`"chains"`), or the looser one of [Jernite, Rush, Sontag 2015] (`"stars"`).
    l2: price of a squared weight, in nats; weights of transitions cost a tenth.
    tags: how many tags to look for, where text without any is learned from.
    rounds: of expectation-maximisation, where tags are unknown.
    unlabelled_weight: what a sentence with unknown tags counts, against 1 for one without; 0
        leaves such sentences out.  Where no sentence is known in whole, all count 1.
    max_evaluations: training ends after so many evaluations of the bound.
    """

    def __init__(
        self,
        context: int = 1,
        words: int = 3,
        *,
        bound: TaggerBoundName = "chains",
        l2: float | Sequence[float] = 0.3,
        tags: int | None = None,
        rounds: int = 3,
        unlabelled_weight: float | Sequence[float] = 0.1,
        max_evaluations: int = 100,
        device: str = "cpu",
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.context = context
        self.words = words
        self.bound = bound
        self.l2 = l2
        self.tags = tags
        self.rounds = rounds
        self.unlabelled_weight = unlabelled_weight
        self.max_evaluations = max_evaluations
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Sentences,
        y: Iterable[Tags] | None = None,
        *,
        valid: tuple[Sentences, Iterable[Sequence[str]]] | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from sentences (lists of words) and their tags.

        A tag may be None, and so may all tags of a sentence (or of all, with `tags` given): they
        are summed out.  Of several `l2` or `unlabelled_weight` the best on `valid` (sentences and
        tags) is taken.  Training is saved to `checkpoint` every minute, and with `resume` goes on
        from there; further rounds and settings are saved to files beside it.
        """
        self._check_settings()
        saved = Stages(checkpoint, resume)
        sentences = list(X)
        sentences, tags = _with_words(sentences, [None] * len(sentences) if y is None else list(y))
        with one_thread():
            found = self._best_of(sentences, tags, _held(valid), saved)
        self._learned = found.learned
        self.bound_ = found.fit.log_likelihood
        self.outcome_ = found.fit.outcome
        warn_of_single_label(self.classes_)
        return self

    @property
    def classes_(self) -> list[str]:
        """The tags, in alphabetical order, those without a name last."""
        return list(self._fitted().tags[1:])

    @property
    def vocabulary_(self) -> set[str]:
        """The words that training saw."""
        return set(self._fitted().words[1:])

    @property
    def ceiling_(self) -> TagCeiling:
        """The proven upper bound on log Z that `bound_` is counted with."""
        return self._fitted().ceiling

    def predict(self, X: Sentences) -> list[list[str]]:
        """The most probable tags of each sentence."""
        names = np.array(self.classes_, dtype=object)
        found: list[list[str]] = []
        for sentences, chains in self._chains(X):
            found += _split(names[chains.best().cpu().numpy()], sentences)
        return found

    def predict_proba(self, X: Sentences) -> list[NDArray[np.float64]]:
        """For each sentence a table of probabilities, tokens by tags in the order of `classes_`."""
        found: list[NDArray[np.float64]] = []
        for sentences, chains in self._chains(X):
            table = chains.probabilities().double().cpu().numpy()
            found += np.split(table, np.cumsum([len(s) for s in sentences])[:-1])
        return found

    def n_best(self, X: Sentences, n: int = 5) -> list[list[tuple[list[str], float]]]:
        """The n most probable (tags, probability) of each sentence, best first."""
        if n < 1:
            raise DataError(f"n={n}: ask for at least one tag sequence.")
        names = np.array(self.classes_, dtype=object)
        found: list[list[tuple[list[str], float]]] = []
        for sentences, chains in self._chains(X):
            paths, scores = chains.n_best(n)
            chances = (scores - chains.log_partition().unsqueeze(1)).exp().cpu().tolist()
            lists = [_split(names[path], sentences) for path in paths.cpu().numpy().T]
            rows = zip(zip(*lists, strict=True), scores.tolist(), chances, strict=True)
            found += [
                [
                    (tags, chance)
                    for tags, score, chance in zip(own, values, of_own, strict=True)
                    if score > -math.inf
                ]
                for own, values, of_own in rows
            ]
        return found

    def score(self, X: Sentences, y: Iterable[Sequence[str]]) -> float:
        """The share of tokens whose tag is right."""
        gold, found = list(y), self.predict(X)
        if len(gold) != len(found):
            raise DataError(f"there are {len(found)} sentences and tags for {len(gold)}.")
        return accuracy(gold, found)

    def _learned_parts(self) -> Parts:
        stored, tensors = store(self._fitted())
        source: TagSource | None = getattr(self, "source_", None)
        kept = None if source is None else source.settings()
        return {**stored, "bound": self.bound_, "source": kept}, tensors

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self._learned = restore(learned, tensors)
        self.bound_ = figure(learned["bound"])
        if learned["source"] is not None:
            self.source_ = TagSource.from_settings(learned["source"])

    def _best_of(
        self,
        sentences: list[Sequence[str]],
        tags: list[Tags],
        valid: Held | None,
        saved: Stages,
    ) -> Learning:
        """The best learned tagger of all settings to choose from."""
        labelled = all(some is not None and None not in some for some in tags)
        weights = [1.0] if labelled else _several(self.unlabelled_weight)
        choices = list(product(_several(self.l2), weights))
        if len(choices) > 1 and valid is None:
            raise DataError("to choose between settings fit needs valid=(sentences, tags).")
        best: Learning | None = None
        highest = -math.inf
        for l2, weight in choices:
            found = learn(sentences, tags, self._plan(l2, weight, saved))
            self._learned = found.learned
            reached = 0.0 if valid is None else self.score(*valid)
            if best is None or reached > highest:
                best, highest = found, reached
                self.l2_, self.unlabelled_weight_ = l2, weight
        if best is None:
            raise DataError("l2 and unlabelled_weight each need at least one number.")
        return best

    def _plan(self, l2: float, weight: float, saved: Stages) -> TaggerPlan:
        settings = TaggerSettings(self.bound, l2, self.max_evaluations, self.device, self.verbose)
        places = PLACES[self.words]
        return TaggerPlan(
            self.context,
            places,
            settings,
            self.tags,
            self.rounds,
            weight,
            self.random_state,
            saved,
        )

    def _chains(self, X: Sentences) -> Iterator[tuple[list[Sequence[str]], SentenceTags]]:
        learned = self._fitted()
        most = LARGEST_BATCH // len(learned.tags) ** learned.model.distances
        # Held while the caller works on each batch: small steps are fastest on one thread.
        with one_thread(), torch.no_grad():
            for sentences in batches(X, most):
                check_tags(sentences, [None] * len(sentences))
                scores, words = learned.read(sentences)
                lengths = torch.tensor([len(s) for s in sentences], device=words.device)
                yield sentences, SentenceTags.of(scores, words, lengths)

    def _check_settings(self) -> None:
        if self.words not in PLACES:
            raise SettingsError(f"words={self.words}: a tag sees 1 word or 3.")
        if self.context not in (1, 2):
            raise SettingsError(f"context={self.context}: tags are bound up to 1 or 2 places away.")
        given = {"l2": self.l2, "unlabelled_weight": self.unlabelled_weight}
        for name, values in given.items():
            if not all(0 <= value < math.inf for value in _several(values)):
                raise SettingsError(f"{name}={values}: numbers from 0 on, and finite.")
        if self.rounds < 1:
            raise SettingsError(f"rounds={self.rounds}: at least one is needed.")
        if self.bound not in BOUNDS:
            raise SettingsError(f"bound {self.bound!r} is not one of {', '.join(BOUNDS)}.")

    def _fitted(self) -> LearnedTagger:
        learned: LearnedTagger = self._after_fit("_learned")
        return learned


def batches(sentences: Sentences, most: int) -> Iterator[list[Sequence[str]]]:
    """The sentences in groups of at most so many tokens, or of one sentence."""
    group: list[Sequence[str]] = []
    tokens = 0
    for sentence in sentences:
        if group and tokens + len(sentence) > most:
            yield group
            group, tokens = [], 0
        group.append(sentence)
        tokens += len(sentence)
    if group:
        yield group


def _held(valid: tuple[Sentences, Iterable[Sequence[str]]] | None) -> Held | None:
    return None if valid is None else (list(valid[0]), list(valid[1]))


def _several(values: float | Sequence[float]) -> list[float]:
    return [float(values)] if isinstance(values, (int, float)) else [float(v) for v in values]


def _with_words(
    sentences: list[Sequence[str]], tags: list[Tags]
) -> tuple[list[Sequence[str]], list[Tags]]:
    """The sentences that have words, with their tags."""
    check_tags(sentences, tags)
    pairs = [pair for pair in zip(sentences, tags, strict=True) if len(pair[0])]
    if not pairs:
        raise DataError("there are no words in these sentences. Is the file empty?")
    return [sentence for sentence, _ in pairs], [some for _, some in pairs]


def _split(values: NDArray[np.object_], sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    """The values of all tokens, sentence by sentence."""
    flat, ends = values.tolist(), np.cumsum([len(s) for s in sentences]).tolist()
    return [flat[end - len(s) : end] for s, end in zip(sentences, ends, strict=True)]

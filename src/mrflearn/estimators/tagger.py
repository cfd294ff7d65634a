"""`JointTagger`: one field of words and tags, learned in time independent of the text's size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Estimator, Parts
from mrflearn.estimators.labelling import accuracy, check_n, marginal_dicts, pair_of
from mrflearn.estimators.tagger_training import (
    BOUNDS,
    LearnedTagger,
    TaggerBoundName,
    learn,
    restore,
)
from mrflearn.execution.resources import one_thread
from mrflearn.features.features import warn_of_single_label
from mrflearn.features.tagged_sentences import UNKNOWN, TaggedSentences, Tags, check_tags
from mrflearn.graph.lifted import CENTRE, PLACES
from mrflearn.inference.lifted import LogPartitionBound
from mrflearn.inference.sentence_tags import SentenceTags, sentence_chains
from mrflearn.io.files import PathLike
from mrflearn.io.tag_files import TagSource
from mrflearn.models.storage import figure, record
from mrflearn.training.checkpoint import Checkpoint, Stages

Sentences = Iterable[Sequence[str]]
LARGEST_BATCH = 2**24  # scores of states held at once; bounds memory, changes no result


@dataclass(kw_only=True, eq=False, repr=False)
class JointTagger(Estimator):
    """A Markov random field of words and tags, trained by a bound on its likelihood.

    Each tag is joined to the tags and words near it; a word acts by the features of its spelling.

    Parameters
    ----------
    context : {1, 2}
        Each tag is joined to the tags up to this many positions away.
    words : {1, 3}
        Each tag is joined to its own word (1), or to the words beside it too (3).
    bound
        What is maximised: the likelihood itself (`"exact"`), a lower bound on it from chains of
        tags (`"chains"`), or the looser one of [Jernite, Rush, Sontag 2015] (`"stars"`).
    l2
        Strength of the L2 regularisation, a tenth of it on weights of transitions; of several the
        best on the validation set is taken.
    tags
        How many tags to look for, where text without any is learned from.
    rounds
        Rounds of expectation-maximisation, where tags are unknown.
    unlabelled_weight
        The weight of a sentence with unknown tags, against 1 for one without; 0 leaves such
        sentences out, and of several the best on the validation set is taken.  Where no sentence
        is fully tagged, all have weight 1.
    max_iterations
        The most iterations of L-BFGS.
    tolerance
        Training stops when |gradient| max(1, |w|) <= tolerance max(1, |value|).
    device
        `"cpu"`, `"cuda"` or `"auto"`.
    random_state
        The seed of the clusters that tags are first guessed by, where none is known.
    verbose
        Whether to report progress on standard error.

    Attributes
    ----------
    classes_
        The tags, in alphabetical order, those without a name last.
    known_words_
        The words that training saw.
    bound_
        The lower bound on the log-likelihood per position, in nats.
    log_partition_bound_
        The certified upper bound on log Z that `bound_` is computed with.
    l2_, unlabelled_weight_
        The values taken.
    outcome_
        How training went.
    learned_
        Words, tags and the model that was learned.

    """

    context: int = field(default=1, kw_only=False)
    words: int = field(default=3, kw_only=False)
    bound: TaggerBoundName = "chains"
    l2: float | Sequence[float] = 0.3
    tags: int | None = None
    rounds: int = 3
    unlabelled_weight: float | Sequence[float] = 0.1
    max_iterations: int = 100
    tolerance: float = 1e-6
    device: str = "cpu"
    random_state: int = 0
    verbose: bool = False

    def fit(
        self,
        X: Sentences,
        y: Iterable[Tags] | None = None,
        *,
        validation: tuple[Sentences, Iterable[Sequence[str]]] | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from sentences and their tags.

        Parameters
        ----------
        X
            Sentences, each a list of words.
        y
            Their tags.  A tag may be None, and so may all tags of a sentence (or of all, with
            `tags` given): these are summed out.
        validation
            Held-out (sentences, tags), by which one of several `l2` or `unlabelled_weight` is
            chosen.
        checkpoint
            A file that training is saved to every minute; further rounds and settings are saved
            to files beside it.
        resume
            Whether to continue from the checkpoint.

        Returns
        -------
        the fitted tagger itself

        """
        self._check_settings()
        held_out = None if validation is None else tuple(map(list, pair_of(validation)))
        given = list(X)
        known: list[Tags] = [None] * len(given) if y is None else list(y)
        # Rounds too: checkpoints of several settings are numbered through.
        data = Checkpoint.on(checkpoint, self, self.rounds, given, known, held_out)
        saved = Stages(data, resume)
        check_tags(given, known)
        pairs = [pair for pair in zip(given, known, strict=True) if len(pair[0])]
        if not pairs:
            raise DataError("there are no words in these sentences. Is the file empty?")
        sentences, tags = [words for words, _ in pairs], [own for _, own in pairs]

        best = -1.0
        with one_thread():
            for l2, weight in self._choices(tags, held_out):
                found = learn(sentences, tags, self, l2, weight, saved)
                reached = 0.0
                if held_out is not None:
                    reached = accuracy(held_out[1], _best_tags(found.learned, held_out[0]))
                if reached > best:
                    best, chosen = reached, (found, l2, weight)
        found, self.l2_, self.unlabelled_weight_ = chosen
        self.learned_, self.bound_ = found.learned, found.log_likelihood
        self.outcome_ = replace(found.outcome, model=self.learned_.model)
        warn_of_single_label(self.classes_)
        return self

    @property
    def classes_(self) -> list[str]:
        """The tags, in alphabetical order, those without a name last."""
        return list(self.learned_.tags[1:])

    @property
    def known_words_(self) -> set[str]:
        """The words that training saw."""
        return set(self.learned_.words[1:])

    @property
    def log_partition_bound_(self) -> LogPartitionBound:
        """The certified upper bound on log Z that `bound_` is computed with."""
        return self.learned_.log_partition_bound

    def predict(self, X: Sentences) -> list[list[str]]:
        """The most probable tags of each sentence."""
        return _best_tags(self.learned_, X)

    @one_thread()
    @torch.no_grad()
    def predict_proba(self, X: Sentences) -> list[NDArray[np.float64]]:
        """The marginal probability of every tag at every token.

        Parameters
        ----------
        X
            Sentences, each a list of words.

        Returns
        -------
        list of arrays, tokens x tags in the order of `classes_`

        """
        return [
            table
            for chains in _chains(self.learned_, X)
            for table in chains.split(chains.probabilities().double().cpu().numpy())
        ]

    def predict_marginals(self, X: Sentences) -> list[list[dict[str, float]]]:
        """The same marginals as dicts.

        Parameters
        ----------
        X
            Sentences, each a list of words.

        Returns
        -------
        list of lists of {tag: probability}

        """
        return marginal_dicts(self.predict_proba(X), self.classes_)

    @one_thread()
    @torch.no_grad()
    def n_best(self, X: Sentences, n: int = 5) -> list[list[tuple[list[str], float]]]:
        """The n most probable tag sequences of each sentence.

        Parameters
        ----------
        X
            Sentences, each a list of words.
        n
            How many; there may be fewer.

        Returns
        -------
        list of lists of (tags, probability), most probable first

        """
        check_n(n)
        names = np.array(self.classes_, dtype=object)
        found: list[list[tuple[list[str], float]]] = []
        for chains in _chains(self.learned_, X):
            paths, scores = chains.n_best(n)
            chances = (scores - chains.log_partition().unsqueeze(1)).exp().cpu().tolist()
            lists = [chains.split(names[path]) for path in paths.cpu().numpy().T]
            rows = zip(zip(*lists, strict=True), scores.tolist(), chances, strict=True)
            for paths_of, scores_of, chances_of in rows:
                ranked = zip(paths_of, scores_of, chances_of, strict=True)
                found.append([(tags.tolist(), p) for tags, score, p in ranked if score > -math.inf])
        return found

    def score(self, X: Sentences, y: Iterable[Sequence[str]]) -> float:
        """The share of tokens whose tag is right."""
        return accuracy(list(y), self.predict(X))

    def _learned_parts(self) -> Parts:
        learned = self.learned_
        source: TagSource | None = getattr(self, "source_", None)
        kept = {
            "words": list(learned.words),
            "tags": list(learned.tags),
            "rare_from": learned.spelling[CENTRE].rare_from,
            "log_partition_bound": asdict(learned.log_partition_bound),
            "bound": self.bound_,
            "l2": self.l2_,
            "unlabelled_weight": self.unlabelled_weight_,
            "source": None if source is None else asdict(source),
            **self._training_parts(),
        }
        return kept, learned.model.parameters()

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.learned_ = restore(learned, tensors)
        self.bound_ = figure(learned["bound"])
        self.l2_ = figure(learned["l2"])
        self.unlabelled_weight_ = figure(learned["unlabelled_weight"])
        self._restore_training(self.learned_.model, learned)
        if learned["source"] is not None:
            self.source_ = record(TagSource, learned["source"])

    def _choices(self, tags: list[Tags], held_out: object) -> list[tuple[float, float]]:
        """The strengths and weights to choose from."""
        labelled = all(some is not None and None not in some for some in tags)
        weights = [1.0] if labelled else _several(self.unlabelled_weight)
        choices = list(product(_several(self.l2), weights))
        if not choices:
            raise SettingsError("l2 and unlabelled_weight each need at least one number.")
        if len(choices) > 1 and held_out is None:
            raise SettingsError("to choose between settings fit needs validation=(X, y).")
        return choices

    def _check_settings(self) -> None:
        if self.words not in PLACES:
            raise SettingsError(f"words={self.words}: a tag sees 1 word or 3.")
        if self.context not in (1, 2):
            raise SettingsError(f"context={self.context}: tags are bound up to 1 or 2 places away.")
        given = {"l2": self.l2, "unlabelled_weight": self.unlabelled_weight}
        for name, values in given.items():
            if not all(0 <= value < math.inf for value in _several(values)):
                raise SettingsError(f"{name} must be >= 0 and finite; got {values}.")
        for name, least in {"rounds": self.rounds, "max_iterations": self.max_iterations}.items():
            if least < 1:
                raise SettingsError(f"{name} must be >= 1; got {least}.")
        if self.bound not in BOUNDS:
            raise SettingsError(f"bound {self.bound!r} is not one of {', '.join(BOUNDS)}.")


def _chains(learned: LearnedTagger, X: Sentences) -> Iterator[SentenceTags]:
    """The chains of the tags of sentences, in batches."""
    sentences = list(X)
    check_tags(sentences, [None] * len(sentences))
    scores, words = learned.read(sentences)
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    unknown = np.full(len(words), UNKNOWN)
    return sentence_chains(scores, TaggedSentences(words, unknown, lengths), LARGEST_BATCH)


@one_thread()
@torch.no_grad()
def _best_tags(learned: LearnedTagger, X: Sentences) -> list[list[str]]:
    names = np.array(learned.tags[1:], dtype=object)
    return [
        tags.tolist()
        for chains in _chains(learned, X)
        for tags in chains.split(names[chains.best().cpu().numpy()])
    ]


def _several(values: float | Sequence[float]) -> list[float]:
    return [float(values)] if isinstance(values, (int, float)) else [float(v) for v in values]

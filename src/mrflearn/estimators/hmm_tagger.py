"""`HMMTagger`: a hidden Markov model of tags, in the manner of TnT and hunpos."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Literal, Self

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.estimators.base import Estimator, Parts
from mrflearn.estimators.labelling import accuracy, check_n, marginal_dicts
from mrflearn.features.features import warn_of_single_label
from mrflearn.features.tagged_sentences import TagCounts, Tags, count_tags
from mrflearn.io.corpus import check_sentences
from mrflearn.io.tag_files import TagSource
from mrflearn.kernels import lattice
from mrflearn.models.hmm import HMM, TagLattice
from mrflearn.models.storage import record, texts

Sentences = Iterable[Sequence[str]]
Unknown = Literal["auto", "suffixes", "rare"]
SENTENCES_AT_ONCE = 1_000  # bounds memory, changes no result
TABLES = ("emission", "trigram")  # of counts
RARE = {"suffixes": 20, "rare": 1}


@dataclass(kw_only=True, eq=False, repr=False)
class HMMTagger(Estimator):
    """A hidden Markov model of tags, counted in one pass over tagged sentences.

    Parameters
    ----------
    order : {1, 2}
        2 conditions a tag on the two before it and a word on the tag before its own as well; 1 is
        the textbook model, P(tag | tag before) and P(word | tag).
    unknown
        What a new word's tags are guessed from: the suffixes of rare words (`"suffixes"`), or the
        tags of rare words, whatever they look like (`"rare"`).  `"auto"`: suffixes with order 2,
        rare words with order 1.
    rare
        Words seen at most this often teach about new ones; None: 20 with suffixes, else 1.
    suffix_length
        The longest suffix, in letters.
    beam
        With suffixes, tags of a word this many times less probable than its best one are left out;
        None: none is.  The search among the others is exact.

    Attributes
    ----------
    classes_
        The tags, in the order of their first appearance.
    known_words_
        The words that training saw.
    interpolation_
        The weights of tag unigrams, bigrams and (order 2) trigrams.

    """

    order: int = field(default=2, kw_only=False)
    unknown: Unknown = "auto"
    rare: int | None = None
    suffix_length: int = 10
    beam: float | None = 1000.0

    def fit(self, X: Sentences, y: Iterable[Tags]) -> Self:
        """Learns from tagged sentences.

        Parameters
        ----------
        X
            Sentences, each a list of words.
        y
            Their tags.

        Returns
        -------
        the fitted tagger itself

        """
        self._check_settings()
        self.model_ = self._model(count_tags(list(X), list(y)))
        warn_of_single_label(self.classes_)
        return self

    @property
    def classes_(self) -> list[str]:
        """The tags, in the order of their first appearance."""
        return list(self.model_.counts.tags)

    @property
    def known_words_(self) -> set[str]:
        """The words that training saw."""
        return set(self.model_.counts.words)

    @property
    def interpolation_(self) -> tuple[float, ...]:
        """The weights of tag unigrams, bigrams and (order 2) trigrams."""
        return self.model_.transitions.weights

    def predict(self, X: Sentences) -> list[list[str]]:
        """The most probable tags of each sentence."""
        names = self.classes_
        return [own for tagged in self._lattices(X) for own in best_tags(tagged, names)]

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
        size = len(self.classes_)
        return [own for tagged in self._lattices(X) for own in tag_shares(tagged, size)]

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
        names = self.classes_
        return [own for tagged in self._lattices(X) for own in best_lists(tagged, names, n)]

    def score(self, X: Sentences, y: Iterable[Sequence[str]]) -> float:
        """The share of tokens whose tag is right."""
        return accuracy(list(y), self.predict(X))

    def top_steps(self, n: int = 20) -> list[tuple[str, str, int, float]]:
        """The tag bigrams counted most often.

        Parameters
        ----------
        n
            How many.

        Returns
        -------
        list of (tag, next tag, count, P(next tag | tag)); `<S>` is the boundary of a sentence

        """
        counts = self.model_.counts
        names, size = [*counts.tags, "<S>"], counts.edge + 1
        _, first, second, times = counts.trigram.T
        table = np.bincount(first * size + second, weights=times, minlength=size**2)
        totals = table.reshape(size, size).sum(axis=1)
        best = np.argsort(-table, kind="stable")[:n].tolist()
        pairs = [(place // size, place % size, int(table[place])) for place in best]
        return [(names[a], names[b], k, k / float(totals[a])) for a, b, k in pairs if k]

    def _learned_parts(self) -> Parts:
        counts = self.model_.counts
        source: TagSource | None = getattr(self, "source_", None)
        learned = {
            "words": list(counts.words),
            "tags": list(counts.tags),
            "source": None if source is None else asdict(source),
        }
        tables = {name: getattr(counts, name).astype(np.int32) for name in TABLES}
        return learned, {name: torch.from_numpy(table) for name, table in tables.items()}

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self._check_settings()
        tables = (tensors[name].cpu().numpy().astype(np.int64) for name in TABLES)
        counts = TagCounts(texts(learned, "words"), texts(learned, "tags"), *tables)
        self.model_ = self._model(counts)
        if learned["source"] is not None:
            self.source_ = record(TagSource, learned["source"])

    def _model(self, counts: TagCounts) -> HMM:
        automatic = "suffixes" if self.order == 2 else "rare"
        kind = automatic if self.unknown == "auto" else self.unknown
        rare = RARE[kind] if self.rare is None else self.rare
        return HMM(counts, self.order, kind == "suffixes", rare, self.suffix_length, self.beam)

    def _check_settings(self) -> None:
        if self.order not in (1, 2):
            raise SettingsError(f"order must be 1 or 2; got {self.order}.")
        if self.unknown not in ("auto", *RARE):
            raise SettingsError(f"unknown={self.unknown!r} is not 'auto', 'suffixes' or 'rare'.")
        if self.rare is not None and self.rare < 1:
            raise SettingsError(f"rare must be >= 1, or None; got {self.rare}.")
        if self.suffix_length < 0:
            raise SettingsError(f"suffix_length must be >= 0; got {self.suffix_length}.")
        if self.beam is not None and not self.beam >= 1:
            raise SettingsError(
                f"beam must be >= 1 (only a word's best tag), or None (all); got {self.beam}."
            )

    def _lattices(self, X: Sentences) -> Iterator[TagLattice]:
        model, stream = self.model_, iter(X)
        while sentences := list(islice(stream, SENTENCES_AT_ONCE)):
            check_sentences(sentences)
            yield from model.lattices(sentences)


# What a hidden Markov model says of sentences, as plain lists: tags, probabilities, n best.


def best_tags(tagged: TagLattice, names: Sequence[str]) -> list[list[str]]:
    """The most probable tags of each sentence."""
    path = lattice.viterbi(tagged.lattice)
    nodes = np.concatenate([np.zeros(0, dtype=np.int64), *path])
    return _named(tagged.tag[nodes], tagged, names)


def tag_shares(tagged: TagLattice, tags: int) -> list[NDArray[np.float64]]:
    """For each sentence a table of probabilities, tokens by tags."""
    rows = np.zeros((len(tagged.steps), tags))
    if len(rows):
        _, chance = lattice.marginals(tagged.lattice)
        np.add.at(rows, (tagged.row, tagged.tag), chance)
    return _by_sentence(rows, tagged)


def best_lists(
    tagged: TagLattice, names: Sequence[str], count: int
) -> list[list[tuple[list[str], float]]]:
    """The `count` best (tags, probability) of each sentence; fewer where there are fewer."""
    lengths = tagged.steps.lengths.tolist()
    lists: list[list[tuple[list[str], float]]] = [[([], 1.0)] if not n else [] for n in lengths]
    if not len(tagged.steps):
        return lists
    path, scores = lattice.n_best(tagged.lattice, count)
    chance = np.exp(scores - lattice.log_partition(tagged.lattice)[:, None])
    nodes = np.concatenate(path)
    named = [_named(tagged.tag[nodes[:, rank]], tagged, names) for rank in range(count)]
    for place, own in zip(tagged.steps.order.tolist(), chance.tolist(), strict=False):
        lists[place] = [(named[rank][place], share) for rank, share in enumerate(own) if share > 0]
    return lists


def _named(
    tags: Int[np.ndarray, " r"], tagged: TagLattice, names: Sequence[str]
) -> list[list[str]]:
    rows = np.array(names, dtype=object)[tags]
    return [own.tolist() for own in _by_sentence(rows, tagged)]


def _by_sentence(rows: NDArray[Any], tagged: TagLattice) -> list[NDArray[Any]]:
    """Rows in the order of the caller's tokens, those of each sentence by themselves."""
    result = np.empty_like(rows)
    result[tagged.steps.source.numpy()] = rows
    return np.split(result, np.cumsum(tagged.steps.lengths.numpy())[:-1])

"""Deleted estimation: each fold of a text judged by what the others taught [Jelinek & Mercer 1980].

A level that was learned from a word explains it better than it explains new ones.  So weights of
levels are fitted where tables, rules and the n-gram model come from other folds than the words.
Tables of the others cost no training: their expected counts are those of all, less the fold's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngrams import Counts
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.models.composite_lm import CompositeModel
from mrflearn.models.ngram_level import NgramLevel
from mrflearn.objectives.expected_counts import Expected
from mrflearn.training.composite import RulePrior, maximised
from mrflearn.training.composite_batches import Given, Judged, part

Figures: TypeAlias = NDArray[np.float64]
FOLDS = 5
RARE = 1e-3  # uses that a rule has had at least
FEW_DOCUMENTS = 10  # below so many, sentences are divided instead


def fold_numbers(text: DocumentStream, documents: int) -> Counts:
    """The fold of each sentence; whole documents go together, unless there are few."""
    unit = text.document if documents >= FEW_DOCUMENTS else np.arange(len(text))
    return np.unique(unit % FOLDS, return_inverse=True)[1]


@final
@dataclass(frozen=True, eq=False)
class Folds:
    """A text, the fold of each sentence, and each fold with the n-gram model of the others.

    The n-gram model of a sentence itself would leave nothing for grammar and topics to explain.
    """

    text: DocumentStream
    number: Counts
    each: tuple[Given, ...]

    @classmethod
    def of(cls, text: DocumentStream, number: Counts, order: int, vocabulary: Vocabulary) -> Folds:
        """The folds of a text; `order` 0: without n-gram models.  A single fold judges itself."""
        each = []
        for k in range(int(number.max()) + 1):
            inside, outside = np.flatnonzero(number == k), np.flatnonzero(number != k)
            rest = part(text, outside if len(outside) else inside)
            level = NgramLevel.learn(rest.stream, order, vocabulary) if order else None
            each.append(Given(part(text, inside), level))
        return cls(text, number, tuple(each))

    def values(self, tag_of_word: Figures) -> Judged:
        """What the n-gram models make of each token of the whole text."""
        pieces = [given.values(tag_of_word) for given in self.each]
        mine = [np.flatnonzero(self.number == k) for k in range(len(self.each))]
        places = np.concatenate([self.text.places(sentences, ends=True) for sentences in mine])
        joined = Judged(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))
        return joined.at(np.argsort(places))


def deleted(
    model: CompositeModel, whole: Expected, own: Expected, remembered: RulePrior
) -> CompositeModel:
    """The model that the rest of a text would have taught.

    A rule that the fold alone has used is made improbable, not impossible: it is needed there.
    """
    rest = remembered.added(whole.without(own))
    rules, start = rest.rules.clamp(min=RARE), rest.start.clamp(min=RARE)
    return maximised(model, replace(rest, rules=rules, start=start))


def total(counts: Sequence[Expected]) -> Expected:
    """The counts of all folds together."""
    return sum(counts[1:], counts[0])

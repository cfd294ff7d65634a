"""How often tags are right: on all tokens, on words seen in training and on the others.

And how well tags that were found without names agree with true ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import eq

import numpy as np
from jaxtyping import Int

from mrflearn.errors import DataError
from mrflearn.evaluation.chunks import paired


@dataclass(frozen=True, slots=True)
class Share:
    """Correct answers of all answers; the accuracy of none is NaN."""

    correct: int
    total: int

    @property
    def accuracy(self) -> float:
        """The share itself, between 0 and 1."""
        return self.correct / self.total if self.total else float("nan")


@dataclass(frozen=True, slots=True)
class TaggingReport:
    """Tokens and whole sentences that are right; `seen` and `unseen` where words were given."""

    tokens: Share
    sentences: Share
    seen: Share | None = None
    unseen: Share | None = None


def tagging_report(
    truth: Iterable[Sequence[str]],
    predicted: Iterable[Sequence[str]],
    *,
    words: Sequence[Sequence[str]] | None = None,
    known: Collection[str] | None = None,
) -> TaggingReport:
    """Shares of right tags; with the `words` and those `known` from training also by novelty."""
    if (words is None) != (known is None):
        raise DataError("accuracy on unseen words needs both: the words, and the known ones.")
    right = hits(truth, predicted)
    tokens = Share(sum(map(sum, right)), sum(map(len, right)))
    sentences = Share(sum(map(all, right)), len(right))
    if words is None or known is None:
        return TaggingReport(tokens, sentences)
    if list(map(len, words)) != list(map(len, right)):
        raise DataError("words and tags are not of the same sentences: their lengths differ.")
    flat = zip(chain.from_iterable(words), chain.from_iterable(right), strict=True)
    novel = [hit for word, hit in flat if word not in known]
    unseen = Share(sum(novel), len(novel))
    seen = Share(tokens.correct - unseen.correct, tokens.total - unseen.total)
    return TaggingReport(tokens, sentences, seen, unseen)


def hits(truth: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> list[list[bool]]:
    """Which tags of each sentence are right."""
    return [list(map(eq, true, guess)) for true, guess in paired(truth, predicted)]


@dataclass(frozen=True, eq=False)
class Confusion:
    """`counts[i, j]`: tokens whose true tag is `labels[i]` and whose predicted tag `labels[j]`."""

    labels: tuple[str, ...]
    counts: Int[np.ndarray, "s s"]

    def worst(self, count: int) -> list[tuple[str, str, int]]:
        """The (true, predicted, tokens) mistakes made most often, at most `count` of them."""
        wrong = self.counts - np.diag(np.diag(self.counts))
        order = np.argsort(-wrong, axis=None, kind="stable")[:count]
        places = zip(*np.unravel_index(order, wrong.shape), strict=True)
        return [
            (self.labels[i], self.labels[j], int(wrong[i, j])) for i, j in places if wrong[i, j]
        ]


def confusion(truth: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> Confusion:
    """The table of true against predicted tags, labels in alphabetical order."""
    pairs = Counter[tuple[str, str]]()
    for tags in paired(truth, predicted):
        pairs.update(zip(*tags, strict=True))
    labels = sorted({label for pair in pairs for label in pair})
    number = {label: i for i, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for (true, guess), count in pairs.items():
        counts[number[true], number[guess]] = count
    return Confusion(tuple(labels), counts)


def many_to_one(truth: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> float:
    """The accuracy when every induced tag is mapped to its most frequent true tag."""
    counts = confusion(truth, found).counts
    return float(counts.max(axis=0).sum()) / float(counts.sum()) if counts.size else math.nan


def v_measure(truth: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> float:
    """The harmonic mean of homogeneity and completeness [Rosenberg, Hirschberg 2007]."""
    from sklearn.metrics import v_measure_score

    pairs = [pair for own in paired(truth, found) for pair in zip(*own, strict=True)]
    return float(v_measure_score(*zip(*pairs, strict=True))) if pairs else math.nan

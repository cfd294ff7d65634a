"""Interpolated modified Kneser-Ney smoothing [Chen & Goodman 1999], as KenLM's lmplz defines it.

K. Heafield, I. Pouzyrevsky, J. Clark, P. Koehn: Scalable modified Kneser-Ney language model
estimation, ACL 2013; equations below are theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mrflearn.features.ngrams import Counts, NgramCounts
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.models.ngram import BackoffTable, NgramModel

Figures: TypeAlias = NDArray[np.float64]
# lmplz's --discount_fallback, for corpora so small or so odd that counts of counts say nothing.
FALLBACK = (0.5, 1.0, 1.5)


def kneser_ney(counts: Sequence[NgramCounts], vocabulary: Vocabulary) -> NgramModel:
    """The interpolated model of the highest order counted; it sums to 1 after every context."""
    states = len(vocabulary)
    adjusted = adjusted_counts(counts)
    # [Heafield 2013, eq. 4] Unigrams interpolate with the uniform distribution.
    lower: Figures = np.full(states, 1 / states)
    probabilities, backoffs = [], []
    for n, (grams, seen) in enumerate(zip(counts, adjusted, strict=True), start=1):
        context = grams.code // states if n > 1 else np.zeros(states, np.int64)
        contexts = len(counts[n - 2]) if n > 1 else 1
        cut = discount_of(seen, discounts(seen)[0])
        total = np.bincount(context, weights=seen, minlength=contexts)
        # [eqs. 2, 3] What the discounts take from a context is shared out by the order below.
        share = np.bincount(context, weights=cut, minlength=contexts)
        backoff = np.divide(share, total, out=np.ones(contexts), where=total > 0)
        below = lower[grams.suffix] if n > 1 else lower
        lower = (seen - cut) / total[context] + backoff[context] * below
        probabilities.append(lower)
        if n > 1:
            backoffs.append(backoff)
    backoffs.append(np.ones(len(lower)))
    tables = tuple(
        BackoffTable(grams.code, np.log(p), np.log(b))
        for grams, p, b in zip(counts, probabilities, backoffs, strict=True)
    )
    return NgramModel(vocabulary, tables)


def adjusted_counts(counts: Sequence[NgramCounts]) -> list[Counts]:
    """[eq. 1] Occurrences in the highest order, and how many words come before, in the others.

    Nothing comes before the beginning of a sentence: n-grams from there keep their occurrences.
    """
    before = [np.bincount(above.suffix, minlength=len(grams)) for grams, above in pairwise(counts)]
    kept = [
        np.where(grams.begins, grams.count, b) for grams, b in zip(counts, before, strict=False)
    ]
    return [*kept, counts[-1].count]


def discounts(adjusted: Counts) -> tuple[Figures, bool]:
    """What is taken from counts of 1, 2 and more, and whether the fallback had to serve."""
    t1, t2, t3, t4 = (int((adjusted == k).sum()) for k in (1, 2, 3, 4))
    if min(t1, t2, t3) == 0:
        return np.array(FALLBACK), True
    # [Chen & Goodman 1999, eq. 26]
    y = t1 / (t1 + 2 * t2)
    found = np.array([1 - 2 * y * t2 / t1, 2 - 3 * y * t3 / t2, 3 - 4 * y * t4 / t3])
    if (found <= 0).any() or (found > (1, 2, 3)).any():
        return np.array(FALLBACK), True
    return found, False


def discount_of(adjusted: Counts, discount: Figures) -> Figures:
    """The discount of each n-gram; none is taken from what was never seen."""
    return np.concatenate([[0.0], discount])[np.minimum(adjusted, 3)]

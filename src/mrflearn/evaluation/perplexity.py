"""Perplexity that says what it is counted over."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mrflearn.models.ngram import TokenScores


@dataclass(frozen=True)
class Perplexity:
    """Log-probability of a text, and its perplexity per token.

    Tokens are words and one end for each sentence.  `without_unknown` leaves unknown words out
    of both the sum and the count, so it is lower, and compares only over equal vocabularies.
    """

    perplexity: float
    without_unknown: float
    log_likelihood: float  # nats, of all tokens
    tokens: int
    sentences: int
    unknown: int

    @property
    def words(self) -> int:
        return self.tokens - self.sentences

    @property
    def nats_per_token(self) -> float:
        return self.log_likelihood / self.tokens


def perplexity(scores: TokenScores) -> Perplexity:
    """The figures of a text whose tokens were scored one by one."""
    values = scores.log_probability
    known = values[~scores.unknown]
    return Perplexity(
        perplexity=_perplexity(float(values.mean())),
        without_unknown=_perplexity(float(known.mean()) if len(known) else math.nan),
        log_likelihood=float(values.sum()),
        tokens=len(values),
        sentences=int(np.count_nonzero(scores.ends)),
        unknown=int(np.count_nonzero(scores.unknown)),
    )


def _perplexity(mean: float) -> float:
    # A mean that overflows stands for an impossible token.
    return math.exp(-mean) if not mean < -700 else math.inf

"""Topic shares of unseen documents: folding in, sentence by sentence.

Before each sentence the shares are those that the sentences *before* it make most probable, after
a Dirichlet prior around the shares of the training text.  So no sentence is scored with the help
of its own words, and the scores of a document's sentences multiply to a probability of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Figures: TypeAlias = NDArray[np.float64]


def shares_before_each(
    by_topic: Figures,
    otherwise: Figures,
    ends: NDArray[np.int64],
    prior: Figures,
    strength: float,
    steps: int = 5,
) -> Iterator[Figures]:
    """The topic shares before each sentence of one document, and a last row after all of them.

    by_topic: (tokens, topics), what each topic gives a token; otherwise: what it has from levels
    that look at no topic; ends: where each sentence ends among the tokens.
    """
    shares = prior
    yield shares
    for end in ends.tolist():
        for _ in range(steps):
            shares = fold_step(by_topic[:end], otherwise[:end], shares, prior, strength)
        yield shares


def fold_step(
    by_topic: Figures, otherwise: Figures, shares: Figures, prior: Figures, strength: float
) -> Figures:
    """One EM step for the shares of a document: expected draws of topics and the prior's."""
    total = otherwise + by_topic @ shares
    drawn = shares * ((1 / np.maximum(total, np.finfo(np.float64).tiny)) @ by_topic)
    raised = drawn + strength * prior
    whole = raised.sum()
    return np.asarray(raised / whole) if whole > 0 else prior

"""Data of a hidden Markov model of mixed order [Sutton 2009, eqs. 43, 44].

p(y_t | y_t-1, y_t-2) and p(x_t | y_t, x_t-1) are mixtures: alpha of a table with both conditions,
1 - alpha of one with the first alone.  The paper leaves open how the tables are drawn; here every
row is of a flat Dirichlet distribution, and sequences start from condition 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

STATES, SIGNS, LENGTH = 5, 26, 25
ALPHAS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
MODELS = 25  # generating models for each alpha


@dataclass(frozen=True, eq=False)
class MixedOrderModel:
    """The mixed tables; axes in the order of conditions, the drawn value last."""

    step: Float[np.ndarray, "s s s"]  # y_t-2, y_t-1, y_t
    sign: Float[np.ndarray, "o s o"]  # x_t-1, y_t, x_t

    @classmethod
    def drawn(cls, alpha: float, seed: int) -> MixedOrderModel:
        """A model with tables drawn at random."""
        generator = np.random.default_rng([seed, round(1000 * alpha)])
        steps = generator.dirichlet(np.ones(STATES), (STATES, STATES))
        step = generator.dirichlet(np.ones(STATES), (1, STATES))
        signs = generator.dirichlet(np.ones(SIGNS), (SIGNS, STATES))
        sign = generator.dirichlet(np.ones(SIGNS), (1, STATES))
        return cls(alpha * steps + (1 - alpha) * step, alpha * signs + (1 - alpha) * sign)

    def sample(
        self, count: int, generator: np.random.Generator
    ) -> tuple[Int[np.ndarray, "n t"], Int[np.ndarray, "n t"]]:
        """Signs and states of so many sequences."""
        signs = np.zeros((count, LENGTH), dtype=np.int64)
        states = np.zeros((count, LENGTH), dtype=np.int64)
        second = first = sign = np.zeros(count, dtype=np.int64)
        for t in range(LENGTH):
            second, first = first, _draw(self.step[second, first], generator)
            sign = _draw(self.sign[sign, first], generator)
            states[:, t], signs[:, t] = first, sign
        return signs, states


def _draw(rows: Float[np.ndarray, "n k"], generator: np.random.Generator) -> Int[np.ndarray, " n"]:
    """One value from each row of probabilities."""
    below = rows.cumsum(axis=1) < generator.random((len(rows), 1))
    return np.minimum(below.sum(axis=1), rows.shape[1] - 1)

"""The chain whose states are windows of two words: log Z of a text of context 2, all but exactly.

T moves a window (x, y) on to (y, z) and holds every score that z takes part in, triples among them:

    T(xy, yz) = exp( unary(z) + pair_1(y, z) + pair_2(x, z) + triple(x, y, z) )
    log Z / N = log trace(T^N) / N <= log lambda + 2 log(C) / N

Without triples T times a vector is one product of two C x C matrices, so that a GPU can do it for
ten thousand words.  What power iteration ends with is certified as chains are [Collatz, Wielandt].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.neighbour_scores import NeighbourScores
from mrflearn.inference.perron import PerronVectors
from mrflearn.kernels.log_product import log_product


@final
@dataclass(frozen=True, eq=False)
class WindowScores:
    """The logarithm of T: scores of the last word with the nearer, the further, and both.

    Vectors are given by their logarithms, one number a window, as the single row of a table.
    """

    near: Float[Tensor, "c c"]
    far: Float[Tensor, "c c"]
    triples: Float[Tensor, "c c c"] | None
    weights: Float[Tensor, "1"]

    @classmethod
    def of(cls, scores: NeighbourScores) -> WindowScores:
        near, far = scores.tables()
        return cls(near + scores.unary, far, scores.triples, scores.unary.new_ones(1))

    def right_step(self, vectors: Float[Tensor, "1 w"]) -> Float[Tensor, "1 w"]:
        """log (T v)."""
        return self._before(self.near + self._square(vectors)).view(1, -1)

    def both_steps(self, vectors: PerronVectors) -> PerronVectors:
        """log (T^T u) and log (T v)."""
        left = self.near + self._after(self._square(vectors.left))
        return PerronVectors(left.view(1, -1), self.right_step(vectors.right))

    def alone(self, k: int) -> WindowScores:
        """The scores of the only chain there is."""
        del k
        return self

    def quotients(
        self, left: Float[Tensor, "1 w"], right: Float[Tensor, "1 w"]
    ) -> Float[Tensor, "1"]:
        """log (u^T T v)."""
        parts = self._after(self._square(left)) + self.near + self._square(right)
        return parts.flatten().logsumexp(0, keepdim=True)

    def _before(self, last: Float[Tensor, "y z"]) -> Float[Tensor, "x y"]:
        """Sums out the last word z of three, given the scores of the later two."""
        if self.triples is None:
            return log_product(self.far, last)
        return (self.far.unsqueeze(1) + self.triples + last).logsumexp(2)

    def _after(self, first: Float[Tensor, "x y"]) -> Float[Tensor, "y z"]:
        """Sums out the first word x of three, given the scores of the earlier two."""
        if self.triples is None:
            return log_product(first.T, self.far.T)
        return (first.unsqueeze(2) + self.far.unsqueeze(1) + self.triples).logsumexp(0)

    def _square(self, vectors: Float[Tensor, "1 w"]) -> Float[Tensor, "c c"]:
        return vectors.view_as(self.near)

"""Upper bounds on log Z of a lifted language model: stars, chains, windows.

[Jernite, Rush, Sontag 2015, section 4.4]  K + 1 forests of stars, each a position with its K right
neighbours, hold every edge of the ring once.  All stars are alike, so one of them is enough, and
the bound holds for every value of the dual variables that tie its K + 1 copies of a word.

By convexity log Z <= sum_l rho_l log Z_l for weights rho of sum 1, where field l keeps the pairs at
one offset only, divided by rho_l.  On a ring these form gcd(l, N) rings of their own, and a ring of
n positions has the partition function trace(M^n) <= C lambda^n:

    log Z / N <= sum_l rho_l ( log lambda_l + rings_l log(C) / N )
    M_l(x, y) = exp( pair_l(x, y) / rho_l + unary(y) + dual_l(y) )      sum_l rho_l dual_l = 0

Largest eigenvalues come from power iteration without ever holding M, and are certified (`perron`).

T moves a window (x, y) on to (y, z) and holds every score that z takes part in, triples among them:

    T(xy, yz) = exp( unary(z) + pair_1(y, z) + pair_2(x, z) + triple(x, y, z) )
    log Z / N = log trace(T^N) / N <= log lambda + 2 log(C) / N

Without triples T times a vector is one product of two C x C matrices, so that a GPU can do it for
ten thousand words.  What power iteration ends with is certified as chains are [Collatz, Wielandt].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.lifted_scores import NeighbourScores
from mrflearn.inference.perron import PerronVectors, PowerScores, certify
from mrflearn.kernels.log_product import log_product
from mrflearn.kernels.low_rank_logsumexp import row_logsumexp
from mrflearn.kernels.power_step import power_step
from mrflearn.kernels.star_logsumexp import star_logsumexp

# An upper bound on log Z of a translation-invariant field from a covering by stars.


def star_log_partition(
    unary: Float[Tensor, " c"],
    left: Float[Tensor, "#k c d"],
    right: Float[Tensor, "#k c d"],
    duals: Float[Tensor, "k c"],
) -> Float[Tensor, ""]:
    """An upper bound on log Z / N, whatever the duals [eq. 15, 17]; jointly convex in all scores.

    On a ring N must be a multiple of K + 1, so that the stars cover it.
    """
    size = len(duals) + 1
    centre = unary - duals.sum(0)
    return star_logsumexp(left, right, unary + duals, centre, float(size)) / size


def tighten(
    unary: Float[Tensor, " c"],
    left: Float[Tensor, "#k c d"],
    right: Float[Tensor, "#k c d"],
    duals: Float[Tensor, "k c"],
    *,
    steps: int = 200,
    rate: float = 1e3,
    tolerance: float = 0.0,
) -> tuple[Float[Tensor, "k c"], list[float]]:
    """Duals after sub-gradient steps, and the bound on log Z / N before each [Algorithm 1].

    The rate is 10^3 / 2^t, t the number of steps so far after which the bound had not fallen
    [section 6]; steps end where copies of a word agree to within `tolerance` [eq. 13].  The duals
    that gave the lowest bound are handed back.
    """
    best, lowest = duals, float("inf")
    values: list[float] = []
    for _ in range(steps):
        value, disagreement = _value_and_disagreement(unary, left, right, duals)
        if values and value >= values[-1]:
            rate /= 2
        values.append(value)
        if value < lowest:
            best, lowest = duals, value
        if float(disagreement.abs().amax()) <= tolerance:
            break
        duals = duals - rate * disagreement
    return best, values


def _value_and_disagreement(
    unary: Tensor, left: Tensor, right: Tensor, duals: Tensor
) -> tuple[float, Float[Tensor, "k c"]]:
    """The bound, and by how much the copies' marginals differ from the centre's [eq. 16]."""
    leaf = duals.detach().requires_grad_(True)
    with torch.enable_grad():
        value = star_log_partition(unary.detach(), left.detach(), right.detach(), leaf)
        (slope,) = torch.autograd.grad(value, leaf)
    return float(value.detach()), slope * (len(duals) + 1)


# A tighter upper bound on log Z of a translation-invariant field, from a mixture of chains.


@final
@dataclass(frozen=True, eq=False)
class ChainCover:
    """The logarithms of the matrices M, one an offset: scale_l left_l . right_l + bias_l."""

    left: Float[Tensor, "k c d"]
    right: Float[Tensor, "k c d"]
    bias: Float[Tensor, "k c"]
    weights: Float[Tensor, " k"]

    @classmethod
    def of(
        cls,
        unary: Float[Tensor, " c"],
        left: Float[Tensor, "#k c d"],
        right: Float[Tensor, "#k c d"],
        duals: Float[Tensor, "k c"],
        weights: Float[Tensor, " k"],
    ) -> ChainCover:
        """Scores in which any duals may stand: their weighted mean is taken off."""
        centred = duals - weights @ duals
        spread = len(duals), -1, -1
        return cls(left.expand(spread), right.expand(spread), unary + centred, weights)

    def right_step(self, vectors: Float[Tensor, "k c"]) -> Float[Tensor, "k c"]:
        """log (M v), for vectors given and answered by their logarithms."""
        return row_logsumexp(self.left, self.right, self.bias + vectors, 1 / self.weights)

    def both_steps(self, vectors: PerronVectors) -> PerronVectors:
        """log (M^T u) and log (M v)."""
        scaled = self.left / self.weights.view(-1, 1, 1)
        further = power_step(scaled, self.right, self.bias, vectors.left, vectors.right)
        return PerronVectors(*further)

    def alone(self, k: int) -> ChainCover:
        """The scores of one offset."""
        one = slice(k, k + 1)
        return ChainCover(self.left[one], self.right[one], self.bias[one], self.weights[one])

    def quotients(
        self, left: Float[Tensor, "k c"], right: Float[Tensor, "k c"]
    ) -> Float[Tensor, " k"]:
        """log (u^T M v): at Perron vectors, log lambda plus log (u^T v)."""
        parts = zip(self.left, self.right, self.bias + right, left, self.weights, strict=True)
        values = [
            star_logsumexp(rows[None], columns[None], bias[None], centre, (1 / weight).view(1))
            for rows, columns, bias, centre, weight in parts
        ]
        return torch.stack(values)


def ring_term(
    weights: Float[Tensor, " k"], rings: tuple[int, ...], states: int, positions: int
) -> float:
    """What finite rings add to log Z / N: sum_l rho_l rings_l log(C) / N."""
    mean = sum(float(w) * count for w, count in zip(weights, rings, strict=True))
    return mean * math.log(states) / positions


def rings_of_text(offsets: int, positions: int) -> tuple[int, ...]:
    """How many rings the pairs at offset 1, 2, ... form on one ring of positions."""
    return tuple(math.gcd(offset, positions) for offset in range(1, offsets + 1))


def rings_of_torus(offsets: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> tuple[int, ...]:
    """How many rings the pairs at each offset form on a torus of this shape."""

    def length(offset: tuple[int, ...]) -> int:
        sides = zip(offset, shape, strict=True)
        return math.lcm(*(side // math.gcd(step, side) for step, side in sides))

    return tuple(math.prod(shape) // length(offset) for offset in offsets)


# The chain whose states are windows of two words: log Z of a text of context 2, all but exactly.


@final
@dataclass(frozen=True, eq=False)
class WindowScores:
    """The logarithm of T: scores of the last word with the nearer, the further, and both.

    Vectors are given by their logarithms, one number a window, as the single row of a table.
    """

    near: Float[Tensor, "c c"]
    far: Float[Tensor, "c c"]
    triples: Float[Tensor, "c c c"] | None
    weights: Float[Tensor, " 1"]

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
    ) -> Float[Tensor, " 1"]:
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


# An upper bound on log Z / N as it is reported: proven, in double precision.


BoundName = Literal["stars", "chains", "windows"]
FIRST_RATIO = 0.087  # the weight of each offset over that of the one before it
QUICK_STEPS, SURE_STEPS = 100, 10


@final
@dataclass(frozen=True)
class Ceiling:
    """log Z / N is at most `value`, plus what finite rings add to it; proven but for rounding.

    `slack` is how much lower it might be for the same dual variables.
    """

    bound: BoundName
    value: float
    slack: float
    weights: tuple[float, ...]

    def per_position(
        self, positions: int, states: int, rings: tuple[int, ...] | None = None
    ) -> float:
        """The bound on log Z / N for so many positions: one ring, unless `rings` says otherwise."""
        if self.bound == "stars":
            return self.value
        if self.bound == "windows":
            return self.value + 2 * math.log(states) / positions
        rings = rings or rings_of_text(len(self.weights), positions)
        return self.value + ring_term(torch.tensor(self.weights), rings, states, positions)


def default_weights(offsets: int, ratio: float = FIRST_RATIO) -> tuple[float, ...]:
    """Weights of the chains that fall off with distance, as the information of words does."""
    raw = [ratio**k for k in range(offsets)]
    return tuple(weight / sum(raw) for weight in raw)


@torch.no_grad()
def star_ceiling(scores: NeighbourScores, duals: Float[Tensor, "k c"]) -> Ceiling:
    """The stars' bound, which every evaluation gives, once more in double precision."""
    value = star_log_partition(*scores.double().pairwise, duals.double())
    return Ceiling("stars", float(value), 0.0, (1 / (len(duals) + 1),) * len(duals))


@torch.no_grad()
def chain_ceiling(
    scores: NeighbourScores,
    duals: Float[Tensor, "k c"],
    weights: tuple[float, ...],
    start: Float[Tensor, "k c"] | None = None,
    tolerance: float = 1e-5,
) -> Ceiling:
    """The chains' bound, certified in double precision after power steps in the scores' own."""
    rho = torch.tensor(weights, dtype=torch.float64, device=duals.device)
    begin = torch.zeros_like(duals) if start is None else start
    quick = ChainCover.of(*scores.pairwise, duals, rho.to(duals))
    sure = ChainCover.of(*scores.double().pairwise, duals.double(), rho)
    return Ceiling("chains", *_certified(quick, sure, begin, tolerance), weights)


@torch.no_grad()
def window_ceiling(
    scores: NeighbourScores, start: Float[Tensor, "1 w"] | None = None, tolerance: float = 1e-6
) -> Ceiling:
    """The bound of windows of two words, certified in the same way."""
    begin = scores.unary.new_zeros(1, scores.states**2) if start is None else start
    quick, sure = WindowScores.of(scores), WindowScores.of(scores.double())
    return Ceiling("windows", *_certified(quick, sure, begin, tolerance), (1.0,))


def _certified(
    quick: PowerScores, sure: PowerScores, start: Tensor, tolerance: float
) -> tuple[float, float]:
    """The proven limit, and how much lower the truth might be."""
    rough = certify(quick, start, tolerance=tolerance / 2, most=QUICK_STEPS)
    found = certify(sure, rough.right.double(), tolerance=tolerance, most=SURE_STEPS)
    return found.upper, found.upper - found.lower

"""Upper bounds on log Z of a ring of words, or of words and tags: stars, chains, windows.

[Jernite, Rush, Sontag 2015, sections 4.4 and 6]  **Stars.**  A star is a position with its K right
neighbours (and, of a tag, its L words).  Centres stand s = max(K + 1, L) apart, so that s forests
hold every edge of the ring once; what stands between two stars is an isolated node of the forest.
All stars are identical, so one of them is enough, and the bound holds for every value of the dual
variables that tie the copies of a word or a tag.

**Chains.**  By convexity log Z <= sum_f rho_f log Z_f for weights rho of sum 1, where every edge's
scores are divided by the weight of the fields that keep it.  Of a text field l keeps the pairs at
one offset only.  On a ring these form gcd(l, N) rings of their own, and a ring of n positions has
the partition function trace(M^n) <= C lambda^n:

    log Z / N <= sum_l rho_l ( log lambda_l + gcd(l, N) log(C) / N )
    M_l(x, y) = exp( pair_l(x, y) / rho_l + unary(y) + dual_l(y) )      sum_l rho_l dual_l = 0

Of a tagged text every field keeps the whole chain of tags, and some of the places at which tags see
words.  Given the tags words are independent, so they are summed out first; what remains is a chain
of tags in which three in a row meet:

    table_f(a, b, c) = log sum_w exp( right(a, w) + centre(b, w) + left(c, w) )
                       + transition_1(b, c) + transition_2(a, c)

With all places in one field nothing is divided, and the bound is exact up to log(states) / N.

**Windows.**  T moves a window (x, y) on to (y, z) and holds every score that z takes part in:

    T(xy, yz) = exp( unary(z) + pair_1(y, z) + pair_2(x, z) + triple(x, y, z) )
    log Z / N = log trace(T^N) / N <= log lambda + 2 log(C) / N

Without triples T times a vector is one product of two C x C matrices, so that a GPU can do it for
ten thousand words.

Largest eigenvalues come from power iteration without ever holding a matrix, and are certified
(`perron`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.lifted import CENTRE, LEFT, RIGHT, TagPotentials, WordPotentials
from mrflearn.inference.beliefs import Beliefs, Kind
from mrflearn.inference.perron import (
    LowRankMatrices,
    PositiveMatrices,
    TripleMatrices,
    Vectors,
    WindowMatrix,
    certify,
    follow,
    overlap,
    power_steps,
)
from mrflearn.kernels.log_product import sum_out_words
from mrflearn.kernels.low_rank import star_logsumexp

# What an inference on a ring hands back: beliefs to train with, and a proven bound to report.


def ring_beliefs(log_partition: Float[Tensor, ""], kind: Kind, **ending: Any) -> Beliefs:
    """log Z / N, with gradients to the potentials, which are all the marginals there are."""
    return Beliefs(log_partition, log_partition.new_empty(0, 0), (), kind, **ending)


@final
@dataclass(frozen=True)
class LogPartitionBound:
    """log Z / N is at most `value`, plus what finite rings add to it; proven but for rounding.

    `slack` is how much lower it might be for the same dual variables.  Chain f of the mixture has
    weight `weights[f]`, joins positions `offsets[f]` apart and has `states[f]` states (1 where a
    ring adds nothing).  N must be a multiple of `multiple`.
    """

    value: float
    slack: float
    weights: tuple[float, ...] = ()
    offsets: tuple[int, ...] = ()
    states: tuple[int, ...] = ()
    multiple: int = 1

    def per_position(self, positions: float, rings: Sequence[int] | None = None) -> float:
        """The bound on log Z / N for so many positions: one ring, unless `rings` says otherwise.

        A chain that falls into r rings adds at most r log(states) to N log lambda.
        """
        if rings is None:
            rings = [math.gcd(offset, int(positions)) for offset in self.offsets]
        parts = zip(self.weights, rings, self.states, strict=True)
        return self.value + sum(w * r * math.log(s) for w, r, s in parts) / positions


def rings_of_torus(offsets: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> tuple[int, ...]:
    """How many rings the pairs at each offset form on a torus of this shape."""

    def length(offset: tuple[int, ...]) -> int:
        sides = zip(offset, shape, strict=True)
        return math.lcm(*(side // math.gcd(step, side) for step, side in sides))

    return tuple(math.prod(shape) // length(offset) for offset in offsets)


P = TypeVar("P", WordPotentials, TagPotentials)
LiftedPotentials: TypeAlias = WordPotentials | TagPotentials
# Weights of chains, how far apart the positions are that each joins, and its number of states.
Rings: TypeAlias = tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]


class LiftedInference(ABC, Generic[P]):
    """log Z / N of a ring, as a function of its potentials and of a warm start.

    A `recorded` evaluation always does the same work, so that a GPU can replay it; `weights` say by
    how much the pairs at each offset count (None: all equally).
    """

    recorded: bool = False
    weights: Float[Tensor, " k"] | None = None

    def refuses(self, potentials: P) -> str | None:  # noqa: ARG002
        """Why these potentials cannot be handled (and what to try instead), or None."""
        return None

    def begin(self, potentials: P) -> Vectors | None:  # noqa: ARG002
        """A warm start for these potentials, from scratch."""
        return None

    def limits(self, like: Tensor) -> tuple[float, float]:  # noqa: ARG002
        """The residual and the gap above which an evaluation is repeated from where it ended."""
        return math.inf, math.inf

    @abstractmethod
    def __call__(
        self, potentials: P, warm: Vectors | None = None, *, thorough: bool = True
    ) -> Beliefs:
        """log Z / N to train with; where it is not `thorough`, it may not have converged.

        `residual` is what is left of the error of power iteration; `warm` of the beliefs is where
        it ended, with gradients.
        """


# Stars.


def star_spacing(distances: int, places: int = 0) -> int:
    """s: how far apart the centres of stars stand."""
    return max(distances + 1, places)


def tag_copies(distances: int, places: int) -> list[float]:
    """How many forests a tag is a leaf in, for each distance, isolated (if at all), a centre."""
    return [*_copies(distances, star_spacing(distances, places) - distances - 1), 1.0]


def word_copies(distances: int, places: int) -> list[float]:
    """How many forests a word is a leaf in, for each place, and isolated (if at all)."""
    return _copies(places, star_spacing(distances, places) - places)


def _copies(leaves: int, isolated: int) -> list[float]:
    return [1.0] * leaves + [float(isolated)] * (isolated > 0)


def balanced(free: Float[Tensor, "f x"], multiplicity: Sequence[float]) -> Float[Tensor, "f+1 x"]:
    """Duals of all copies of a node: the last is such that their weighted sum is 0."""
    weights = torch.tensor(multiplicity, dtype=free.dtype, device=free.device)
    last = -(weights[:-1] @ free) / weights[-1]
    return torch.cat([free, last.unsqueeze(0)])


def star_log_partition(potentials: LiftedPotentials) -> Float[Tensor, ""]:
    """An upper bound on log Z / N, whatever the duals [eq. 15, 17]; jointly convex in all scores.

    On a ring N must be a multiple of the stars' spacing, so that they cover it.
    """
    if isinstance(potentials, WordPotentials):
        unary, left, right, *_ = potentials
        duals = _word_duals(potentials)
        size, centre = len(duals) + 1, unary - duals.sum(0)
        return star_logsumexp(left, right, unary + duals, centre, float(size)) / size
    return _tag_stars(potentials)


def _tag_stars(potentials: TagPotentials) -> Float[Tensor, ""]:
    distances, places = len(potentials.transitions), len(potentials.words)
    spacing = star_spacing(distances, places)
    duals = Stars().duals(potentials)
    of_tags = balanced(duals["tag_duals"], tag_copies(distances, places))
    of_words = balanced(duals["word_duals"], word_copies(distances, places))
    star = of_tags[-1]
    for table, dual in zip(potentials.transitions, of_tags, strict=False):
        star = star + torch.logsumexp(spacing * table + dual, dim=1)
    for table, dual in zip(potentials.words.values(), of_words, strict=False):
        star = star + torch.logsumexp(spacing * table + dual.unsqueeze(1), dim=0)
    total = torch.logsumexp(star, 0)
    total = total + _isolated(of_tags[distances:-1], spacing - distances - 1)
    total = total + _isolated(of_words[places:], spacing - places)
    return total / spacing


def _isolated(duals: Float[Tensor, "f x"], number: int) -> Tensor | float:
    return number * torch.logsumexp(duals[0], 0) if number else 0.0


@final
@dataclass(frozen=True)
class Stars(LiftedInference[Any]):
    """The covering of [Jernite, Rush, Sontag 2015]; every value is a bound."""

    recorded: bool = False

    def duals(self, potentials: TagPotentials) -> dict[str, Tensor]:
        """The dual variables of tagged text by name: those of the potentials, or zeros."""
        shape = len(potentials.transitions), len(potentials.words)
        return _tag_duals(potentials, len(tag_copies(*shape)) - 1, len(word_copies(*shape)) - 1)

    def __call__(
        self, potentials: LiftedPotentials, warm: object = None, *, thorough: bool = True
    ) -> Beliefs:
        del warm, thorough
        return ring_beliefs(star_log_partition(potentials), "upper bound")

    @torch.no_grad()
    def bound(self, potentials: LiftedPotentials, warm: object = None) -> LogPartitionBound:
        """The value once more, in double precision."""
        del warm
        value = float(star_log_partition(potentials.double()))
        if isinstance(potentials, TagPotentials):
            spacing = star_spacing(len(potentials.transitions), len(potentials.words))
            return LogPartitionBound(value, 0.0, multiple=spacing)
        k, size = potentials.offsets, star_spacing(potentials.offsets)
        every = tuple(range(1, k + 1))
        return LogPartitionBound(value, 0.0, (1 / size,) * k, every, (1,) * k, size)


def _word_duals(potentials: WordPotentials) -> Float[Tensor, "k c"]:
    if potentials.duals is not None:
        return potentials.duals
    return potentials.unary.new_zeros(potentials.offsets, potentials.states)


def _tag_duals(potentials: TagPotentials, of_tags: int, of_words: int) -> dict[str, Tensor]:
    tag_duals, word_duals = potentials[2:]
    if tag_duals is None or word_duals is None:
        like = potentials.transitions
        tag_duals = like.new_zeros(of_tags, potentials.tags)
        word_duals = like.new_zeros(of_words, potentials.vocabulary)
    return {"tag_duals": tag_duals, "word_duals": word_duals}


# Chains and windows: bounds by largest eigenvalues.


FIRST_RATIO = 0.087  # the weight of each offset over that of the one before it
FEW_STATES = 1000
MOST_STEPS, HASTY_STEPS = 30, 5  # power steps of an evaluation, and of a first answer
STEP_GAIN = 3  # a step narrows the gap at least so often
STEPS_UNSEEN = 4  # on a GPU, where a recorded evaluation cannot look
DRIFT_UNSEEN = 5e-5  # what is left of the error of a recorded evaluation, at most
QUICK_STEPS = 100  # of certificates in the scores' own precision, at most


def closeness(like: Vectors) -> tuple[float, float, float]:
    """How closely Perron vectors follow the parameters: tolerance and gap of `follow`.

    Comes with the gap of a first answer among many states.
    """
    few = like.shape[-1] <= FEW_STATES
    if like.dtype == torch.float32:
        return (5e-5, 1e-3, 1e-3) if few else (2e-4, 1e-2, 1e-1)
    return (1e-10, 1e-6, 1e-6) if few else (1e-7, 1e-4, 1e-4)


class Spectral(LiftedInference[P]):
    """A bound by largest eigenvalues, from Perron vectors that follow the parameters.

    u^T M v / u^T v errs only by the product of the errors of u and v, and its gradient gives the
    next power step of both for nothing.  During training the value is thus an estimate of the
    bound; `bound` certifies it.  A `recorded` evaluation always takes the same number of steps.
    """

    tolerance: ClassVar[float]  # of certificates
    sure_steps: ClassVar[int] = 10  # of them in double precision, at most

    @abstractmethod
    def matrices(self, potentials: P) -> PositiveMatrices:
        """The matrices whose largest eigenvalues bound log Z."""

    @abstractmethod
    def ones(self, potentials: P) -> Vectors:
        """Vectors of ones, as many and as long as the matrices need."""

    @abstractmethod
    def rings(self, potentials: P) -> Rings:
        """Weight, offset and number of states of each chain; see `LogPartitionBound`."""

    def proof(self) -> Self:
        """The same in double precision."""
        return self

    def limits(self, like: Tensor) -> tuple[float, float]:
        tolerance, _, first = closeness(like)
        if not self.recorded:
            return math.inf, first
        return DRIFT_UNSEEN if like.dtype == torch.float32 else tolerance, math.inf

    def pursue(
        self, matrices: PositiveMatrices, warm: Vectors, *, thorough: bool
    ) -> tuple[Vectors, Float[Tensor, "_ k"], bool]:
        """Vectors after power steps, what log lambda was on the way, whether they converged.

        Among many states steps cost much.  There a first answer is followed less closely: how wide
        its gap is comes with the gradient, and only where it is too wide steps go on.
        """
        tolerance, gap, first = closeness(warm)
        closely = thorough or warm.shape[-1] <= FEW_STATES
        steps, gap = (MOST_STEPS, gap) if closely else (HASTY_STEPS, STEP_GAIN * first)
        vectors, growth = follow(matrices, warm, tolerance, steps, gap)
        return vectors, growth, closely

    def begin(self, potentials: P) -> Vectors:
        return self.pursue(self.matrices(potentials), self.ones(potentials), thorough=True)[0]

    def __call__(
        self, potentials: P, warm: Vectors | None = None, *, thorough: bool = True
    ) -> Beliefs:
        matrices = self.matrices(potentials)
        warm = self.begin(potentials) if warm is None else warm
        converged = True
        if self.recorded:
            vectors, growth = power_steps(matrices, warm, STEPS_UNSEEN)
        else:
            vectors, growth, converged = self.pursue(matrices, warm, thorough=thorough)
        vectors = vectors.detach().requires_grad_(True)
        value = matrices.weights @ (matrices.quotients(vectors) - overlap(vectors.detach()))
        first, second = growth[:2] @ matrices.weights
        residual = _left_of_error(first, second, value.detach())
        ending = {"residual": residual, "converged": converged, "warm": vectors}
        return ring_beliefs(value, "approximation", **ending)

    @torch.no_grad()
    def bound(self, potentials: P, warm: Vectors | None = None) -> LogPartitionBound:
        """The value once more, proven in double precision."""
        start = (self.ones(potentials) if warm is None else warm)[1]
        own, sure = self.matrices(potentials), self.proof().matrices(potentials.double())
        rough = certify(own, start, tolerance=self.tolerance / 2, most=QUICK_STEPS)
        found = certify(sure, rough.right.double(), tolerance=self.tolerance, most=self.sure_steps)
        rings = self.proof().rings(potentials)
        return LogPartitionBound(found.upper, found.upper - found.lower, *rings)


def _left_of_error(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """What a sequence that converges geometrically would still move by in one more step."""
    before, after = (second - first).abs(), (third - second).abs()
    return after * (after / before.clamp_min(torch.finfo(after.dtype).tiny)).clamp_max(1.0)


@final
@dataclass(frozen=True, eq=False)
class Chains(Spectral[WordPotentials]):
    """The words of a text, as one chain per offset; `weights` sum to 1, but for rounding."""

    weights: Float[Tensor, " k"]
    recorded: bool = False
    tolerance: ClassVar[float] = 1e-5

    def matrices(self, potentials: WordPotentials) -> LowRankMatrices:
        rho, duals = self.weights.to(potentials.unary), _word_duals(potentials)
        # Any duals may stand in the potentials: their weighted mean is taken off.
        bias = potentials.unary + (duals - rho @ duals)
        return LowRankMatrices(*potentials.factors(), bias, rho)

    def ones(self, potentials: WordPotentials) -> Vectors:
        return potentials.unary.new_zeros(2, potentials.offsets, potentials.states)

    def proof(self) -> Chains:
        weights = self.weights.double()
        return replace(self, weights=weights / weights.sum())

    def rings(self, potentials: WordPotentials) -> Rings:
        k = len(self.weights)
        states = (potentials.states,) * k
        return tuple(self.weights.tolist()), tuple(range(1, k + 1)), states


@final
@dataclass(frozen=True)
class Windows(Spectral[WordPotentials]):
    """The windows of two words of a text of context 2; they have duals, but do not read them."""

    tolerance: ClassVar[float] = 1e-6
    most_words: ClassVar[dict[str, int]] = {"cpu": 4_000, "cuda": 20_000}

    def refuses(self, potentials: WordPotentials) -> str | None:
        return self.refuses_size(potentials.offsets, potentials.states, potentials.unary.device)

    @classmethod
    def refuses_size(cls, offsets: int, states: int, device: torch.device) -> str | None:
        """Why texts of this context and vocabulary cannot be handled, or None."""
        if offsets != 2:
            return (
                f"windows of two words are for a context of 2, not of {offsets}. Try chains: for a "
                "context of 1 they are as exact."
            )
        most = cls.most_words[device.type]
        if states <= most:
            return None
        return (
            f"{states:,} words are too many for windows of two (at most {most:,} here). Try a GPU "
            "(device cuda), a smaller vocabulary, or chains."
        )

    def matrices(self, potentials: WordPotentials) -> WindowMatrix | TripleMatrices:
        near, far = potentials.tables()
        near, one = near + potentials.unary, potentials.unary.new_ones(1)
        if potentials.triples is None:
            return WindowMatrix(near, far, one)
        return TripleMatrices((far.unsqueeze(1) + potentials.triples + near).unsqueeze(0), one)

    def ones(self, potentials: WordPotentials) -> Vectors:
        return potentials.unary.new_zeros(2, 1, potentials.states**2)

    def rings(self, potentials: WordPotentials) -> Rings:
        return (1.0,), (1,), (potentials.states**2,)


class Subfield(NamedTuple):
    """A chain of tags with the words at some places, and its weight in the mixture."""

    places: tuple[int, ...]
    weight: float


MOST_DISTANCES = 2


@final
@dataclass(frozen=True)
class TagChains(Spectral[TagPotentials]):
    """Chains of tags with words summed out: all places in one, or some in each of several."""

    parts: tuple[Subfield, ...]
    tolerance: ClassVar[float] = 1e-9
    sure_steps: ClassVar[int] = 500

    @classmethod
    def exact(cls, places: Sequence[int]) -> TagChains:
        """All places in one subfield."""
        return cls((Subfield(tuple(places), 1.0),))

    @classmethod
    def mixed(cls, places: Sequence[int]) -> TagChains:
        """The centre with each of the other places in turn."""
        others = [place for place in places if place != CENTRE]
        if len(others) < 2:
            return cls.exact(places)
        return cls(tuple(Subfield((CENTRE, place), 1 / len(others)) for place in others))

    @property
    def shares(self) -> dict[int, float]:
        """For each place the weight of all subfields that have it."""
        places = {place for part in self.parts for place in part.places}
        return {p: sum(part.weight for part in self.parts if p in part.places) for p in places}

    def duals(self, potentials: TagPotentials) -> dict[str, Tensor]:
        """The dual variables by name: those of the potentials, or zeros."""
        return _tag_duals(potentials, len(self.parts) - 1, len(self.parts) - 1)

    def tables(self, potentials: TagPotentials) -> list[Float[Tensor, "#t t t"]]:
        """Scores of three tags in a row, words summed out; the first is absent if nothing asks."""
        distances = len(potentials.transitions)
        if distances > MOST_DISTANCES:
            bind = f"chains bind tags up to {MOST_DISTANCES} apart, not {distances}"
            raise InferenceError(f"{bind}; stars take any distance.")
        weights = [part.weight for part in self.parts]
        duals = [balanced(own, weights) for own in self.duals(potentials).values()]
        rows = zip(self.parts, *duals, strict=True)
        return [self._table(potentials, *row) for row in rows]

    def _table(
        self,
        potentials: TagPotentials,
        part: Subfield,
        tag_dual: Float[Tensor, " t"],
        word_dual: Float[Tensor, " w"],
    ) -> Float[Tensor, "#t t t"]:
        transitions, words = potentials.transitions.double(), potentials.words
        nothing = words[CENTRE].new_zeros(potentials.vocabulary, 1)
        seen = {p: words[p] / share for p, share in self.shares.items() if p in part.places}
        # The tag before a word sees it at its right.
        before, at, after = (seen.get(place, nothing) for place in (RIGHT, CENTRE, LEFT))
        table = sum_out_words(before, at + word_dual.to(at).unsqueeze(1), after).double()
        table = table + tag_dual.double().unsqueeze(1) + transitions[0]
        return table + transitions[1].unsqueeze(1) if len(transitions) > 1 else table

    def matrices(self, potentials: TagPotentials) -> TripleMatrices:
        shape = potentials.tags, -1, -1
        tables = torch.stack([own.expand(shape) for own in self.tables(potentials)])
        return TripleMatrices(tables, tables.new_tensor([part.weight for part in self.parts]))

    def ones(self, potentials: TagPotentials) -> Vectors:
        shape = 2, len(self.parts), potentials.tags**2
        return potentials.transitions.new_zeros(shape, dtype=torch.float64)

    def pursue(
        self, matrices: PositiveMatrices, warm: Vectors, *, thorough: bool
    ) -> tuple[Vectors, Float[Tensor, "_ k"], bool]:
        """Steps cost little beside the sums over words: they go on until gradients are exact."""
        del thorough
        assert isinstance(matrices, TripleMatrices)  # noqa: S101 - of `matrices`
        near = matrices.approach(warm, tolerance=1e-10, most=200)
        return *power_steps(matrices, near, 1), True

    def rings(self, potentials: TagPotentials) -> Rings:
        second = len(potentials.transitions) > 1
        # A chain's state is one tag where the table does not read the first of three.
        orders = (2 if second or RIGHT in part.places else 1 for part in self.parts)
        states = tuple(potentials.tags**order for order in orders)
        return tuple(part.weight for part in self.parts), (1,) * len(self.parts), states


def default_weights(offsets: int, ratio: float = FIRST_RATIO) -> tuple[float, ...]:
    """Weights of the chains that fall off with distance, as the information of words does."""
    raw = [ratio**k for k in range(offsets)]
    return tuple(weight / sum(raw) for weight in raw)

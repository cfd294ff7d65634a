"""L-BFGS: what it remembers, what it shares with OWL-QN, and its line search.

R. Byrd, J. Nocedal and R. Schnabel, Representations of quasi-Newton matrices and their use in
limited memory methods, Math. Programming 63 (1994), eq. 3.1: with steps S and changes of gradient
Y, and R the upper triangle of S'Y, D its diagonal,

    H = c I + [S  cY] [ R^-T (D + c Y'Y) R^-1   -R^-T ] [ S'  ]
                      [        -R^-1               0  ] [ c Y']

so that the work on long vectors is one product with the vector v to read off inner products and one
to combine vectors; the rest happens on history x history numbers in float64 on the host.
p: parameters; h: pairs remembered; r: rows in use.

The line search: J. More and D. Thuente, Line search algorithms with guaranteed sufficient decrease,
ACM TOMS 20 (1994); with the approximate conditions of W. Hager and H. Zhang, SIAM J. Optim. 16
(2005), eq. 4.1, which go on working where the fall of the value is lost in rounding; and at a
corner, where the derivative jumps past both, with the weak conditions of A. Lewis and M. Overton,
Nonsmooth optimization via quasi-Newton methods, Math. Programming 141 (2013).

Bethe's value follows one fixed point of belief propagation for as long as there is one.  Where that
ends the value jumps, mostly upwards, and a line search stops at the edge though the gradient is far
from zero.  So training steps over it and descends on from the other side.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from scipy.linalg.lapack import dtrtrs
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.objectives.base import Evaluation, Vector
from mrflearn.objectives.problem import Problem, measure_noise
from mrflearn.training.checkpoint import restore_into
from mrflearn.training.outcome import StopRule, Verdict

# What L-BFGS remembers, and the direction it gives, in two passes over one buffer.


Numbers = npt.NDArray[np.float64]
# Rows 0 and 1 of the buffer hold the descent vectors at the current and at the trial point, by
# turns; then come the slots, a step and its change of gradient each, one slot always free.
SLOTS = 2
MOST_ROUNDING = 1e-5


@final
@dataclass(eq=False)
class CurvaturePairs:
    """A ring of the last pairs (step, change of gradient), and their inner products.

    The caller writes what it tries to `step` and `trial`, measures it, and may accept it.  Nothing
    is lost where it does not: what it writes to is no part of what is remembered.
    """

    rows: Float[Tensor, "r p"]
    step_change: Numbers  # S'Y; only older x newer is kept true
    change_change: Numbers  # Y'Y
    along: Numbers  # S'v and Y'v
    current: int = 0  # the row of the current descent vector
    count: int = 0  # pairs in the ring
    free: int = 0  # the slot that is free
    scale: float = 0.0  # c above; 0 before the first pair
    square: float = 0.0  # v'v for the current descent vector v

    @classmethod
    def of(cls, history: int, like: Vector) -> CurvaturePairs:
        """An empty memory for so many pairs."""
        slots = history + 1
        rows = like.new_zeros(SLOTS + 2 * slots, len(like))
        return cls(rows, np.zeros((slots, slots)), np.zeros((slots, slots)), np.zeros((slots, 2)))

    @property
    def history(self) -> int:
        """How many pairs are remembered at most."""
        return len(self.along) - 1

    @property
    def filled(self) -> Float[Tensor, "r p"]:
        """All rows in use, those of the free slot among them."""
        return self.rows[: SLOTS + 2 * min(self.count + 1, self.history + 1)]

    @property
    def steepest(self) -> Vector:
        """The descent vector at the current point."""
        return self.rows[self.current]

    @property
    def trial(self) -> Vector:
        """Where the caller writes the descent vector at the point it tries."""
        return self.rows[1 - self.current]

    @property
    def step(self) -> Vector:
        """Where the caller writes the step it tries."""
        return self.rows[SLOTS + 2 * self.free]

    def measure(self, gradient: Vector, before: Vector) -> Float[Tensor, " r+2"]:
        """Inner products of what the caller wrote, once the gradient has changed from `before`.

        They stay on the device, so that the caller can fetch them together with other numbers:
        step with change, change with change, every filled row with the new descent vector.
        """
        place = SLOTS + 2 * self.free
        change = torch.sub(gradient, before, out=self.rows[place + 1])
        return torch.cat((self.rows[place : place + 2] @ change, self.filled @ self.trial))

    def derivative(self, measured: Numbers) -> float:
        """The step's inner product with the new descent vector."""
        return float(measured[2 + SLOTS + 2 * self.free])

    def accept(self, measured: Numbers, *, steepest_is_gradient: bool) -> None:
        """Keeps the descent vector measured last and, if its curvature is positive, the pair."""
        curvature, change_square = measured[:2].tolist()
        square = float(measured[2 + 1 - self.current])
        along = measured[2 + SLOTS :].reshape(-1, 2)
        # Below this, rounding may have chosen the sign (the test of L-BFGS-B).
        rounding = torch.finfo(self.rows.dtype).eps
        keep = curvature > rounding * abs(curvature - self.derivative(measured))
        if keep and math.isfinite(change_square):
            # The change is the difference of two gradients, and so are its inner products with the
            # pairs: a pass over the memory is saved wherever the difference keeps enough digits.
            lost = rounding * (max(self.square, square) / change_square) ** 0.5
            if steepest_is_gradient and lost < MOST_ROUNDING:
                products = along - self.along[: len(along)]
            else:
                change = self.rows[SLOTS + 2 * self.free + 1]
                products = (self.filled[SLOTS:] @ change).double().cpu().numpy().reshape(-1, 2)
            self._keep(products, curvature, change_square)
        self.along[: len(along)] = along
        self.square = square
        self.current = 1 - self.current

    def _keep(self, products: Numbers, curvature: float, change_square: float) -> None:
        """Makes the free slot a part of the ring; `products`: all slots with its change."""
        slot, used = self.free, len(products)
        self.step_change[:used, slot] = products[:, 0]
        self.change_change[:used, slot] = self.change_change[slot, :used] = products[:, 1]
        self.step_change[slot, slot] = curvature
        self.change_change[slot, slot] = change_square
        self.scale = curvature / change_square
        self.count = min(self.count + 1, self.history)
        self.free = (slot + 1) % (self.history + 1)

    def forget(self) -> None:
        """Drops all pairs; `scale` stays, as a guess of a good first step."""
        self.clear_what_was_tried()
        self.count = self.free = 0

    def clear_what_was_tried(self) -> None:
        """Zeros there: these rows have weight 0 in a direction, but 0 times NaN would spoil it."""
        self.trial.zero_()
        self.rows[SLOTS + 2 * self.free : SLOTS + 2 * self.free + 2].zero_()

    def direction(self, out: Vector) -> float:
        """Writes -H v to `out` for the current descent vector v; gives its inner product with v."""
        if not self.count:
            torch.neg(self.steepest, out=out)
            return -self.square
        weights, derivative = self._weights()
        torch.mv(self.filled.T, torch.tensor(weights, dtype=out.dtype, device=out.device), out=out)
        return derivative

    def _weights(self) -> tuple[Numbers, float]:
        """The weight of every filled row in -H v, and v'(-H v)."""
        order = (self.free - self.count + np.arange(self.count)) % (self.history + 1)
        grid, scale = (order[:, None], order), self.scale
        upper = self.step_change[grid]  # LAPACK reads its upper triangle alone
        steps, changes = self.along[order].T
        with np.errstate(all="ignore"):  # overflow shows as a derivative that is not negative
            inner = dtrtrs(upper, steps)[0]
            middle = upper.diagonal() * inner + scale * (self.change_change[grid] @ inner - changes)
            outer = dtrtrs(upper, middle, trans=1)[0]
            derivative = -(scale * self.square + outer @ steps - scale * (inner @ changes))
        weights = np.zeros(len(self.filled))
        weights[self.current] = -scale
        weights[SLOTS + 2 * order] = -outer
        weights[SLOTS + 1 + 2 * order] = scale * inner
        return weights, float(derivative)


# The state that L-BFGS and OWL-QN share.


# A value is off by some roundings of its type, and counts as changed beyond so many times that.
ROUNDINGS = 4
TRUST = 4
NEGLIGIBLE = 1e-12  # relative gain of the value; an inference inside may be no more exact


class Trial(NamedTuple):
    """What an optimiser fetches from the device about a point it tries."""

    step: float
    value: float
    size: float  # squared norm of the vector
    products: Numbers  # as `CurvaturePairs.measure` gives them
    found: Evaluation


@final
@dataclass(eq=False)
class QuasiNewtonState:
    """The iterate, the memory with the vector to descend along, and two buffers.

    The vector to descend along is the gradient; where it is not (with L1 it is the
    pseudo-gradient), `gradient` holds the gradient.
    """

    vector: Vector
    memory: CurvaturePairs
    gradient: Vector | None
    value: float = math.nan
    gradient_norm: float = math.nan
    size: float = math.nan
    reported: float = 0.0  # the noise that the objective itself knows of
    measured: float = 0.0  # the noise found where a line search failed
    step: float = 0.0
    iteration: int = 0
    since: int = 0
    crossings: int = 0
    exact = True

    def __post_init__(self) -> None:
        self.trial, self.direction = self.vector.clone(), torch.empty_like(self.vector)

    @property
    def answer(self) -> Vector:
        return self.vector

    @property
    def noise(self) -> float:
        """By how much the value may be off."""
        rounding = ROUNDINGS * torch.finfo(self.vector.dtype).eps * abs(self.value)
        return max(rounding, self.reported, self.measured)

    @property
    def first_step(self) -> float:
        """The step length to try first along the current direction."""
        if self.memory.count:
            return 1.0
        return self.memory.scale or min(1.0, 1.0 / self.gradient_norm)

    def measure(self, step: float, found: Evaluation, gradient: Tensor, before: Vector) -> Trial:
        """What there is to know of the trial point, fetched in one go."""
        size = self.trial.dot(self.trial).view(1)
        numbers = torch.cat((size, self.memory.measure(gradient, before)))
        value = found.value.item()  # the device is waited for here; the numbers are then there too
        host = numbers.cpu().numpy().astype(np.float64)
        return Trial(step, value, float(host[0]), host[1:], found)

    def arrive(self, trial: Trial) -> None:
        """Makes the trial point, probed last, the current one."""
        self.memory.accept(trial.products, steepest_is_gradient=self.gradient is None)
        self._move(trial.value, trial.size, trial.found)
        self.step, self.iteration = trial.step, self.iteration + 1

    def restart(self, found: Evaluation) -> None:
        """Makes the trial point the first one; of what was before it nothing is remembered."""
        memory = self.memory
        memory.current, memory.count, memory.free = 1 - memory.current, 0, 0
        memory.scale, memory.square = 0.0, memory.steepest.dot(memory.steepest).item()
        self.measured = 0.0
        self._move(found.value.item(), self.trial.dot(self.trial).item(), found)

    def _move(self, value: float, size: float, found: Evaluation) -> None:
        self.vector, self.trial = self.trial, self.vector
        self.value, self.size, self.reported = value, math.sqrt(size), float(found.noise)
        self.gradient_norm = math.sqrt(self.memory.square)
        if self.gradient is not None:
            self.gradient.copy_(found.gradient)

    def finds_noise(self, problem: Problem) -> bool:
        """Whether values here have more noise than was thought; it is then known."""
        before = self.noise
        measured = measure_noise(problem.value, self.vector, problem.seed)
        self.measured = measured if math.isfinite(measured) else 0.0
        return self.noise > before

    def no_way_down(self) -> Verdict:
        """What it means that no step along the negative gradient lowers the value."""
        kind = self.vector.dtype
        move = (self.memory.scale or self.first_step) * self.gradient_norm
        gain = 0.5 * move * self.gradient_norm
        lost = max(4 * TRUST * self.noise, NEGLIGIBLE * abs(self.value))
        if gain <= lost or move <= 64 * torch.finfo(kind).eps * self.size:
            return Verdict(
                "value",
                f"the value no longer falls: what is left to gain (about {gain:.1e}) is lost in "
                f"the noise of {str(kind).removeprefix('torch.')} values ({lost:.1e}).",
            )
        return Verdict(
            "stuck",
            "training failed: no step against the gradient lowers the value, though the gradient "
            f"has norm {self.gradient_norm:.1e} and values are exact to {self.noise:.1e}. The "
            "inference inside may not have converged, or the value has a corner here.",
        )


# What L-BFGS and OWL-QN share, and L-BFGS itself.


MOST_CROSSINGS = 20  # on half of the seminar announcements one was needed


@dataclass(frozen=True)
class QuasiNewton(ABC):
    """The stop rules are those of `StopRule`; `history` is the number of pairs remembered."""

    max_iterations: int = 200
    tolerance: float | None = 1e-6
    history: int = 10
    period: int = 10
    delta: float | None = 1e-9
    max_evaluations: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.history < 1:
            raise TrainingError(
                f"history={self.history}: at least one pair must be remembered; 10 is usual."
            )

    @property
    def vectors_held(self) -> int:
        """About how many vectors of all parameters a search holds: pairs, gradients, points."""
        return 2 * (self.history + 1) + 8

    @property
    def rule(self) -> StopRule:
        limits = (self.max_iterations, self.max_evaluations, self.max_seconds)
        return StopRule(*limits, self.tolerance, self.period, self.delta)

    @abstractmethod
    def evaluate(self, problem: Problem, state: QuasiNewtonState) -> Evaluation:
        """The trial point; its descent vector is written to the memory."""

    @abstractmethod
    def search(self, problem: Problem, state: QuasiNewtonState) -> bool:
        """Whether a lower point was found along the direction; the state is moved there."""

    def blank(self, start: Vector) -> QuasiNewtonState:
        return QuasiNewtonState(start, CurvaturePairs.of(self.history, start), None)

    def begin(self, problem: Problem, state: QuasiNewtonState) -> None:
        state.restart(self.evaluate(problem, state))
        problem.check_start(state.value, state.memory.steepest)

    def restore(self, state: QuasiNewtonState, tensors: dict[str, Tensor]) -> None:
        restore_into(state, tensors)
        state.memory.clear_what_was_tried()

    def advance(self, problem: Problem, state: QuasiNewtonState) -> Verdict | None:
        while not self.search(problem, state):
            if state.memory.count:
                state.memory.forget()
            elif not state.finds_noise(problem):
                return self._cross(problem, state)
        return None

    def _cross(self, problem: Problem, state: QuasiNewtonState) -> Verdict | None:
        """Moves a state that has no way down over the edge it stands at, or says why not."""
        verdict, step = state.no_way_down(), state.first_step
        jumps = problem.objective.branches and state.crossings < MOST_CROSSINGS
        if verdict.ending != "stuck" or not jumps:
            return verdict
        torch.sub(state.vector, state.memory.steepest, alpha=step, out=state.trial)
        self.begin(problem, state)
        state.iteration = state.since = state.iteration + 1
        state.step, state.crossings = step, state.crossings + 1
        return None


@final
@dataclass(frozen=True)
class LBFGS(QuasiNewton):
    """Limited-memory BFGS with a strong Wolfe line search; for smooth objectives."""

    def evaluate(self, problem: Problem, state: QuasiNewtonState) -> Evaluation:
        if problem.penalty.has_l1:
            raise TrainingError("L-BFGS needs a smooth penalty; for L1 train with OWLQN().")
        found = problem.total(state.trial)
        state.memory.trial.copy_(found.gradient)
        return found

    def search(self, problem: Problem, state: QuasiNewtonState) -> bool:
        memory = state.memory
        derivative = memory.direction(out=state.direction)
        if not derivative < 0:
            return False

        last: list[Trial] = []

        def probe(step: float) -> Point:
            torch.mul(state.direction, step, out=memory.step)
            torch.add(state.vector, memory.step, out=state.trial)
            found = self.evaluate(problem, state)
            tried = state.measure(step, found, memory.trial, memory.steepest)
            last[:] = [tried]
            return Point(step, tried.value, memory.derivative(tried.products) / step)

        start = Point(0.0, state.value, derivative)
        found = strong_wolfe(probe, start, state.first_step, noise=TRUST * state.noise)
        if found is None:
            return False
        if not last or found.step != last[0].step:
            probe(found.step)  # the lowest point was not the last: make it the last
        state.arrive(*last)
        return True


# A step length along one direction that satisfies the strong Wolfe conditions.


DECREASE, CURVATURE = 1e-4, 0.9  # of the Wolfe conditions
CORNER = 1e-2  # the width of a bracket, relative, below which a corner is looked for
MOST_PROBES = 25


class Point(NamedTuple):
    """A step length, the value there, and the directional derivative there."""

    step: float
    value: float
    derivative: float

    def tilted(self, derivative: float) -> Point:
        """The same point of the function minus a straight line through the origin."""
        return Point(self.step, self.value - derivative * self.step, self.derivative - derivative)

    def lowers(self, start: Point) -> bool:
        """Whether the value has decreased enough."""
        return self.value <= start.value + DECREASE * self.step * start.derivative


class Bracket(NamedTuple):
    """The best point, the other end, and whether a minimum is known to lie between them."""

    low: Point
    high: Point
    closed: bool = False

    @property
    def width(self) -> float:
        return abs(self.high.step - self.low.step)

    def middle(self) -> float:
        """Where the tangents of both ends meet, a little towards the far end.

        Half-way where the function is a parabola, just beyond the corner where it has one.
        """
        low, high = self.low, self.high
        width, turn = high.step - low.step, high.derivative - low.derivative
        share = (high.derivative * width - (high.value - low.value)) / _nonzero(turn * width)
        share = share + 0.1 * (1 - share) if 0 < share < 1 else 0.5
        return low.step + width * share

    def jumps_like(self, wider: Bracket, first_derivative: float) -> bool:
        """Whether the derivative jumps here as it did in a wider bracket, as it does at a corner.

        Between the ends of a narrow bracket a smooth derivative changes by as much less as it is
        narrower.
        """
        jump, before = (abs(own.high.derivative - own.low.derivative) for own in (self, wider))
        narrower = self.width <= min(0.7 * wider.width, CORNER * self.low.step)
        return narrower and jump >= max(0.9 * before, -0.1 * first_derivative)

    def narrowed(self, trial: Point, lean: float) -> tuple[Bracket, float]:
        """The bracket that the trial leaves, and the next step to try."""
        low, high, tried = self.low.tilted(lean), self.high.tilted(lean), trial.tilted(lean)
        step, closed = next_step(Bracket(low, high, self.closed), tried)
        if tried.value > low.value:
            return Bracket(self.low, trial, closed), step
        crossed = tried.derivative * (trial.step - low.step) > 0
        return Bracket(trial, self.low if crossed else self.high, closed), step


def strong_wolfe(
    probe: Callable[[float], Point], start: Point, first: float, *, noise: float = 0.0
) -> Point | None:
    """A point that satisfies the conditions; else the lowest seen; None where none is lower.

    At a corner that is a point just beyond it, where the derivative has jumped, if the value is low
    enough there: a quasi-Newton method learns of the corner by it.  `start` is the point at step 0,
    with a negative derivative; `first` the step to try first; values that differ by less than
    `noise` count as equal.  Where `probe` gives inf or NaN, the search turns back.
    """
    bracket = earlier = Bracket(start, start)
    width = earlier_width = wall = math.inf
    step, early = first, True
    for _ in range(MOST_PROBES):
        trial = probe(step)
        if not (math.isfinite(trial.value) and math.isfinite(trial.derivative)):
            wall = step
            step = bracket.low.step + 0.25 * (step - bracket.low.step)
            continue
        if _accepts(trial, start, noise):
            return trial
        # [More & Thuente, section 3] Until a point below the line is past the minimum, the
        # function minus the line guides the search where the function itself might mislead it.
        above_line = not trial.lowers(start)
        early = early and (above_line or trial.derivative < 0)
        leans = early and above_line and trial.value <= bracket.low.value
        bracket, step = bracket.narrowed(trial, DECREASE * start.derivative if leans else 0.0)
        if bracket.closed:
            if bracket.width >= 0.66 * earlier_width:
                step = bracket.middle()
            high = bracket.high
            if (
                bracket.jumps_like(earlier, start.derivative)
                and high.lowers(start)
                and high.derivative >= CURVATURE * start.derivative
            ):
                return high  # the weak Wolfe conditions
            earlier_width, width, earlier = width, bracket.width, bracket
            if width <= 1e-10 * max(bracket.low.step, high.step):
                break
        if step >= wall:
            step = 0.5 * (bracket.low.step + wall)
        if step == bracket.low.step:
            break  # a value with noise can close the bracket to nothing
    return bracket.low if bracket.low.value < start.value - noise else None


def _accepts(trial: Point, start: Point, noise: float) -> bool:
    """The strong Wolfe conditions, or the approximate ones [Hager & Zhang, eq. 4.1, delta 0.1]."""
    if trial.lowers(start) and abs(trial.derivative) <= -CURVATURE * start.derivative:
        return True
    level = trial.value <= start.value + noise
    return level and CURVATURE * start.derivative <= trial.derivative <= -0.8 * start.derivative


def next_step(bracket: Bracket, trial: Point) -> tuple[float, bool]:
    """The next step to try, and whether the bracket is closed then [More & Thuente, section 4]."""
    low, high = bracket.low, bracket.high
    cubic = _cubic_minimum(low, trial)
    secant = trial.step + trial.derivative * (low.step - trial.step) / _nonzero(
        trial.derivative - low.derivative
    )
    if trial.value > low.value:  # Case 1
        fall = (low.value - trial.value) / (trial.step - low.step) + low.derivative
        quadratic = low.step + 0.5 * low.derivative / _nonzero(fall) * (trial.step - low.step)
        nearer = abs(cubic - low.step) < abs(quadratic - low.step)
        return (cubic if nearer else 0.5 * (cubic + quadratic)), True
    if trial.derivative * low.derivative < 0:  # Case 2
        return max(cubic, secant, key=lambda step: abs(step - trial.step)), True
    if bracket.closed:
        floor, roof = sorted((low.step, high.step))
    else:
        floor, roof = (trial.step + k * (trial.step - low.step) for k in (1.1, 4.0))
    if abs(trial.derivative) >= abs(low.derivative):  # Case 4
        return (_cubic_minimum(trial, high) if bracket.closed else roof), bracket.closed
    # Case 3: the cubic helps only where its minimum lies beyond the trial.
    beyond = (cubic - trial.step) * (trial.step - low.step) > 0
    if not bracket.closed:
        far = max(cubic, secant) if beyond else max(roof, secant)
        return min(max(far, floor), roof), False
    near = min(cubic, secant, key=lambda s: abs(s - trial.step)) if beyond else secant
    guard = trial.step + 0.66 * (high.step - trial.step)
    return (min if trial.step > low.step else max)(guard, near), True


def _cubic_minimum(a: Point, b: Point) -> float:
    """The minimum of the cubic through two points and their derivatives; inf where it has none."""
    if a.step == b.step:
        return a.step
    theta = 3 * (a.value - b.value) / (b.step - a.step) + a.derivative + b.derivative
    scale = max(abs(theta), abs(a.derivative), abs(b.derivative))
    inside = (
        (theta / scale) ** 2 - (a.derivative / scale) * (b.derivative / scale) if scale else -1.0
    )
    if inside < 0:
        return math.inf
    root = math.copysign(scale * math.sqrt(inside), b.step - a.step)
    ratio = (b.derivative + root - theta) / _nonzero(b.derivative - a.derivative + 2 * root)
    return b.step - ratio * (b.step - a.step)


def _nonzero(number: float) -> float:
    return number or math.ulp(0.0)

"""Quasi-Newton methods of limited memory: L-BFGS, and OWL-QN for objectives with an L1 penalty.

G. Andrew and J. Gao, Scalable training of L1-regularized log-linear models, ICML 2007.

R. Byrd, J. Nocedal and R. Schnabel, Representations of quasi-Newton matrices and their use in
limited memory methods, Math. Programming 63 (1994), eq. 3.1: with steps S and changes of gradient
Y, and R the upper triangle of S'Y, D its diagonal,

    H = c I + [S  cY] [ R^-T (D + c Y'Y) R^-1   -R^-T ] [ S'  ]
                      [        -R^-1               0  ] [ c Y']

so that the work on long vectors is one product with the vector v to read off inner products and one
to combine vectors; the rest happens on history x history numbers in float64 on the host.
p: parameters; h: pairs remembered; r: rows in use.

J. More and S. Wild, Estimating computational noise, SIAM J. Sci. Comput. 33 (2011): along a line of
equally spaced points, differences of high order of a smooth function vanish and those of its noise
do not.

Bethe's value follows one fixed point of belief propagation for as long as there is one.  Where that
ends the value leaps, mostly upwards, and a line search comes to rest at the edge though the
gradient is far from zero.  So training steps over it and descends on from the other side.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, final

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from scipy.linalg.lapack import dtrtrs
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.objectives.base import Evaluation
from mrflearn.objectives.problem import Problem, check_start
from mrflearn.training.line_search import Point, strong_wolfe
from mrflearn.training.outcome import StopRule, Verdict

# What L-BFGS remembers, and the direction it gives, in two passes over one buffer.


Numbers = npt.NDArray[np.float64]
# Rows 0 and 1 of the buffer hold the descent vectors at the current and at the trial point, by
# turns; then come the slots, a step and its change of gradient each, one slot always free.
SLOTS = 2
MOST_ROUNDING = 1e-5


@final
class Memory:
    """A ring of the last `history` pairs (step, change of gradient), and their inner products.

    The caller writes what it tries to `step` and `trial`, measures it, and may accept it.  Nothing
    is lost where it does not: what it writes to is no part of what is remembered.
    """

    def __init__(self, history: int, like: Float[Tensor, " p"]) -> None:
        self.history = history
        self.rows = like.new_zeros(SLOTS + 2 * (history + 1), len(like))
        self.current = 0  # the row of the current descent vector
        self.count = 0  # pairs in the ring
        self.free = 0  # the slot that is free
        self.scale = 0.0  # c above; 0 before the first pair
        self.square = 0.0  # v'v for the current descent vector v
        slots = history + 1
        self.step_change = np.zeros((slots, slots))  # S'Y; only older x newer is kept true
        self.change_change = np.zeros((slots, slots))  # Y'Y
        self.along = np.zeros((slots, 2))  # S'v and Y'v

    @property
    def filled(self) -> Float[Tensor, "r p"]:
        """All rows in use, those of the free slot among them."""
        return self.rows[: SLOTS + 2 * min(self.count + 1, self.history + 1)]

    @property
    def steepest(self) -> Float[Tensor, " p"]:
        """The descent vector at the current point."""
        return self.rows[self.current]

    @property
    def trial(self) -> Float[Tensor, " p"]:
        """Where the caller writes the descent vector at the point it tries."""
        return self.rows[1 - self.current]

    @property
    def step(self) -> Float[Tensor, " p"]:
        """Where the caller writes the step it tries."""
        return self.rows[SLOTS + 2 * self.free]

    def measure(
        self, gradient: Float[Tensor, " p"], before: Float[Tensor, " p"]
    ) -> Float[Tensor, " r+2"]:
        """Inner products of what the caller wrote, once the gradient has changed from `before`.

        They stay on the device, so that the caller can fetch them together with other numbers:
        step with change, change with change, every filled row with the new descent vector.
        """
        place = SLOTS + 2 * self.free
        change = self.rows[place + 1]
        torch.sub(gradient, before, out=change)
        return torch.cat((self.rows[place : place + 2] @ change, self.filled @ self.trial))

    def slope(self, measured: Numbers) -> float:
        """The step's inner product with the new descent vector."""
        return float(measured[2 + SLOTS + 2 * self.free])

    def accept(self, measured: Numbers, *, steepest_is_gradient: bool) -> None:
        """Keeps the descent vector measured last and, if its curvature is positive, the pair."""
        curvature, change_square = measured[:2].tolist()
        square = float(measured[2 + 1 - self.current])
        along = measured[2 + SLOTS :].reshape(-1, 2)
        # Below this, rounding may have chosen the sign (the test of L-BFGS-B).
        rounding = torch.finfo(self.rows.dtype).eps
        keep = curvature > rounding * abs(curvature - self.slope(measured))
        if keep and math.isfinite(change_square):
            # The change is the difference of two gradients, and so are its inner products with the
            # pairs: a pass over the memory is saved wherever the difference keeps enough digits.
            lost = rounding * (max(self.square, square) / change_square) ** 0.5
            if steepest_is_gradient and lost < MOST_ROUNDING:
                products = along - self.along[: len(along)]
            else:
                products = self._products_with_change()
            self._keep(products, curvature, change_square)
        self.along[: len(along)] = along
        self.square = square
        self.current = 1 - self.current

    def _products_with_change(self) -> Numbers:
        change = self.rows[SLOTS + 2 * self.free + 1]
        products: Numbers = (self.filled[SLOTS:] @ change).double().cpu().numpy()
        return products.reshape(-1, 2)

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
        self._clear_what_was_tried()
        self.count = self.free = 0

    def _clear_what_was_tried(self) -> None:
        # These rows have weight 0 in a direction, but 0 times NaN would spoil it.
        self.trial.zero_()
        self.rows[SLOTS + 2 * self.free : SLOTS + 2 * self.free + 2].zero_()

    def direction(self, out: Float[Tensor, " p"]) -> float:
        """Writes -H v to `out` for the current descent vector v; gives its inner product with v."""
        if not self.count:
            torch.neg(self.steepest, out=out)
            return -self.square
        weights, slope = self._weights()
        torch.mv(self.filled.T, torch.tensor(weights, dtype=out.dtype, device=out.device), out=out)
        return slope

    def _weights(self) -> tuple[Numbers, float]:
        """The weight of every filled row in -H v, and v'(-H v)."""
        order = (self.free - self.count + np.arange(self.count)) % (self.history + 1)
        grid, scale = (order[:, None], order), self.scale
        upper = self.step_change[grid]  # LAPACK reads its upper triangle alone
        steps, changes = self.along[order].T
        with np.errstate(all="ignore"):  # overflow shows as a slope that is not negative
            inner = dtrtrs(upper, steps)[0]
            middle = upper.diagonal() * inner + scale * (self.change_change[grid] @ inner - changes)
            outer = dtrtrs(upper, middle, trans=1)[0]
            slope = -(scale * self.square + outer @ steps - scale * (inner @ changes))
        weights = np.zeros(len(self.filled))
        weights[self.current] = -scale
        weights[SLOTS + 2 * order] = -outer
        weights[SLOTS + 1 + 2 * order] = scale * inner
        return weights, float(slope)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that `restore` needs."""
        numbers = np.array([self.current, self.count, self.free, self.scale, self.square])
        host = {
            "numbers": numbers,
            "step_change": self.step_change,
            "change_change": self.change_change,
            "along": self.along,
        }
        kept = {f"memory.{name}": torch.from_numpy(array) for name, array in host.items()}
        return {"memory.rows": self.filled} | kept

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Takes over what `tensors` gave, to the last bit."""
        current, count, free, self.scale, self.square = tensors["memory.numbers"].tolist()
        self.current, self.count, self.free = int(current), int(count), int(free)
        self.filled.copy_(tensors["memory.rows"])
        self._clear_what_was_tried()
        self.step_change = tensors["memory.step_change"].numpy().copy()
        self.change_change = tensors["memory.change_change"].numpy().copy()
        self.along = tensors["memory.along"].numpy().copy()


# How far values of a function can be trusted, measured where it is evaluated.


POINTS = 7
SMALLEST_SCALE = 1e-3  # of a parameter's change, relative to the step: many parameters start as 0


def measure_noise(
    value: Callable[[Tensor], float], vector: Float[Tensor, " p"], seed: int = 0
) -> float:
    """The standard deviation of the noise of `value` near a vector; 0 where none shows.

    Parameters move up or down at random, by the square root of their type's rounding: far enough
    to change the rounding of every term, near enough for the function to be a polynomial of low
    degree.  NaN and inf among the values count as noise without bounds.
    """
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, vector.shape, generator=generator).to(vector) * 2 - 1
    typical = max(float(vector.square().mean().sqrt()) if len(vector) else 0.0, SMALLEST_SCALE)
    direction = signs * vector.abs().clamp_min(typical)
    step = math.sqrt(torch.finfo(vector.dtype).eps)
    values = [value(vector + k * step * direction) for k in range(POINTS)]
    if not all(map(math.isfinite, values)):
        return math.inf
    return noise_of_line(np.array(values))


def noise_of_line(values: np.ndarray) -> float:
    """The noise in values at equally spaced points of a smooth function [section 3.3]."""
    levels, signs = [], []
    differences = values - values[0]
    for order in range(1, len(values)):
        differences = np.diff(differences)
        variance = math.factorial(order) ** 2 / math.factorial(2 * order)
        levels.append(math.sqrt(variance * float(np.mean(differences**2))))
        signs.append(bool((differences.min() < 0) and (differences.max() > 0)))
    # The first order at which the estimate stays: differences of lower order hold the function.
    for order in range(len(levels) - 2):
        near = levels[order : order + 3]
        if signs[order] and max(near) <= 4 * min(near):
            return levels[order]
    return min(levels)


# The state that L-BFGS and OWL-QN share.


# A value is off by some roundings of its type, and counts as changed beyond so many times that.
ROUNDINGS = 4
TRUST = 4
NEGLIGIBLE = 1e-12  # relative gain of the value; an inference inside may be no more exact


class Trial(NamedTuple):
    """What an optimiser fetches from the device about a point it tries."""

    step: float
    value: float
    noise: Float[Tensor, ""] | float
    size: float  # squared norm of the vector
    products: Numbers  # as `Memory.measure` gives them


@final
@dataclass(eq=False)
class QuasiNewtonState:
    """The iterate, the memory with the vector to descend along, and two buffers.

    The vector to descend along is the gradient; where it is not (with L1 it is the
    pseudo-gradient), `own_gradient` holds the gradient.
    """

    vector: Float[Tensor, " p"]
    memory: Memory
    trial: Float[Tensor, " p"]
    direction: Float[Tensor, " p"]
    own_gradient: Float[Tensor, " p"] | None
    value: float
    gradient_norm: float
    size: float
    reported: float = 0.0  # the noise that the objective itself knows of
    measured: float = 0.0  # the noise found where a line search failed
    step: float = 0.0
    iteration: int = 0
    exact: bool = True
    since: int = 0
    crossings: int = 0

    @classmethod
    def at(
        cls,
        problem: Problem,
        start: Float[Tensor, " p"],
        memory: Memory,
        found: Evaluation,
        own_gradient: Float[Tensor, " p"] | None,
    ) -> Self:
        """The state at the starting point, whose descent vector the memory holds."""
        square, size = memory.steepest.dot(memory.steepest), start.dot(start)
        first, memory.square, whole = (float(number) for number in (found.value, square, size))
        check_start(problem, first, memory.steepest)
        buffers = (torch.empty_like(start), torch.empty_like(start))
        norms = (math.sqrt(memory.square), math.sqrt(whole))
        own = (start.clone(), memory, *buffers, own_gradient)
        return cls(*own, first, *norms, reported=float(found.noise))

    @property
    def gradient(self) -> Float[Tensor, " p"]:
        return self.memory.steepest if self.own_gradient is None else self.own_gradient

    @property
    def answer(self) -> Float[Tensor, " p"]:
        return self.vector

    @property
    def noise(self) -> float:
        """By how much the value may be off."""
        rounding = ROUNDINGS * torch.finfo(self.vector.dtype).eps * abs(self.value)
        return max(rounding, self.reported, self.measured)

    def finds_noise(self, problem: Problem) -> bool:
        """Whether values here have more noise than was thought; it is then known."""
        vector = self.vector.clone()

        def value(near: Tensor) -> float:
            found = problem.total(near).value + problem.l1_value(near)
            return float(found)

        before = self.noise
        self.measured = measure_noise(value, vector, problem.seed)
        if not math.isfinite(self.measured):
            self.measured = 0.0
        return self.noise > before

    @property
    def first_step(self) -> float:
        """The step length to try first along the current direction."""
        if self.memory.count:
            return 1.0
        return self.memory.scale or min(1.0, 1.0 / self.gradient_norm)

    def measure(
        self, step: float, found: Evaluation, gradient: Tensor, before: Float[Tensor, " p"]
    ) -> Trial:
        """What there is to know of the trial point, fetched in one go."""
        size = self.trial.dot(self.trial).view(1)
        numbers = torch.cat((size, self.memory.measure(gradient, before)))
        value = found.value.item()  # the device is waited for here; the numbers are then there too
        host = numbers.cpu().numpy().astype(np.float64)
        return Trial(step, value, found.noise, float(host[0]), host[1:])

    def arrive(self, trial: Trial) -> None:
        """Makes the trial point, probed last, the current one, but for `own_gradient`."""
        self.memory.accept(trial.products, steepest_is_gradient=self.own_gradient is None)
        self.vector, self.trial = self.trial, self.vector
        self.value, self.step, self.size = trial.value, trial.step, math.sqrt(trial.size)
        self.reported = float(trial.noise)
        self.gradient_norm = math.sqrt(self.memory.square)
        self.iteration += 1

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

    def tensors(self) -> dict[str, Tensor]:
        counts = [float(self.iteration), float(self.since), float(self.crossings)]
        norms = [self.value, self.gradient_norm, self.size]
        numbers = [*norms, self.reported, self.measured, self.step, *counts]
        own = {"numbers": torch.tensor(numbers, dtype=torch.float64), "vector": self.vector}
        if self.own_gradient is not None:
            own |= {"gradient": self.own_gradient}
        return own | self.memory.tensors()

    @classmethod
    def restore(cls, history: int, like: Float[Tensor, " p"], tensors: dict[str, Tensor]) -> Self:
        """The state that gave these tensors, on the device of `like`."""
        placed = {n: tensors[n].to(like.device) for n in ("vector", "gradient") if n in tensors}
        memory = Memory(history, like)
        memory.restore(tensors)
        *numbers, iteration, since, crossings = tensors["numbers"].tolist()
        buffers = (torch.empty_like(like), torch.empty_like(like))
        state = cls(placed["vector"], memory, *buffers, placed.get("gradient"), *numbers)
        state.iteration, state.since, state.crossings = map(int, (iteration, since, crossings))
        return state


# The two optimisers: what they share, a line search on smooth functions, one inside an orthant.


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
    def begin(self, problem: Problem, start: Float[Tensor, " p"]) -> QuasiNewtonState:
        """The state at the starting point."""

    @abstractmethod
    def search(self, problem: Problem, state: QuasiNewtonState) -> bool:
        """Whether a lower point was found along the direction; the state is moved there."""

    def advance(self, problem: Problem, state: QuasiNewtonState) -> Verdict | None:
        while not self.search(problem, state):
            if state.memory.count:
                state.memory.forget()
            elif not state.finds_noise(problem):
                return self._cross(problem, state)
        return None

    def restore(self, like: Float[Tensor, " p"], tensors: dict[str, Tensor]) -> QuasiNewtonState:
        """The state that a checkpoint holds."""
        return QuasiNewtonState.restore(self.history, like, tensors)

    def _cross(self, problem: Problem, state: QuasiNewtonState) -> Verdict | None:
        """Moves a state that has no way down over the edge it stands at, or says why not."""
        verdict, step = state.no_way_down(), state.first_step
        leaps = problem.objective.branches and state.crossings < MOST_CROSSINGS
        if verdict.ending != "stuck" or not leaps:
            return verdict
        beyond = self.begin(problem, torch.sub(state.vector, state.memory.steepest, alpha=step))
        beyond.iteration = beyond.since = state.iteration + 1
        beyond.step, beyond.crossings = step, state.crossings + 1
        vars(state).update(vars(beyond))
        return None


@final
@dataclass(frozen=True)
class LBFGS(QuasiNewton):
    """Limited-memory BFGS with a strong Wolfe line search; for smooth objectives."""

    def begin(self, problem: Problem, start: Float[Tensor, " p"]) -> QuasiNewtonState:
        if problem.penalty.has_l1:
            raise TrainingError("L-BFGS needs a smooth penalty; for L1 train with OWLQN().")
        found = problem.total(start)
        memory = Memory(self.history, start)
        memory.steepest.copy_(found.gradient)
        return QuasiNewtonState.at(problem, start, memory, found, None)

    def search(self, problem: Problem, state: QuasiNewtonState) -> bool:
        memory, tried = state.memory, Trial(0.0, state.value, 0.0, 0.0, np.zeros(0))
        slope = memory.direction(out=state.direction)
        if not slope < 0:
            return False

        def probe(step: float) -> Point:
            nonlocal tried
            torch.mul(state.direction, step, out=memory.step)
            torch.add(state.vector, memory.step, out=state.trial)
            found = problem.total(state.trial)
            memory.trial.copy_(found.gradient)
            tried = state.measure(step, found, memory.trial, memory.steepest)
            return Point(step, tried.value, memory.slope(tried.products) / step)

        start = Point(0.0, state.value, slope)
        found = strong_wolfe(probe, start, state.first_step, noise=TRUST * state.noise)
        if found is None:
            return False
        if found.step != tried.step:
            probe(found.step)  # the lowest point was not the last: make it the last
        state.arrive(tried)
        return True


@final
@dataclass(frozen=True)
class OWLQN(QuasiNewton):
    """Orthant-wise limited-memory quasi-Newton; for L1 and elastic-net penalties."""

    max_iterations: int = 500

    def begin(self, problem: Problem, start: Float[Tensor, " p"]) -> QuasiNewtonState:
        found = problem.total(start)
        memory = Memory(self.history, start)
        pseudo_gradient(start, found.gradient, problem.l1, out=memory.steepest)
        found = replace(found, value=found.value + problem.l1_value(start))
        return QuasiNewtonState.at(problem, start, memory, found, found.gradient.clone())

    def search(self, problem: Problem, state: QuasiNewtonState) -> bool:
        """Backtracking inside one orthant [Andrew and Gao, section 3.2]."""
        memory, step = state.memory, state.first_step
        if not memory.direction(out=state.direction) < 0:
            return False
        # Entries that the memory has turned uphill are dropped.
        state.direction.masked_fill_(state.direction * memory.steepest >= 0, 0)
        for _ in range(30):
            torch.add(state.vector, state.direction, alpha=step, out=state.trial)
            # What has left the orthant is set to zero, but a weight without L1 has no corner.
            left = state.trial * state.vector < 0
            state.trial.masked_fill_(left & (problem.l1 > 0), 0)
            found = problem.total(state.trial)
            pseudo_gradient(state.trial, found.gradient, problem.l1, out=memory.trial)
            torch.sub(state.trial, state.vector, out=memory.step)
            change = memory.step.dot(memory.steepest)
            whole = replace(found, value=found.value + problem.l1_value(state.trial))
            tried = state.measure(step, whole, found.gradient, state.gradient)
            promise = change.item()  # by the pseudo-gradient
            finite = math.isfinite(tried.value) and bool(np.isfinite(tried.products).all())
            if finite and promise < 0 and tried.value <= state.value + 1e-4 * promise:
                state.arrive(tried)
                state.gradient.copy_(found.gradient)
                return True
            if -promise < state.noise / ROUNDINGS:
                return False  # a shorter step could only change the value by less than it rounds
            step *= shrinkage(tried.value - state.value, promise)
        return False


def pseudo_gradient(
    vector: Float[Tensor, " p"],
    gradient: Float[Tensor, " p"],
    l1: float | Float[Tensor, " p"],
    out: Float[Tensor, " p"],
) -> Float[Tensor, " p"]:
    """Writes the one-sided derivative of least size, of the smooth part plus l1 |w| [eq. 4]."""
    # At zero the corner gives way only to a slope steeper than itself.
    at_zero = gradient.clamp(-l1, l1).neg_().add_(gradient)  # type: ignore[arg-type]
    elsewhere = torch.sign(vector, out=out).mul_(l1).add_(gradient)
    return torch.where(vector == 0, at_zero, elsewhere, out=out)


def shrinkage(change: float, promise: float) -> float:
    """By what to multiply a step that did not lower the value: the parabola's minimum, guarded."""
    if not (change > promise and promise < 0):  # NaN comes here too
        return 0.25
    return min(max(-0.5 * promise / (change - promise), 0.1), 0.5)

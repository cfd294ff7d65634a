"""What is minimised: functions, penalty, start, optimiser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.models.parameters import Layout
from mrflearn.objectives.objective import Evaluation, Objective, ValueAndGradient, evaluate
from mrflearn.objectives.penalties import LaidPenalty, Penalty
from mrflearn.training.checkpoint import settings_of
from mrflearn.training.outcome import Verdict
from mrflearn.training.stopping import StopRule

# The number to make small, as a function of one flat vector: batches and penalty summed.


class Halt(Exception):  # noqa: N818 - not an error: training ends here on purpose
    """Ends training before the next evaluation; the optimiser's state stays as it was."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


def never() -> None:
    """Lets every evaluation go ahead."""


@final
@dataclass
class Problem:
    """Functions that sum to the objective, the penalty on it, and a count of evaluations.

    `before` is called ahead of each function and may raise `Halt`.
    """

    functions: Sequence[ValueAndGradient]
    penalty: LaidPenalty
    layout: Layout
    seed: int = 0
    evaluations: int = 0
    before: Callable[[], None] = field(default=never)

    def total(self, vector: Float[Tensor, " p"]) -> Evaluation:
        """The whole value (a sum: in float64) without L1, its gradient and its noise.

        The gradient may lie in a buffer that a function writes again: copy it to keep it.
        """
        found = self._evaluate(0, vector)
        value, gradient, noise = found.value, found.gradient, found.noise
        if len(self.functions) > 1:
            value, gradient = value.double(), gradient.clone()
        for index in range(1, len(self.functions)):
            more = self._evaluate(index, vector)
            value, noise = value + more.value, noise + more.noise
            gradient.add_(more.gradient)
        self.evaluations += 1
        if self.penalty.has_l2:
            value = value + self.penalty.smooth(vector)
            gradient = self.penalty.smooth_gradient(vector, gradient)
        return Evaluation(value, gradient, noise)

    def part(self, index: int, vector: Float[Tensor, " p"]) -> Evaluation:
        """One function and its equal share of L2; its warm start is kept."""
        found = self._evaluate(index, vector)
        function = self.functions[index]
        if isinstance(function, Objective):
            function.commit()
        if not self.penalty.has_l2:
            return found
        share = 1 / len(self.functions)
        value = found.value + share * self.penalty.smooth(vector)
        return Evaluation(value, self.penalty.smooth_gradient(vector, found.gradient, share))

    @property
    def branches(self) -> bool:
        """Whether the value may leap from one branch of solutions to another."""
        return any(own.branches for own in self._objectives.values())

    def commit(self) -> None:
        """Tells objectives that training stands where it evaluated last."""
        for own in self._objectives.values():
            own.commit()

    def state(self) -> dict[str, Tensor]:
        """The committed warm starts of all objectives, for a checkpoint."""
        return {
            f"{index}.{name}": value
            for index, own in self._objectives.items()
            for name, value in own.state().items()
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""
        for index, own in self._objectives.items():
            prefix = f"{index}."
            held = {n.removeprefix(prefix): v for n, v in state.items() if n.startswith(prefix)}
            own.restore(held)

    @property
    def _objectives(self) -> dict[int, Objective]:
        functions: Sequence[object] = self.functions
        return {k: own for k, own in enumerate(functions) if isinstance(own, Objective)}

    def _evaluate(self, index: int, vector: Tensor) -> Evaluation:
        self.before()
        found = evaluate(self.functions[index], vector)
        value, gradient = found.value, found.gradient
        if gradient.shape != vector.shape or gradient.dtype != vector.dtype or value.numel() != 1:
            raise TrainingError(
                f"batch {index}: the value has shape {tuple(value.shape)} and the gradient is "
                f"{gradient.dtype} of shape {tuple(gradient.shape)}; one number and "
                f"{vector.dtype} of shape {tuple(vector.shape)} are needed."
            )
        value = value.detach().to(vector.device).reshape(())
        return Evaluation(value, gradient.detach(), found.noise)


def check_start(problem: Problem, value: float, gradient: Float[Tensor, " p"]) -> None:
    """Raises `TrainingError` where training cannot begin, naming the parameter at fault."""
    if value != value or value in (float("inf"), float("-inf")):
        raise TrainingError(
            f"the value at the starting point is {value}. A datum may be impossible under the "
            "starting parameters, or scores may overflow: try smaller starting parameters."
        )
    wrong = ~gradient.isfinite()
    if bool(wrong.any()):
        index = int(wrong.int().argmax())
        raise TrainingError(
            f"the value at the starting point is {value:g}, but its gradient at parameter "
            f"{problem.layout.place(index)} is {float(gradient[index])} "
            f"({int(wrong.sum())} such entries). Does a score of -inf meet a weight there?"
        )
    largest = int(gradient.abs().argmax()) if len(gradient) else 0
    if len(gradient) and not bool(gradient.dot(gradient).isfinite()):
        raise TrainingError(
            f"the gradient at parameter {problem.layout.place(largest)} is "
            f"{float(gradient[largest]):.1e}: its square overflows {gradient.dtype}. Are some "
            "feature values very large? Scale them to a range near 1."
        )


# What every optimiser offers: a state that can begin, advance, be stored and be restored.


class State(Protocol):
    """Where an optimisation stands between two iterations; all its memory is here."""

    vector: Float[Tensor, " p"]
    iteration: int
    value: float  # NaN where nothing has been evaluated yet
    gradient_norm: float
    size: float  # the Euclidean norm of the vector
    step: float
    since: int  # the iteration that this descent began with; earlier values are of another

    @property
    def noise(self) -> float:
        """By how much `value` may be off."""

    @property
    def answer(self) -> Float[Tensor, " p"]:
        """The vector to hand out: the current one, or an average."""

    @property
    def exact(self) -> bool:
        """Whether `value` belongs to `answer`, rather than to vectors on the way to it."""

    def tensors(self) -> dict[str, Tensor]:
        """The whole state, for a checkpoint."""


S = TypeVar("S")


class Optimiser(Protocol[S]):
    """Frozen settings, and how a state moves under them."""

    @property
    def rule(self) -> StopRule: ...

    def begin(self, problem: Problem, start: Float[Tensor, " p"]) -> S:
        """The state at the starting point."""

    def advance(self, problem: Problem, state: S) -> Verdict | None:
        """Moves the state by one iteration; gives a verdict instead where it cannot.

        `Halt`, raised by an evaluation, leaves a state from which the same iteration can be done.
        """

    def restore(self, like: Float[Tensor, " p"], tensors: dict[str, Tensor]) -> S:
        """The state that gave these tensors, on the device of `like`."""


# What is to be made small, from where, and by what.


M = TypeVar("M")


@final
@dataclass(frozen=True, eq=False)
class Plan(Generic[M]):
    """Functions that sum to the objective, the starting vector, penalty, optimiser and seed.

    `rebuild` makes what the user trains (called `name`) out of the flat vector.  `origin` is a
    constant that the functions leave out, so that small gains show in the digits of their values;
    whoever is told a value is told the whole.  `in_double` makes the same functions for float64
    vectors: where float32 leads no further, training goes on with them.
    """

    functions: Sequence[ValueAndGradient]
    start: Float[Tensor, " p"]
    layout: Layout
    rebuild: Callable[[Tensor], M]
    name: str
    optimiser: Optimiser[Any]
    penalty: Penalty
    seed: int
    origin: float = 0.0
    in_double: Callable[[], Sequence[ValueAndGradient]] | None = None

    def __post_init__(self) -> None:
        if self.start.dtype not in (torch.float32, torch.float64) or self.start.ndim != 1:
            raise TrainingError(
                f"parameters are {self.start.dtype} of shape {tuple(self.start.shape)}; training "
                "needs float32 or float64, and `minimise` one flat vector."
            )
        if not self.functions:
            raise TrainingError("there are no batches to train on; at least one is needed.")
        if self.seed < 0:
            raise TrainingError(f"seed={self.seed}: seeds count from 0.")
        finite = self.start.isfinite()
        if not bool(finite.all()):
            index = int((~finite).int().argmax())
            raise TrainingError(
                f"parameter {self.layout.place(index)} starts as {float(self.start[index])}; "
                "starting parameters must be finite."
            )

    def problem(self, dtype: torch.dtype) -> Problem:
        """What is minimised, for vectors of a type; nothing is evaluated yet."""
        functions = self.functions
        if dtype != self.start.dtype:
            assert self.in_double is not None  # noqa: S101 - the loop asked
            functions = self.in_double()
        laid = self.penalty.laid_on(self.layout, self.start.to(dtype))
        return Problem(functions, laid, self.layout, self.seed)

    def identity(self) -> dict[str, Any]:
        """What a checkpoint must agree on with a training that resumes it."""
        named = zip(self.layout.names, self.layout.shapes, strict=True)
        own = {
            "model": self.name,
            "parameters": {name: list(shape) for name, shape in named},
            "dtype": str(self.start.dtype).removeprefix("torch."),
        }
        rest = {"penalty": repr(self.penalty), "batches": len(self.functions), "seed": self.seed}
        return own | settings_of(self.optimiser) | rest

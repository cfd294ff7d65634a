"""What is minimised: an objective with its penalty, in the coordinates that training moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, final

from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.objectives.base import Evaluation, Objective, total
from mrflearn.objectives.penalty import FlatPenalty, Penalty
from mrflearn.objectives.scaling import Diagonal, Scaling
from mrflearn.training.outcome import Verdict
from mrflearn.training.stopping import StopRule


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
    """An objective with its penalty as optimisers see it, and a count of evaluations.

    Optimisers move `vector`, the scaled coordinates where there is a `scaling`; objective and L2
    are functions of the parameters themselves.  `before` is called ahead of each evaluation of the
    objective or of one of its parts, and may raise `Halt`.
    """

    objective: Objective[Any]
    penalty: FlatPenalty
    scaling: Scaling | None = None
    seed: int = 0
    evaluations: int = 0
    before: Callable[[], None] = field(default=never)

    @classmethod
    def of(
        cls,
        objective: Objective[Any],
        penalty: Penalty,
        scaling: Scaling | None,
        like: Float[Tensor, " p"],
        seed: int,
    ) -> Problem:
        """For vectors of the type and device of `like`."""
        flat = penalty.on(objective.layout, like)
        if isinstance(scaling, Diagonal):
            scaling = Diagonal(scaling.sizes.to(like))
        elif scaling is not None and flat.has_l1:
            raise TrainingError("coordinates that mix parameters take no L1 penalty.")
        return cls(objective, flat, scaling, seed)

    @property
    def l1(self) -> float | Float[Tensor, " p"]:
        """The strengths of L1 on the entries of the vector."""
        if isinstance(self.scaling, Diagonal) and self.penalty.has_l1:
            return self.penalty.l1 * self.scaling.sizes
        return self.penalty.l1

    def l1_value(self, vector: Float[Tensor, " p"]) -> Float[Tensor, ""]:
        """The L1 penalty, which `total` leaves out."""
        return self.penalty.l1_value(self.natural(vector))

    def natural(self, vector: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        """The parameters that a vector stands for."""
        return vector if self.scaling is None else self.scaling.natural(vector)

    def scaled(self, parameters: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        """The vector that stands for parameters."""
        return parameters if self.scaling is None else self.scaling.scaled(parameters)

    def at(self, vector: Float[Tensor, " p"]) -> Any:
        """What is trained, with the parameters that a vector stands for."""
        return self.objective.at(self.natural(vector))

    def total(self, vector: Float[Tensor, " p"]) -> Evaluation:
        """The value without L1, its gradient and its noise.

        The gradient may lie in a buffer that the objective writes again: copy it to keep it.
        """
        natural, parts = self.natural(vector), self.objective.parts
        if parts == 1:
            found = self._checked(self.objective, natural)
        else:
            found = total([self._part(k, natural) for k in range(parts)])
        self.evaluations += 1
        return self._penalised(natural, found)

    def part(self, index: int, vector: Float[Tensor, " p"]) -> Evaluation:
        """One part of the objective and its equal share of L2; its warm start is kept."""
        natural = self.natural(vector)
        found = self._part(index, natural)
        self.objective.commit()
        return self._penalised(natural, found, 1 / self.objective.parts)

    def _part(self, index: int, natural: Float[Tensor, " p"]) -> Evaluation:
        return self._checked(lambda where: self.objective.part(index, where), natural)

    def _penalised(
        self, natural: Float[Tensor, " p"], found: Evaluation, share: float = 1.0
    ) -> Evaluation:
        value, gradient = found.value, found.gradient
        if self.penalty.has_l2:
            value = value + share * self.penalty.l2_value(natural)
            gradient = self.penalty.add_l2_gradient(natural, gradient, share)
        if self.scaling is not None:
            gradient = self.scaling.pull_back(gradient)
        return Evaluation(value, gradient, found.noise)

    def _checked(
        self, function: Callable[[Tensor], Evaluation], natural: Float[Tensor, " p"]
    ) -> Evaluation:
        self.before()
        found = function(natural)
        value, gradient = found.value, found.gradient
        if gradient.shape != natural.shape or gradient.dtype != natural.dtype or value.numel() != 1:
            raise TrainingError(
                f"the value has shape {tuple(value.shape)} and the gradient is {gradient.dtype} "
                f"of shape {tuple(gradient.shape)}; one number and {natural.dtype} of shape "
                f"{tuple(natural.shape)} are needed."
            )
        value = value.detach().to(natural.device).reshape(())
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
            f"{problem.objective.layout.place(index)} is {float(gradient[index])} "
            f"({int(wrong.sum())} such entries). Does a score of -inf meet a weight there?"
        )
    largest = int(gradient.abs().argmax()) if len(gradient) else 0
    if len(gradient) and not bool(gradient.dot(gradient).isfinite()):
        raise TrainingError(
            f"the gradient at parameter {problem.objective.layout.place(largest)} is "
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

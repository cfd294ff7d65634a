"""What training minimises: an objective plus L1 and L2, in coordinates that suit its curvature.

    objective(w) + l1 * sum |w| + l2 * sum w^2          (no factor of one half)

So `Penalty(l1=c1, l2=c2)` is CRFsuite's c1 and c2; a Gaussian prior of variance v has
l2 = 1 / (2 v), and scikit-learn's C is l2 = 1 / (2 C).

L-BFGS spends most of its iterations on learning how differently an objective bends along its
coordinates.  Where that is roughly known, it is divided out: training moves u and the objective
sees w.

    diagonal:   w = sizes * u                   sizes = 1 / sqrt(curvature along each parameter)
    Cholesky:   w = origin + L'^-1 u            L L' = the curvature at the origin
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.objectives.base import Evaluation, Layout, Objective, total

Strength = float | Mapping[str, float]  # one for all parameters, or by name (else 0)


@final
@dataclass(frozen=True)
class Penalty:
    """Strengths of L1 and L2: a number for all parameters, or a mapping from names to numbers.

    Parameters that a mapping does not name are not penalised.  Training adds the penalty once to
    the summed objective.
    """

    l1: Strength = 0.0
    l2: Strength = 0.0

    def __post_init__(self) -> None:
        for name, strength in (("l1", self.l1), ("l2", self.l2)):
            given = strength.values() if isinstance(strength, Mapping) else [strength]
            for own in given:
                if not (math.isfinite(own) and own >= 0):
                    raise TrainingError(f"{name}: a strength must be >= 0; got {own}.")

    def on(self, layout: Layout, like: Float[Tensor, " p"]) -> FlatPenalty:
        """Its strengths for the entries of a flat vector of the type and device of `like`."""
        return FlatPenalty(_flat(self.l1, layout, like), _flat(self.l2, layout, like))


@final
@dataclass(frozen=True, eq=False)
class FlatPenalty:
    """A penalty on one flat vector: one strength for all of its entries, or one for each."""

    l1: float | Float[Tensor, " p"] = 0.0
    l2: float | Float[Tensor, " p"] = 0.0

    @property
    def has_l1(self) -> bool:
        return isinstance(self.l1, Tensor) or self.l1 > 0

    @property
    def has_l2(self) -> bool:
        return isinstance(self.l2, Tensor) or self.l2 > 0

    def l1_value(self, vector: Float[Tensor, " p"]) -> Float[Tensor, ""]:
        """L1, the part with corners."""
        if isinstance(self.l1, Tensor):
            return (vector.abs() * self.l1).sum(dtype=torch.float64)
        length: Tensor = torch.linalg.vector_norm(vector, 1, dtype=torch.float64)
        return self.l1 * length

    def l2_value(self, vector: Float[Tensor, " p"]) -> Float[Tensor, ""]:
        """L2, the smooth part."""
        if isinstance(self.l2, Tensor):
            return (vector.square() * self.l2).sum(dtype=torch.float64)
        length: Tensor = torch.linalg.vector_norm(vector, dtype=torch.float64)
        return self.l2 * length.square()

    def add_l2_gradient(
        self, vector: Float[Tensor, " p"], gradient: Float[Tensor, " p"], share: float = 1.0
    ) -> Float[Tensor, " p"]:
        """A new vector: `gradient` plus `share` times the gradient of L2."""
        if isinstance(self.l2, Tensor):
            return gradient.addcmul(vector, self.l2, value=2 * share)
        return gradient.add(vector, alpha=2 * self.l2 * share)


def _flat(strength: Strength, layout: Layout, like: Tensor) -> float | Tensor:
    if not isinstance(strength, Mapping):
        return float(strength)
    layout.covers(strength)  # every name must be known
    strengths = [float(strength.get(name, 0.0)) for name in layout.names]
    # Made entry by entry only where needed: one number costs no memory traffic.
    if len(set(strengths)) == 1:
        return strengths[0]
    sizes = torch.tensor(layout.sizes, dtype=torch.int64)
    return torch.tensor(strengths, dtype=like.dtype).repeat_interleave(sizes).to(like.device)


class Scaling(Protocol):
    """A linear change of coordinates."""

    def natural(self, scaled: Float[Tensor, " p"], /) -> Float[Tensor, " p"]:
        """The parameters w of scaled coordinates u."""

    def scaled(self, natural: Float[Tensor, " p"], /) -> Float[Tensor, " p"]:
        """The scaled coordinates u of parameters w."""

    def pull_back(self, gradient: Float[Tensor, " p"], /) -> Float[Tensor, " p"]:
        """The gradient by u of what has this gradient by w."""


@final
@dataclass(frozen=True, eq=False)
class Diagonal:
    """w = sizes * u."""

    sizes: Float[Tensor, " p"]

    def natural(self, scaled: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        return scaled * self.sizes.to(scaled.dtype)

    def scaled(self, natural: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        return natural / self.sizes.to(natural.dtype)

    def pull_back(self, gradient: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        return gradient * self.sizes.to(gradient.dtype)


@final
@dataclass(frozen=True, eq=False)
class Cholesky:
    """w = origin + L'^-1 u for the lower triangle L."""

    factor: Float[Tensor, "p p"]
    origin: Float[Tensor, " p"]

    @classmethod
    def of(
        cls, curvature: Float[Tensor, "p p"], origin: Float[Tensor, " p"], l2: float = 0.0
    ) -> Cholesky:
        """From the curvature at the origin, without that of L2; a small ridge keeps it regular."""
        ridged = curvature.clone()
        diagonal = ridged.diagonal()
        diagonal.mul_(1.001).add_(2 * l2 + 1e-3 * diagonal.mean() + 1e-12)
        return cls(torch.linalg.cholesky(ridged), origin)

    def natural(self, scaled: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        column = scaled.unsqueeze(1)
        turned: Tensor = torch.linalg.solve_triangular(self.factor.T, column, upper=True)
        return self.origin + turned.squeeze(1)

    def scaled(self, natural: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        return self.factor.T @ (natural - self.origin)

    def pull_back(self, gradient: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        column = gradient.unsqueeze(1)
        turned: Tensor = torch.linalg.solve_triangular(self.factor, column, upper=False)
        return turned.squeeze(1)


def never() -> None:
    """Lets every evaluation go ahead."""


@final
@dataclass
class Problem:
    """An objective with its penalty as optimisers see it, and a count of evaluations.

    Optimisers move `vector`, the scaled coordinates where there is a `scaling`; objective and L2
    are functions of the parameters themselves.  `before` is called ahead of each evaluation of the
    objective or of one of its parts, and may raise to end training there.
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

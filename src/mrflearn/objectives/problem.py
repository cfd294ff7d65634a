"""What training minimises: an objective plus L1 and L2, in coordinates that suit its curvature.

    objective(w) + l1 * sum |w| + l2 * sum w^2          (no factor of one half)

So `Penalty(l1=c1, l2=c2)` is CRFsuite's c1 and c2; a Gaussian prior of variance v has
l2 = 1 / (2 v), and scikit-learn's C is l2 = 1 / (2 C).

L-BFGS spends most of its iterations on learning how differently an objective bends along its
coordinates.  Where that is roughly known, it is divided out: training moves u and the objective
sees w.

    diagonal:   w = sizes * u                   sizes = 1 / sqrt(curvature along each parameter)
    Cholesky:   w = origin + L'^-1 u            L L' = the curvature at the origin
    centred pairs: `objectives.independent`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, replace
from typing import Any, Protocol, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.objectives.base import Evaluation, Layout, Objective, Vector, total

# One for all parameters, or by name (else 0); a tensor has strengths of single entries, or of rows.
Strength = float | Mapping[str, float | Tensor]


@final
@dataclass(frozen=True)
class Penalty:
    """Strengths of L1 and L2: a number for all parameters, or a mapping from names to numbers.

    A mapping may have a tensor instead, which is broadcast to the shape of the parameter.
    Parameters that it does not name are not penalised.  Training adds the penalty once to the
    summed objective.
    """

    l1: Strength = 0.0
    l2: Strength = 0.0

    def __post_init__(self) -> None:
        for name, strength in (("l1", self.l1), ("l2", self.l2)):
            given = strength.values() if isinstance(strength, Mapping) else [strength]
            for own in given:
                least, most = torch.as_tensor(own).aminmax()
                if not 0 <= least <= most < math.inf:
                    raise TrainingError(f"{name}: a strength must be finite and >= 0; got {own}.")

    def on(self, layout: Layout, like: Vector) -> FlatPenalty:
        """Its strengths for the entries of a flat vector of the type and device of `like`."""
        return FlatPenalty(_flat(self.l1, layout, like), _runs(self.l2, layout, like))


@final
@dataclass(frozen=True, eq=False)
class FlatPenalty:
    """A penalty on one flat vector.

    L1: one strength for all of its entries, or one for each.  L2: the same for each of the runs of
    entries that it consists of, since strengths that are not made entry by entry cost no memory
    traffic.
    """

    l1: float | Vector = 0.0
    l2: tuple[tuple[slice, float | Vector], ...] = ((slice(None), 0.0),)

    @property
    def has_l1(self) -> bool:
        return isinstance(self.l1, Tensor) or self.l1 > 0

    @property
    def has_l2(self) -> bool:
        return any(isinstance(own, Tensor) or own > 0 for _, own in self.l2)

    def l1_value(self, vector: Vector) -> Float[Tensor, ""]:
        """L1, the part with corners."""
        if isinstance(self.l1, Tensor):
            return (vector.abs() * self.l1).sum(dtype=torch.float64)
        length: Tensor = torch.linalg.vector_norm(vector, 1, dtype=torch.float64)
        return self.l1 * length

    def l2_value(self, vector: Vector) -> Float[Tensor, ""]:
        """L2, the smooth part."""
        value = vector.new_zeros((), dtype=torch.float64)
        for run, own in self.l2:
            if isinstance(own, Tensor):
                value += (vector[run].square() * own).sum(dtype=torch.float64)
            elif own:
                value += own * torch.linalg.vector_norm(vector[run], dtype=torch.float64).square()
        return value

    def add_l2_gradient(self, vector: Vector, gradient: Vector, share: float = 1.0) -> Vector:
        """A new vector: `gradient` plus `share` times the gradient of L2."""
        result = torch.empty_like(gradient)
        for run, own in self.l2:
            if isinstance(own, Tensor):
                torch.addcmul(gradient[run], vector[run], own, value=2 * share, out=result[run])
            else:
                torch.add(gradient[run], vector[run], alpha=2 * own * share, out=result[run])
        return result


def _runs(
    strength: Strength, layout: Layout, like: Tensor
) -> tuple[tuple[slice, float | Tensor], ...]:
    """Runs of entries with their strengths: neighbours with one number make one run."""
    if not isinstance(strength, Mapping):
        return ((slice(None), float(strength)),)
    runs: list[tuple[slice, float | Tensor]] = []
    end = 0
    for own, shape in zip(_by_name(strength, layout), layout.shapes, strict=True):
        begin, end = end, end + math.prod(shape)
        if isinstance(own, Tensor):
            each = own.to(like.device, like.dtype).expand(shape).reshape(-1)
            runs.append((slice(begin, end), each))
            continue
        if runs and not isinstance(runs[-1][1], Tensor) and runs[-1][1] == own:
            begin = runs.pop()[0].start
        runs.append((slice(begin, end), own))
    return tuple(runs)


def _by_name(strength: Mapping[str, float | Tensor], layout: Layout) -> list[float | Tensor]:
    unknown = sorted(set(strength).difference(layout.names))
    if unknown:
        raise TrainingError(
            f"there is no parameter '{unknown[0]}'; there are: {', '.join(layout.names)}."
        )
    return [strength.get(name, 0.0) for name in layout.names]


def _flat(strength: Strength, layout: Layout, like: Tensor) -> float | Tensor:
    if not isinstance(strength, Mapping):
        return float(strength)
    strengths = _by_name(strength, layout)
    # Made entry by entry only where needed: one number costs no memory traffic.
    if not any(isinstance(own, Tensor) for own in strengths) and len(set(strengths)) == 1:
        return float(strengths[0])
    each = [torch.as_tensor(own, dtype=like.dtype) for own in strengths]
    pairs = zip(each, layout.shapes, strict=True)
    return torch.cat([own.expand(shape).reshape(-1) for own, shape in pairs]).to(like.device)


# Coordinates in which the curvature is about one.


@final
@dataclass(frozen=True, eq=False)
class Diagonal:
    """w = sizes * u."""

    sizes: Vector

    def around(self, origin: Vector) -> Diagonal:  # noqa: ARG002 - it has none
        """The same units, counted from an origin."""
        return self

    def natural(self, scaled: Vector) -> Vector:
        """The parameters w of scaled coordinates u."""
        return scaled * self.sizes

    def scaled(self, natural: Vector) -> Vector:
        """The scaled coordinates u of parameters w."""
        return natural / self.sizes

    def pull_back(self, gradient: Vector) -> Vector:
        """The gradient by u of what has this gradient by w."""
        return gradient * self.sizes


@final
@dataclass(frozen=True, eq=False)
class Cholesky:
    """w = origin + L'^-1 u for the lower triangle L; its methods are those of `Diagonal`."""

    factor: Float[Tensor, "p p"]
    origin: Vector

    @classmethod
    def of(cls, curvature: Float[Tensor, "p p"], origin: Vector, l2: float = 0.0) -> Cholesky:
        """From the curvature at the origin, without that of L2; a small ridge keeps it regular."""
        ridged = curvature.clone()
        diagonal = ridged.diagonal()
        diagonal.mul_(1.001).add_(2 * l2 + 1e-3 * diagonal.mean() + 1e-12)
        return cls(torch.linalg.cholesky(ridged), origin)

    def around(self, origin: Vector) -> Cholesky:
        return replace(self, origin=origin)

    def natural(self, scaled: Vector) -> Vector:
        return self.origin + _solve(self.factor.T, scaled, upper=True)

    def scaled(self, natural: Vector) -> Vector:
        return self.factor.T @ (natural - self.origin)

    def pull_back(self, gradient: Vector) -> Vector:
        return _solve(self.factor, gradient, upper=False)


def _solve(triangle: Tensor, vector: Tensor, *, upper: bool) -> Tensor:
    found: Tensor = torch.linalg.solve_triangular(triangle, vector.unsqueeze(1), upper=upper)
    return found.squeeze(1)


class Scaling(Protocol):
    """Any such coordinates."""

    def around(self, origin: Vector, /) -> Scaling: ...

    def natural(self, scaled: Vector, /) -> Vector: ...

    def scaled(self, natural: Vector, /) -> Vector: ...

    def pull_back(self, gradient: Vector, /) -> Vector: ...


# The objective with its penalty, as optimisers see it.


@final
@dataclass
class Meter:
    """Counts evaluations; `before` is called ahead of each, and may raise to end training there."""

    evaluations: int = 0
    before: Callable[[], None] = lambda: None


@final
@dataclass(eq=False)
class Problem:
    """An objective with its penalty as a function of one vector of the type and device of `like`.

    The vector holds the scaled coordinates where there is a `scaling`; objective and L2 are
    functions of the parameters themselves.
    """

    objective: Objective[Any]
    strengths: InitVar[Penalty]
    scaling: Scaling | None
    like: InitVar[Vector]
    seed: int
    meter: Meter

    def __post_init__(self, strengths: Penalty, like: Vector) -> None:
        self.penalty = strengths.on(self.objective.layout, like)
        if isinstance(self.scaling, Diagonal):
            self.scaling = Diagonal(self.scaling.sizes.to(like))
        elif self.scaling is not None and self.penalty.has_l1:
            raise TrainingError("coordinates that mix parameters take no L1 penalty.")

    @property
    def l1(self) -> float | Vector:
        """The strengths of L1 on the entries of the vector."""
        if isinstance(self.scaling, Diagonal) and self.penalty.has_l1:
            return self.penalty.l1 * self.scaling.sizes
        return self.penalty.l1

    def natural(self, vector: Vector) -> Vector:
        """The parameters that a vector stands for."""
        return vector if self.scaling is None else self.scaling.natural(vector)

    def total(self, vector: Vector) -> Evaluation:
        """The value without L1, its gradient and its noise.

        The gradient may lie in a buffer that the objective writes again: copy it to keep it.
        """
        natural = self.natural(vector)
        found = total([self._part(k, natural) for k in range(self.objective.parts)])
        self.meter.evaluations += 1
        return self._penalised(natural, found)

    def value(self, vector: Vector) -> float:
        """The complete value."""
        return self.with_l1(vector, self.total(vector)).value.item()

    def with_l1(self, vector: Vector, found: Evaluation) -> Evaluation:
        """What `total` found at a vector with the L1 penalty in its value."""
        return replace(found, value=found.value + self.penalty.l1_value(self.natural(vector)))

    def part(self, index: int, vector: Vector) -> Evaluation:
        """One part of the objective and its equal share of L2; its warm start is kept."""
        natural = self.natural(vector)
        found = self._part(index, natural)
        self.objective.commit()
        return self._penalised(natural, found, 1 / self.objective.parts)

    def _part(self, index: int, natural: Vector) -> Evaluation:
        self.meter.before()
        found = self.objective.part(index, natural)
        value, gradient = found.value, found.gradient
        if gradient.shape != natural.shape or gradient.dtype != natural.dtype or value.numel() != 1:
            raise TrainingError(
                f"the value has shape {tuple(value.shape)} and the gradient is {gradient.dtype} "
                f"of shape {tuple(gradient.shape)}; one number and {natural.dtype} of shape "
                f"{tuple(natural.shape)} are needed."
            )
        value = value.detach().to(natural.device).reshape(())
        return Evaluation(value, gradient.detach(), found.noise)

    def _penalised(self, natural: Vector, found: Evaluation, share: float = 1.0) -> Evaluation:
        value, gradient = found.value, found.gradient
        if self.penalty.has_l2:
            value = value + share * self.penalty.l2_value(natural)
            gradient = self.penalty.add_l2_gradient(natural, gradient, share)
        if self.scaling is not None:
            gradient = self.scaling.pull_back(gradient)
        return Evaluation(value, gradient, found.noise)

    def check_start(self, value: float, gradient: Vector) -> None:
        """Raises `TrainingError` where training cannot begin, naming the parameter at fault."""
        if not math.isfinite(value):
            raise TrainingError(
                f"the value at the starting point is {value}. A datum may be impossible under the "
                "starting parameters, or scores may overflow: try smaller starting parameters."
            )
        if not bool(gradient.dot(gradient).isfinite()):
            worst = int(gradient.abs().argmax())
            raise TrainingError(
                f"the value at the starting point is {value:g}, but its gradient at parameter "
                f"{self.objective.layout.place(worst)} is {float(gradient[worst]):.1e}, whose "
                f"square overflows {gradient.dtype}. Are some feature values very large (scale "
                "them to a range near 1), or does a score of -inf meet a weight there?"
            )


# How far values of a function can be trusted, measured where it is evaluated: along a line of
# equally spaced points, differences of high order of a smooth function vanish and those of its
# noise do not [J. More and S. Wild, Estimating computational noise, SIAM J. Sci. Comput. 33, 2011].


POINTS = 7
SMALLEST_SCALE = 1e-3  # of a parameter's change, relative to the step: many parameters start as 0


def measure_noise(value: Callable[[Tensor], float], vector: Vector, seed: int = 0) -> float:
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
    for order in range(1, len(values)):
        differences = np.diff(values - values[0], order)
        variance = math.factorial(order) ** 2 / math.factorial(2 * order)
        levels.append(math.sqrt(variance * float(np.mean(differences**2))))
        signs.append(differences.min() < 0 < differences.max())
    # The first order at which the estimate stays: differences of lower order hold the function.
    for order in range(len(levels) - 2):
        near = levels[order : order + 3]
        if signs[order] and max(near) <= 4 * min(near):
            return levels[order]
    return min(levels)

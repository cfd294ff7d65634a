"""What is to be made small, from where, and by what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.models.parameters import Layout
from mrflearn.objectives.objective import ValueAndGradient
from mrflearn.objectives.penalties import Penalty
from mrflearn.training.checkpoint import settings_of
from mrflearn.training.optimiser import Optimiser
from mrflearn.training.problem import Problem

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
    start: Float[Tensor, "p"]
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

"""Value and gradient of an estimator summed over partitions of the data, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import final
from uuid import uuid4

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.execution.executor import Executor
from mrflearn.execution.threads import Threads
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField
from mrflearn.objectives.field_likelihood import FieldLikelihood
from mrflearn.objectives.field_objectives import Principle, ValueAndGradient, field_objective


@dataclass(frozen=True, eq=False)
class Partition:
    """Some of the examples; `key` tells trainings apart, `number` the partitions of one."""

    key: str
    number: int
    batch: FieldBatch


@dataclass(frozen=True, eq=False)
class Slope:
    """A value and a gradient, and whether all inference behind them converged; they add up."""

    value: Float[Tensor, ""]
    gradient: Float[Tensor, "p"]
    converged: bool

    def __add__(self, other: Slope) -> Slope:
        converged = self.converged and other.converged
        return Slope(self.value + other.value, self.gradient + other.gradient, converged)


@dataclass(eq=False)
class _Laid:
    """A partition as a worker keeps it: its function, and the evaluation it did last."""

    function: ValueAndGradient
    number: int = 0


_LAID: dict[tuple[str, int], _Laid] = {}  # of this worker


@final
@dataclass(frozen=True, eq=False)
class _Evaluation:
    """The task of a worker: value and gradient of one partition at one vector."""

    model: LogLinearField
    principle: Principle
    vector: Float[Tensor, "p"]
    number: int  # of the evaluation, from 1
    stands: int  # the evaluation whose vector training stands at

    def __call__(self, partition: Partition) -> Slope:
        laid = self._laid(partition)
        if isinstance(laid.function, FieldLikelihood) and laid.number == self.stands:
            laid.function.stay()
        value, gradient = laid.function(self.vector)
        laid.number = self.number
        converged = not isinstance(laid.function, FieldLikelihood) or laid.function.converged
        return Slope(value.double(), gradient.double(), converged)

    def _laid(self, partition: Partition) -> _Laid:
        place = (partition.key, partition.number)
        if place not in _LAID:
            if any(key != partition.key for key, _ in _LAID):
                _LAID.clear()  # an earlier training is over
            threads = Threads(1)
            function = field_objective(self.model, partition.batch, self.principle, threads)
            _LAID[place] = _Laid(function)
        return _LAID[place]


@final
@dataclass(eq=False)
class Distributed:
    """An objective whose partitions are added up by an executor.

    Partitions travel with every evaluation, as executors promise no memory; workers lay them out
    once and keep that.
    """

    model: LogLinearField
    principle: Principle
    batches: list[FieldBatch]
    executor: Executor
    key: str = field(default_factory=lambda: uuid4().hex)
    converged: bool = True  # whether every inference of the last evaluation came to rest
    evaluations: int = 0
    stands: int = 0

    @torch.no_grad()
    def __call__(self, vector: Float[Tensor, "p"]) -> tuple[Tensor, Tensor]:
        """Nats, summed over all partitions; and the gradient."""
        # A fresh copy: plans that this one may hold by now need not travel.
        self.evaluations += 1
        numbers = (self.evaluations, self.stands)
        task = _Evaluation(replace(self.model), self.principle, vector, *numbers)
        items = [Partition(self.key, k, batch) for k, batch in enumerate(self.batches)]
        found = self.executor.total(task, items)
        self.converged = found.converged
        return found.value, found.gradient.to(vector.dtype)

    @property
    def branches(self) -> bool:
        """Whether the value may depend on the messages that it began with."""
        return self.principle.estimator == "bp"

    def stay(self) -> None:
        """From now on messages start from those of the last evaluation, where a worker did it."""
        self.stands = self.evaluations

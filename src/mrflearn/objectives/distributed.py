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
from mrflearn.objectives.field_objectives import Principle, ValueAndGradient, field_objective

_LAID: dict[tuple[str, int], ValueAndGradient] = {}  # of a worker: the partitions it has laid out


@dataclass(frozen=True, eq=False)
class Partition:
    """Some of the examples; `key` tells trainings apart, `number` the partitions of one."""

    key: str
    number: int
    batch: FieldBatch


@dataclass(frozen=True, eq=False)
class Slope:
    """A value and a gradient; they add up."""

    value: Float[Tensor, ""]
    gradient: Float[Tensor, "p"]

    def __add__(self, other: Slope) -> Slope:
        return Slope(self.value + other.value, self.gradient + other.gradient)


@final
@dataclass(frozen=True, eq=False)
class _Evaluation:
    """The task of a worker: value and gradient of one partition at one vector."""

    model: LogLinearField
    principle: Principle
    vector: Float[Tensor, "p"]

    def __call__(self, partition: Partition) -> Slope:
        place = (partition.key, partition.number)
        if place not in _LAID:
            if any(key != partition.key for key, _ in _LAID):
                _LAID.clear()  # an earlier training is over
            threads = Threads(1)
            _LAID[place] = field_objective(self.model, partition.batch, self.principle, threads)
        value, gradient = _LAID[place](self.vector)
        return Slope(value.double(), gradient.double())


@final
@dataclass(frozen=True, eq=False)
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

    @torch.no_grad()
    def __call__(self, vector: Float[Tensor, "p"]) -> tuple[Tensor, Tensor]:
        """Nats, summed over all partitions; and the gradient."""
        # A fresh copy: plans that this one may hold by now need not travel.
        task = _Evaluation(replace(self.model), self.principle, vector)
        items = [Partition(self.key, k, batch) for k, batch in enumerate(self.batches)]
        found = self.executor.total(task, items)
        return found.value, found.gradient.to(vector.dtype)

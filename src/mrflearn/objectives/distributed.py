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
from mrflearn.objectives.base import Evaluation, Objective
from mrflearn.objectives.field_likelihood import FieldLikelihood
from mrflearn.objectives.field_objectives import Principle, field_objective


@dataclass(frozen=True, eq=False)
class Partition:
    """Some of the examples; `key` tells trainings apart, `number` the partitions of one.

    `start` is what evaluations start from, messages of belief propagation for instance: it travels
    with the examples, so that answers do not depend on which worker gives them.
    """

    key: str
    number: int
    batch: FieldBatch
    start: dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class PartObjective:
    """The share of some partitions in an evaluation; shares add up.

    `starts` are the warm starts that each partition's evaluation left; `converged` says whether
    all inference behind it converged.
    """

    value: Float[Tensor, ""]
    gradient: Float[Tensor, " p"]
    converged: bool
    starts: dict[int, dict[str, Tensor]]

    def __add__(self, other: PartObjective) -> PartObjective:
        converged = self.converged and other.converged
        starts = self.starts | other.starts
        return PartObjective(
            self.value + other.value, self.gradient + other.gradient, converged, starts
        )


_COMPILED: dict[tuple[str, int], Objective[LogLinearField]] = {}  # of this worker


@final
@dataclass(frozen=True, eq=False)
class _Evaluate:
    """The task of a worker: value and gradient of one partition at one vector."""

    model: LogLinearField
    principle: Principle
    vector: Float[Tensor, " p"]

    def __call__(self, partition: Partition) -> PartObjective:
        objective = self._function(partition)
        objective.restore(partition.start)
        found = objective(self.vector)
        objective.commit()
        converged = not isinstance(objective, FieldLikelihood) or objective.converged
        starts = {partition.number: objective.state()}
        return PartObjective(found.value.double(), found.gradient.double(), converged, starts)

    def _function(self, partition: Partition) -> Objective[LogLinearField]:
        place = (partition.key, partition.number)
        if place not in _COMPILED:
            if any(key != partition.key for key, _ in _COMPILED):
                _COMPILED.clear()  # an earlier training is over
            threads = Threads(1)
            function = field_objective(self.model, partition.batch, self.principle, threads)
            _COMPILED[place] = function
        return _COMPILED[place]


@final
@dataclass(eq=False)
class Distributed(Objective[LogLinearField]):
    """An objective whose partitions are added up by an executor.

    Partitions travel with every evaluation, as executors promise no memory; workers compile them
    once and keep that.
    """

    model: LogLinearField
    principle: Principle
    batches: list[FieldBatch]
    executor: Executor
    key: str = field(default_factory=lambda: uuid4().hex)
    converged: bool = True  # whether every inference of the last evaluation converged
    starts: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    latest: dict[int, dict[str, Tensor]] = field(default_factory=dict)

    @torch.no_grad()
    def __call__(self, vector: Float[Tensor, " p"]) -> Evaluation:
        """Nats, summed over all partitions."""
        # A fresh copy: plans that this one may hold by now need not travel.
        task = _Evaluate(replace(self.model), self.principle, vector)
        items = [
            Partition(self.key, k, batch, self.starts.get(k, {}))
            for k, batch in enumerate(self.batches)
        ]
        found = self.executor.total(task, items)
        self.converged, self.latest = found.converged, found.starts
        return Evaluation(found.value, found.gradient.to(vector.dtype))

    @property
    def branches(self) -> bool:
        """Whether the value may depend on the messages that it began with."""
        return self.principle.estimator == "bp"

    def commit(self) -> None:
        """From now on messages start from those of the last evaluation."""
        self.starts = self.latest

    def state(self) -> dict[str, Tensor]:
        """The messages that evaluations start from."""
        return {f"{k}.{name}": own for k, held in self.starts.items() for name, own in held.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""
        self.starts = {}
        for name, own in state.items():
            number, _, rest = name.partition(".")
            self.starts.setdefault(int(number), {})[rest] = own
        self.latest = self.starts

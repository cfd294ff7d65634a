"""Value and gradient of an estimator summed over partitions of the data, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeAlias, final
from uuid import uuid4

import torch
from torch import Tensor

from mrflearn.execution.executor import Executor
from mrflearn.execution.resources import Threads
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField
from mrflearn.objectives.base import Evaluation, Objective, Vector, numbered, total, under
from mrflearn.objectives.field_objectives import Principle, field_objective

State = dict[str, Tensor]


class _Partition(NamedTuple):
    """Some of the examples by their number in one training; `start`: where evaluation starts from.

    The share, what `field_objective` takes, is None where the worker should have it already.
    """

    training: str
    number: int
    start: State
    share: tuple[LogLinearField, FieldBatch, Principle] | None


_Answer: TypeAlias = tuple[Evaluation, bool, State] | None
_COMPILED: dict[tuple[str, int], Objective[LogLinearField]] = {}  # of this worker


def _evaluate(vector: Vector, partition: _Partition) -> _Answer:
    """The task of a worker: a partition at one vector, whether it converged, and its warm start.

    None: this worker has not got the share.
    """
    training, number, start, share = partition
    if (training, number) not in _COMPILED:
        if share is None:
            return None
        if any(other != training for other, _ in _COMPILED):
            _COMPILED.clear()  # an earlier training is over
        _COMPILED[training, number] = field_objective(*share, Threads(1))
    objective = _COMPILED[training, number]
    objective.restore(start)
    found = objective(vector)
    objective.commit()
    doubled = replace(found, gradient=found.gradient.double())
    return doubled, objective.converged, objective.state()


@final
@dataclass(eq=False)
class Distributed(Objective[LogLinearField]):
    """An objective whose partitions are worked on by an executor.

    Examples travel once to every worker that is asked about them, which keeps them; from then on
    only vectors and sums do.  Warm starts travel too, so that answers do not depend on who gives
    them.
    """

    model: LogLinearField
    principle: Principle
    batches: list[FieldBatch]
    executor: Executor
    training: str = field(default_factory=lambda: uuid4().hex)
    sent: bool = False
    converged: bool = True

    def __post_init__(self) -> None:
        self.restore({})

    @torch.no_grad()
    def __call__(self, vector: Vector) -> Evaluation:
        """Nats, summed over all partitions."""
        answers = self._ask(vector, range(len(self.batches)), with_share=not self.sent)
        lost = [k for k, own in answers.items() if own is None]
        answers |= self._ask(vector, lost, with_share=True) if lost else {}
        found, converged, self.latest = zip(*filter(None, answers.values()), strict=True)
        self.sent, self.converged = True, all(converged)
        summed = total(found)
        return replace(summed, gradient=summed.gradient.to(vector.dtype))

    def _ask(
        self, vector: Tensor, numbers: Sequence[int], *, with_share: bool
    ) -> dict[int, _Answer]:
        partitions = []
        for k in numbers:
            share = (self.model, self.batches[k], self.principle) if with_share else None
            partitions.append(_Partition(self.training, k, self.starts[k], share))
        found = self.executor.map(partial(_evaluate, vector), partitions)
        return dict(zip(numbers, found, strict=True))

    @property
    def branches(self) -> bool:
        """Whether the value may depend on the messages that it began with."""
        return self.principle.estimator == "bp"

    def commit(self) -> None:
        """From now on messages start from those of the last evaluation."""
        self.starts = self.latest

    def state(self) -> State:
        """The messages that evaluations start from."""
        return numbered(self.starts)

    def restore(self, state: State) -> None:
        """Take over what `state` gave."""
        own = tuple(under(f"{k}.", state) for k in range(len(self.batches)))
        self.starts = self.latest = own

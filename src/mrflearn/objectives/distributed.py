"""Value and gradient of an estimator summed over partitions of the data, wherever they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, final
from uuid import uuid4

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.execution.executor import Executor
from mrflearn.execution.resources import Threads
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField
from mrflearn.objectives.base import Evaluation, Objective, total
from mrflearn.objectives.field_objectives import Principle, field_objective
from mrflearn.objectives.likelihood import FieldLikelihood

State = dict[str, Tensor]


class _Partition(NamedTuple):
    """Some of the examples by their number in one training; `start`: where evaluation starts from.

    The share, what `field_objective` takes, is None where the worker should have it already.
    """

    training: str
    number: int
    start: State
    share: tuple[LogLinearField, FieldBatch, Principle] | None


_COMPILED: dict[tuple[str, int], Objective[LogLinearField]] = {}  # of this worker


@final
@dataclass(frozen=True, eq=False)
class _Evaluate:
    """The task of a worker: a partition at one vector, whether it converged, and its warm start.

    None: this worker has not got the share.
    """

    vector: Float[Tensor, " p"]

    def __call__(self, partition: _Partition) -> tuple[Evaluation, bool, State] | None:
        place, share = (partition.training, partition.number), partition.share
        if place not in _COMPILED:
            if share is None:
                return None
            if any(training != partition.training for training, _ in _COMPILED):
                _COMPILED.clear()  # an earlier training is over
            _COMPILED[place] = field_objective(*share, Threads(1))
        objective = _COMPILED[place]
        objective.restore(partition.start)
        found = objective(self.vector)
        objective.commit()
        converged = not isinstance(objective, FieldLikelihood) or objective.converged
        return replace(found, gradient=found.gradient.double()), converged, objective.state()


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
    converged: bool = True  # whether every inference of the last evaluation converged
    starts: dict[int, State] = field(default_factory=dict)
    latest: dict[int, State] = field(default_factory=dict)

    @torch.no_grad()
    def __call__(self, vector: Float[Tensor, " p"]) -> Evaluation:
        """Nats, summed over all partitions."""
        task, everyone = _Evaluate(vector), range(len(self.batches))
        answers = list(
            self.executor.map(task, self._partitions(everyone, with_share=not self.sent))
        )
        lost = [k for k in everyone if answers[k] is None]
        if lost:
            again = self.executor.map(task, self._partitions(lost, with_share=True))
            for k, own in zip(lost, again, strict=True):
                answers[k] = own
        found = [own for own in answers if own is not None]
        self.sent, self.converged = True, all(converged for _, converged, _ in found)
        self.latest = {k: state for k, (_, _, state) in enumerate(found)}
        whole = total([own for own, _, _ in found])
        return replace(whole, gradient=whole.gradient.to(vector.dtype))

    def _partitions(self, numbers: Iterable[int], *, with_share: bool) -> list[_Partition]:
        return [
            _Partition(
                self.training,
                k,
                self.starts.get(k, {}),
                (self.model, self.batches[k], self.principle) if with_share else None,
            )
            for k in numbers
        ]

    @property
    def branches(self) -> bool:
        """Whether the value may depend on the messages that it began with."""
        return self.principle.estimator == "bp"

    def commit(self) -> None:
        """From now on messages start from those of the last evaluation."""
        self.starts = self.latest

    def state(self) -> State:
        """The messages that evaluations start from."""
        return {f"{k}.{name}": own for k, held in self.starts.items() for name, own in held.items()}

    def restore(self, state: State) -> None:
        """Take over what `state` gave."""
        self.starts = {}
        for name, own in state.items():
            number, _, rest = name.partition(".")
            self.starts.setdefault(int(number), {})[rest] = own
        self.latest = self.starts

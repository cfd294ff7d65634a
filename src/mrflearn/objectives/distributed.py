"""Value and gradient of an estimator summed over parts of the data, which stay where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, final

import torch
from torch import Tensor

from mrflearn.execution.executor import Executor
from mrflearn.execution.held import Held
from mrflearn.execution.resources import Threads
from mrflearn.features.features import CompiledFeatures, Numbering
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import ChainBatch, LogLinearField
from mrflearn.objectives.base import Evaluation, Objective, Vector, numbered, total, under
from mrflearn.objectives.field_objectives import Principle, field_objective

State = dict[str, Tensor]
Batch: TypeAlias = FieldBatch | ChainBatch
NumberedBatch = tuple[int, Batch]  # one part of all data
NumberedObjective = tuple[int, Objective[LogLinearField]]


def hold_batch(batch: Batch, place: Executor) -> Held[NumberedBatch]:
    """The examples of a batch in parts of about equal size, where an executor runs."""
    count, sizes = place.width, batch.sizes
    last = (sizes.cumsum(0) * count - 1).div(max(1, int(sizes.sum())), rounding_mode="floor")
    lengths = last.clamp_(0, count - 1).unique_consecutive(return_counts=True)[1]
    parts = torch.arange(len(sizes)).split(lengths.tolist())
    return place.hold(enumerate(without_names(batch.examples(own)) for own in parts))


def without_names(batch: Batch) -> Batch:
    """The batch for an objective, which knows attributes by their numbers."""

    def bare(own: CompiledFeatures) -> CompiledFeatures:
        return replace(own, names=Numbering(closed=True))

    if isinstance(batch, FieldBatch):
        return replace(batch, features=tuple(map(bare, batch.features)))
    return replace(batch, features=bare(batch.features), joint=tuple(map(bare, batch.joint)))


@dataclass(frozen=True, eq=False)
class Compile:
    """What a worker makes of its part of the data: the objective of that part."""

    model: LogLinearField
    principle: Principle

    def __call__(self, part: NumberedBatch) -> NumberedObjective:
        number, batch = part
        return number, field_objective(self.model, batch, self.principle, Threads(1))


@dataclass(frozen=True, eq=False)
class _Answer:
    """Value and gradient of some parts, whether all converged, and the warm start of each."""

    found: Evaluation
    converged: bool
    states: dict[int, State]

    def __add__(self, other: _Answer) -> _Answer:
        return _Answer(
            total((self.found, other.found)),
            self.converged and other.converged,
            self.states | other.states,
        )


@dataclass(frozen=True, eq=False)
class _Evaluate:
    """The task of a worker: a part at one vector, beginning with the messages that are given."""

    vector: Vector
    starts: dict[int, State]  # those that are not empty

    def __call__(self, part: NumberedObjective) -> _Answer:
        number, objective = part
        objective.restore(self.starts.get(number, {}))
        found = objective(self.vector)
        objective.commit()
        state = objective.state()
        doubled = replace(found, gradient=found.gradient.double())
        return _Answer(doubled, objective.converged, {number: state} if state else {})


@final
class Distributed(Objective[LogLinearField]):
    """The sum of the objectives of parts of the data that an executor holds.

    The data were sent before and are compiled where they are, once; only the vector is sent, and
    one sum comes back.  Messages of belief propagation travel too, so that answers do not depend on
    who gives them.
    """

    def __init__(
        self, model: LogLinearField, principle: Principle, parts: Held[NumberedBatch]
    ) -> None:
        self.model, self.principle = model, principle
        self.held = parts.then(Compile(model, principle))
        self._starts: dict[int, State] = {}
        self._latest: dict[int, State] = {}
        self._converged = True

    @torch.no_grad()
    def __call__(self, vector: Vector) -> Evaluation:
        """Nats, summed over all parts."""
        answer = self.held.total(_Evaluate(vector.detach().clone(), self._starts))
        self._latest, self._converged = answer.states, answer.converged
        return replace(answer.found, gradient=answer.found.gradient.to(vector.dtype))

    @property
    def converged(self) -> bool:
        return self._converged

    @property
    def branches(self) -> bool:
        """Whether the value may depend on the messages that it began with."""
        return self.principle.estimator == "bp"

    def commit(self) -> None:
        """From now on messages start from those of the last evaluation."""
        self._starts = self._latest

    def state(self) -> State:
        """The messages that evaluations start from."""
        most = max(self._starts, default=-1) + 1
        return numbered([self._starts.get(k, {}) for k in range(most)])

    def restore(self, state: State) -> None:
        """Take over what `state` gave."""
        numbers = sorted({int(name.partition(".")[0]) for name in state})
        self._starts = self._latest = {k: under(f"{k}.", state) for k in numbers}

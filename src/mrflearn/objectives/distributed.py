"""Value and gradient of an estimator summed over parts of the data, which stay where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from mrflearn.execution.executor import Executor
from mrflearn.execution.held import Held
from mrflearn.execution.resources import Threads
from mrflearn.features.features import Unnamed
from mrflearn.models.held_chains import Batch, NumberedBatch, without_names
from mrflearn.models.loglinear import FieldPlans, LogLinearField
from mrflearn.objectives.base import Evaluation, Objective, Vector, total, under
from mrflearn.objectives.field_objectives import Principle, field_objective

State = dict[str, Tensor]
NumberedObjective = tuple[str, Objective[LogLinearField]]


def hold_batch(batch: Batch, place: Executor) -> Held[NumberedBatch]:
    """The examples of a batch in parts of about equal size, where an executor runs."""
    count, sizes = place.width, batch.sizes
    last = (sizes.cumsum(0) * count - 1).div(max(1, int(sizes.sum())), rounding_mode="floor")
    lengths = last.clamp_(0, count - 1).unique_consecutive(return_counts=True)[1]
    parts = torch.arange(len(sizes)).split(lengths.tolist())
    examples = (without_names(batch.examples(own)) for own in parts)
    return place.hold((str(k), own) for k, own in enumerate(examples))


def without_weights(model: LogLinearField) -> LogLinearField:
    """The model for an objective, which takes its weights from a vector, attributes by number."""

    def bare(own: Tensor) -> Tensor:
        return own.new_zeros(()).expand(own.shape)  # one number, whatever the shape

    plans = FieldPlans(tuple(replace(t, names=Unnamed(len(t.names))) for t in model.templates))
    weights, dense = (tuple(map(bare, own)) for own in (model.weights, model.dense))
    return replace(model, plans=plans, weights=weights, dense=dense)


@dataclass(frozen=True, eq=False)
class Compile:
    """What a worker makes of its part of the data: the objective of that part."""

    model: LogLinearField
    principle: Principle

    def __call__(self, part: NumberedBatch) -> NumberedObjective:
        number, batch = part
        if not int(batch.sizes.sum()):
            return number, _Nothing(self.model)
        return number, field_objective(self.model, batch, self.principle, Threads(1))


class _Nothing(Objective[LogLinearField]):
    """Zero: the objective of no examples."""

    def __init__(self, model: LogLinearField) -> None:
        self.model = model

    def __call__(self, vector: Vector) -> Evaluation:
        return Evaluation(vector.new_zeros((), dtype=torch.float64), torch.zeros_like(vector))


@dataclass(frozen=True, eq=False)
class _Answer:
    """Value and gradient of some parts, whether all converged, and the warm start of each."""

    found: Evaluation
    converged: bool
    states: dict[str, State]

    def __getstate__(self) -> dict[str, Any]:
        """Without the zeros of the gradient: some of the data know but some of the weights."""
        gradient = self.found.gradient.numpy(force=True)
        there = gradient != 0
        held = replace(self.found, gradient=self.found.gradient.new_zeros(0))
        packed = len(there), np.packbits(there), gradient[there]
        return {**self.__dict__, "found": held, "gradient": packed}

    def __setstate__(self, held: dict[str, Any]) -> None:
        count, bits, values = held.pop("gradient")
        gradient = np.zeros(count, values.dtype)
        gradient[np.unpackbits(bits, count=count).view(bool)] = values
        found = held["found"]
        own = torch.from_numpy(gradient).to(found.gradient.device)
        self.__dict__.update(held, found=replace(found, gradient=own))

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
    starts: dict[str, State]  # those that are not empty

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
        self.held = parts.then(Compile(without_weights(model), principle))
        self._starts: dict[str, State] = {}
        self._latest: dict[str, State] = {}
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
        pairs = ((k, name, own) for k, held in self._starts.items() for name, own in held.items())
        return {f"{k}.{name}": own for k, name, own in pairs}

    def restore(self, state: State) -> None:
        """Take over what `state` gave."""
        parts = {name.partition(".")[0] for name in state}
        self._starts = self._latest = {k: under(f"{k}.", state) for k in sorted(parts)}

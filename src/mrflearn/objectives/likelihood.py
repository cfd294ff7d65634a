"""Minus the log-likelihood, of counts or of labelled fields, by whatever inference gives log Z.

Exact on chains and where the width is small; with belief propagation Bethe's value at the fixed
point that messages come to from where training stands.  Where labels are not known for certain,
log Z over the allowed ones takes the place of their score.

A field may have several fixed points, and Bethe's value is a smooth function of the weights only
along one of them.  So messages start from those of the last vector that training accepted, never
from those of a trial it turned down: a trial far away may have fallen to another fixed point, and
from there a line search never finds back to the value that it started from.

Letters in shapes: p: all weights of a model; c: examples; v: variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.execution.resources import Threads
from mrflearn.features.observations import CliqueCounts
from mrflearn.graph.evidence import restrict
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Inference
from mrflearn.inference.messages import is_forest
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.incidence import FeatureIncidence
from mrflearn.models.loglinear import NUMBERS_IN_TABLES, LogLinearField
from mrflearn.objectives.base import Evaluation, Objective, Vector

# Of a field whose potentials do not depend on the data.


class FieldModel(Protocol):
    """A model whose potentials do not depend on the batch."""

    def potentials(self) -> Potentials: ...


@dataclass(frozen=True)
class Likelihood:
    """-log p of everything counted: exact, a bound or an approximation, as the inference is."""

    inference: Inference

    def __call__(self, model: FieldModel, batch: CliqueCounts) -> Tensor:
        """Nats, summed over the weights of the batch."""
        potentials = model.potentials()
        log_partition = self.inference(potentials).log_partition
        loss = (batch.weights.to(log_partition.dtype) * log_partition).sum()
        for index, counts in enumerate(batch.counts):
            scores = potentials.factor_scores(index)
            # An impossible state that was never seen adds 0 * -inf: nothing.
            seen = torch.where(counts > 0, counts.to(scores.dtype) * scores, 0.0)
            loss = loss - seen.sum()
        return loss


# Of labelled examples of a log-linear field.


# log Z and the score of the labels are both large, and Bethe's value adds up thousands of terms of
# both signs: in float32 what is left of them is off by more than the last falls of the value in
# training, and a line search gets stuck.
INFERENCE = torch.float64
# Messages of a part are passed until those of all its examples converge: in small parts few wait.
NUMBERS_UNDER_MESSAGES = 2**17


@dataclass(eq=False)
class _Part:
    """Examples worked on together; where inference starts from, and where it last ended."""

    batch: FieldBatch
    incidences: tuple[FeatureIncidence, ...]
    weight: Float[Tensor, " c"]  # how often each counts; where restricted, with a minus
    restricted: bool  # to the allowed labels
    warm: Tensor | None = None
    latest: Tensor | None = None
    converged: bool = True

    def potentials(self, model: LogLinearField) -> Potentials:
        found = model.potentials(self.batch, self.incidences)
        return restrict(found, self.batch.allowed_states()) if self.restricted else found


@final
@dataclass(eq=False)
class FieldLikelihood(Objective[LogLinearField]):
    """-log p(y | x) as a function of the flat vector of weights."""

    model: LogLinearField  # templates and type count; its weights do not
    batch: FieldBatch
    inference: Inference
    threads: Threads

    def __post_init__(self) -> None:
        self.blocks = list(self._cut())

    @property
    def converged(self) -> bool:
        return all(part.converged for part in self.blocks)

    @cached_property
    def branches(self) -> bool:
        """Whether the value may depend on the messages that it began with."""
        return self.inference.warm_starts and not self.batch.graph.planned(is_forest)

    def commit(self) -> None:
        """From now on messages start from those of the last evaluation."""
        for part in self.blocks:
            part.warm = part.latest

    def state(self) -> dict[str, Tensor]:
        """The messages that evaluations start from."""
        return {str(k): own.warm for k, own in enumerate(self.blocks) if own.warm is not None}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""
        for k, part in enumerate(self.blocks):
            part.warm = part.latest = state.get(str(k))

    @cached_property
    def observed(self) -> Vector:
        """How often each weight counts in the scores of known labels: the gradient of these."""
        leaf = torch.zeros_like(self.start, dtype=INFERENCE).requires_grad_(True)
        with torch.enable_grad():
            model, total = self.at(leaf), 0.0 * leaf.sum()
            for part in self.blocks:
                if not part.restricted:
                    score = part.potentials(model).score(part.batch.states)
                    total = total + (score * part.weight * ~_uncertain(part.batch)).sum()
        return torch.autograd.grad(total, leaf)[0]

    def __call__(self, vector: Vector) -> Evaluation:
        """Nats, summed over the weights of the examples."""
        value, gradient = -torch.dot(self.observed, vector.double()), -self.observed
        for more, own in self.threads.map(lambda part: self._solve(vector, part), self.blocks):
            value, gradient = value + more, gradient + own
        return Evaluation(value, gradient.to(vector.dtype))

    def _solve(self, vector: Vector, part: _Part) -> tuple[Tensor, Tensor]:
        leaf = vector.detach().to(INFERENCE).requires_grad_(True)
        with torch.enable_grad():
            model = self.model.with_parameters(self.layout.unflatten(leaf))
            beliefs = self.inference(part.potentials(model), part.warm)
            part.latest, part.converged = beliefs.warm, beliefs.converged
            value = (beliefs.log_partition.double() * part.weight).sum()
        return value.detach(), torch.autograd.grad(value, leaf)[0]

    def _cut(self) -> Iterator[_Part]:
        uncertain = _uncertain(self.batch)
        most = NUMBERS_UNDER_MESSAGES if self.inference.warm_starts else NUMBERS_IN_TABLES
        everyone = torch.arange(self.batch.graph.components)
        for examples in runs_of(self.batch, everyone, self.threads.count, most):
            own = self.batch.examples(examples)
            incidences = self.model.incidences(own, INFERENCE)
            weight = torch.ones(len(examples)) if own.weight is None else own.weight
            yield _Part(own, incidences, weight.double(), restricted=False)
            unsure = uncertain[examples]
            if bool(unsure.any()):  # the examples with known labels count 0 times then
                yield _Part(own, incidences, -weight.double() * unsure, restricted=True)


def _uncertain(batch: FieldBatch) -> Bool[Tensor, " c"]:
    """The examples with a label that is not known for certain."""
    found = torch.zeros(batch.graph.components, dtype=torch.bool)
    found[batch.graph.component[batch.uncertain]] = True
    return found


def runs_of(
    batch: FieldBatch, order: Int64[Tensor, " c"], cores: int = 1, most: int = NUMBERS_IN_TABLES
) -> tuple[Int64[Tensor, " n"], ...]:
    """Runs of examples in that order whose tables fit in memory together, enough for every core."""
    graph = batch.graph
    entries = torch.zeros(graph.components, dtype=torch.int64)
    for group in graph.groups:
        if len(group):
            cells = int(graph.states[group.scope[0]].prod())
            entries += cells * torch.bincount(graph.component_of(group), minlength=graph.components)
    entries = entries[order]
    most = max(1, min(most, -(-int(entries.sum()) // max(1, cores))))
    number = (entries.cumsum(0) - entries).div(most, rounding_mode="floor")
    lengths = number.unique_consecutive(return_counts=True)[1].tolist()
    return tuple(torch.split(order, lengths))

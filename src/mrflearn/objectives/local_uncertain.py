"""Local problems around labels that are not known for certain, by autograd: they are few.

A factor sums over the completions of its own missing labels; free variables sum over the allowed
ones in the numerator and over all in the denominator:

    log p = LSE over allowed free of u  -  LSE over all free of u
    u(free) = sum over factors of LSE over the allowed states of what is given

For a piece of one factor this is the conditional probability of its labels; where missing
neighbours belong to one factor each, it is that of the variable given what is known around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mrflearn.features.index import joint_mask
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import FeatureIncidence, LogLinearField, whole_incidence
from mrflearn.objectives.base import Evaluation, Objective
from mrflearn.objectives.local_problems import ProblemPart, Problems


@dataclass(frozen=True, eq=False)
class _Contribution:
    """Factors that play one part: where their weights are, and what their given axes may be."""

    part: ProblemPart
    incidence: FeatureIncidence
    given: Bool[Tensor, "m o"]

    def marginal_scores(self, model: LogLinearField) -> Float[Tensor, "m l"]:
        """The scores of their free axes, summed over what the others may be."""
        table = model.table(self.part.group, self.incidence)
        axes = range(table.ndim - 1)
        given = [axis for axis in axes if axis not in self.part.free]
        order = [0, *(1 + axis for axis in (*self.part.free, *given))]
        flat = table.permute(order).reshape(len(table), -1, self.given.shape[1])
        return flat.masked_fill(~self.given.unsqueeze(1), -torch.inf).logsumexp(dim=2)


@final
@dataclass(frozen=True, eq=False)
class UncertainLikelihood(Objective[LogLinearField]):
    """-log p of problems with uncertain labels, as a function of the flat vector of weights."""

    model: LogLinearField  # templates and type count; its weights do not
    batch: FieldBatch
    problems: list[Problems]

    @cached_property
    def contributions(self) -> list[list[_Contribution]]:
        """Those of each record of problems."""
        return [[self._contribution(part) for part in own.parts] for own in self.problems]

    def __call__(self, vector: Float[Tensor, " p"]) -> Evaluation:
        """Nats, summed over the weights of the problems; and the gradient."""
        leaf = vector.detach().requires_grad_(True)
        with torch.enable_grad():
            model = self.at(leaf)
            value = torch.zeros((), dtype=torch.float64) + 0.0 * leaf.sum()
            for own, parts in zip(self.problems, self.contributions, strict=True):
                value = value + self._value(model, own, parts)
            return Evaluation(value.detach(), torch.autograd.grad(value, leaf)[0])

    def _value(
        self, model: LogLinearField, own: Problems, parts: list[_Contribution]
    ) -> Float[Tensor, ""]:
        shape = tuple(int(n) for n in self.batch.graph.states[own.scope[0]])
        scores = torch.zeros(len(own), *shape, dtype=model.dtype)
        for each in parts:
            view = [n if axis in each.part.covers else 1 for axis, n in enumerate(shape)]
            added = each.marginal_scores(model).reshape(-1, *view).expand(-1, *shape)
            scores = scores.index_add(0, each.part.problem, added)
        flat = scores.flatten(1)
        mask = joint_mask(self.batch.allowed_states(), own.scope, shape)
        bound = flat.masked_fill(~mask, -torch.inf).logsumexp(dim=1)
        return ((flat.logsumexp(dim=1) - bound).double() * own.weight).sum()

    def _contribution(self, part: ProblemPart) -> _Contribution:
        group, shape = self.batch.graph.groups[part.group], self.model.templates[part.group].shape
        rows = group.table[part.factor]
        plan, features = self.model.plans.whole[part.group], self.batch.features[part.group]
        placed = whole_incidence(plan, features, self.model.dtype, rows)
        given = [axis for axis in range(len(shape)) if axis not in part.free]
        sizes = tuple(shape[axis] for axis in given)
        scope = group.scope[part.factor][:, given]
        return _Contribution(part, placed, joint_mask(self.batch.allowed_states(), scope, sizes))


def uncertain_problems(batch: FieldBatch, own: Problems) -> Bool[Tensor, " n"]:
    """The problems with an uncertain label, free or given."""
    unknown = ~batch.known()
    found = unknown[own.scope].any(dim=1)
    for part in own.parts:
        scope = batch.graph.groups[part.group].scope[part.factor]
        found[part.problem[unknown[scope].any(dim=1)]] = True
    return found

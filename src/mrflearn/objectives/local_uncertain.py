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

from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField
from mrflearn.models.parameters import Layout
from mrflearn.models.slices import Members, SlicePlan
from mrflearn.models.templates import joint_mask
from mrflearn.objectives.local_problems import Part, Problems


@final
@dataclass(frozen=True, eq=False)
class UncertainLikelihood:
    """-log p of problems with uncertain labels, as a function of the flat vector of weights."""

    model: LogLinearField  # templates and type count; its weights do not
    batch: FieldBatch
    problems: list[Problems]

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(self.model.parameters())

    def __call__(self, vector: Float[Tensor, "p"]) -> tuple[Tensor, Tensor]:
        """Nats, summed over the weights of the problems; and the gradient."""
        leaf = vector.detach().requires_grad_(True)
        with torch.enable_grad():
            model = self.model.with_parameters(self.layout.unflatten(leaf))
            value = torch.zeros((), dtype=torch.float64) + 0.0 * leaf.sum()
            for own in self.problems:
                value = value + self._value(model, own)
            return value.detach(), torch.autograd.grad(value, leaf)[0]

    def _value(self, model: LogLinearField, own: Problems) -> Float[Tensor, ""]:
        shape = tuple(int(n) for n in self.batch.graph.states[own.scope[0]])
        scores = torch.zeros(len(own), *shape, dtype=model.dtype)
        for part in own.parts:
            view = [n if axis in part.covers else 1 for axis, n in enumerate(shape)]
            told = self._told(model, part).reshape(-1, *view).expand(-1, *shape)
            scores = scores.index_add(0, part.problem, told)
        flat = scores.flatten(1)
        mask = joint_mask(self.batch.allowed_states(), own.scope, shape)
        bound = flat.masked_fill(~mask, -torch.inf).logsumexp(dim=1)
        return ((flat.logsumexp(dim=1) - bound).double() * own.weight).sum()

    def _told(self, model: LogLinearField, part: Part) -> Float[Tensor, "m l"]:
        """What factors say of their free axes, summed over what the others may be."""
        template, group = model.templates[part.group], self.batch.graph.groups[part.group]
        plan = SlicePlan.of(template, tuple(range(len(template.shape))))
        rows = group.table[part.factor]
        number = torch.arange(len(rows))
        members = Members(len(rows), number, rows, torch.zeros_like(rows))
        placed = plan.place(self.batch.features[part.group], members, model.dtype)
        table = model.table(part.group, placed)
        given = [axis for axis in range(len(template.shape)) if axis not in part.free]
        order = [0, *(1 + axis for axis in (*part.free, *given))]
        mask = self._given(part, given, template.shape)
        flat = table.permute(order).reshape(len(rows), -1, mask.shape[1])
        return flat.masked_fill(~mask.unsqueeze(1), -torch.inf).logsumexp(dim=2)

    def _given(self, part: Part, given: list[int], shape: tuple[int, ...]) -> Bool[Tensor, "m o"]:
        scope = self.batch.graph.groups[part.group].scope[part.factor]
        sizes = tuple(shape[axis] for axis in given)
        return joint_mask(self.batch.allowed_states(), scope[:, given], sizes)


def uncertain_problems(batch: FieldBatch, own: Problems) -> Bool[Tensor, "n"]:
    """The problems with an uncertain label, free or given."""
    unknown = ~batch.known()
    found = unknown[own.scope].any(dim=1)
    for part in own.parts:
        scope = batch.graph.groups[part.group].scope[part.factor]
        found[part.problem[unknown[scope].any(dim=1)]] = True
    return found

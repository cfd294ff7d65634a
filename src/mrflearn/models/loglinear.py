"""A log-linear field on any factor graph: weights and features in, potentials out.

log psi_a(y_a, x) = sum_k value_k(x_a) weight[k, y_a] + dense(x_a) . dense[:, y_a]
                                                        [Sutton and McCallum 2009, eq. 2]

with the weights of a template shared by all of its factors.  Letters in shapes: w: weights;
d: dense columns; t: cells; r: rows of features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.features.compiled import CompiledFeatures
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.slices import Incidence, Members, SlicePlan
from mrflearn.models.templates import Template, shared_pairs

DENSE = " dense"
SHARES = "piece shares"


@dataclass(frozen=True, eq=False)
class LogLinearField:
    """The weights of the pairs that the templates name, and of their dense columns.

    `shares` (None: not learned) are logarithms of the weights that reweighted piecewise training
    gives to the pieces of each template; potentials do not depend on them.
    """

    templates: tuple[Template, ...]
    weights: tuple[Float[Tensor, "w"], ...]
    dense: tuple[Float[Tensor, "d t"], ...]
    shares: Float[Tensor, "templates"] | None = None

    @classmethod
    def zeros(
        cls, templates: tuple[Template, ...], dtype: torch.dtype = torch.float32
    ) -> LogLinearField:
        """Every labelling equally likely."""
        weights = (torch.zeros(len(own), dtype=dtype) for own in templates)
        dense = (torch.zeros(len(own.columns), own.cells, dtype=dtype) for own in templates)
        return cls(templates, tuple(weights), tuple(dense))

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        return self.weights[0].dtype

    def on(self, templates: tuple[Template, ...]) -> LogLinearField:
        """The same weights where these templates have those pairs too, and 0 for their others."""
        fresh = LogLinearField.zeros(templates, self.dtype)
        known = {own.name: k for k, own in enumerate(self.templates)}
        for index, template in enumerate(templates):
            if (k := known.get(template.name)) is not None:
                here, there = shared_pairs(self.templates[k], template)
                fresh.weights[index][there] = self.weights[k][here]
                if template.columns == self.templates[k].columns:
                    fresh.dense[index].copy_(self.dense[k])
        return fresh

    def parameters(self) -> dict[str, Tensor]:
        """The weights of each template under its name, its dense ones under `NAME dense`."""
        named = {}
        for template, weights, dense in zip(self.templates, self.weights, self.dense, strict=True):
            named[template.name] = weights
            if len(dense):
                named[template.name + DENSE] = dense
        if self.shares is not None:
            named[SHARES] = self.shares
        return named

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> LogLinearField:
        # Plans depend on the templates alone: they are handed on, not made again.
        names = [template.name for template in self.templates]
        weights = tuple(parameters[name] for name in names)
        own = zip(names, self.dense, strict=True)
        dense = tuple(parameters.get(name + DENSE, none) for name, none in own)
        copy = LogLinearField(self.templates, weights, dense, parameters.get(SHARES))
        copy.__dict__.update(whole=self.whole)
        return copy

    @cached_property
    def whole(self) -> tuple[SlicePlan, ...]:
        """For each template the plan of its whole tables."""
        return tuple(SlicePlan.of(own, tuple(range(len(own.shape)))) for own in self.templates)

    def potentials(self, batch: FieldBatch) -> Potentials:
        """A table for every row of features; differentiable in the weights."""
        self.check(batch)
        tables = (
            self.table(index, whole_incidence(plan, features, self.dtype))
            for index, (plan, features) in enumerate(zip(self.whole, batch.features, strict=True))
        )
        return Potentials(batch.graph, tuple(DenseTable(table) for table in tables))

    def table(self, index: int, incidence: Incidence) -> Float[Tensor, "r *shape"]:
        """The scores of all cells of one template for the rows of an incidence."""
        flat: Tensor = _Scores.apply(  # type: ignore[no-untyped-call]
            self.weights[index], self.dense[index], incidence
        )
        return flat.view(len(flat), *self.templates[index].shape)

    def check(self, batch: FieldBatch) -> None:
        """Raises `GraphError` where a batch does not have the factors of these templates."""
        graph = batch.graph
        found = [group.name for group in graph.groups]
        wanted = [template.name for template in self.templates]
        if found != wanted:
            raise GraphError(f"the graph has the factors {found}; the field was made for {wanted}.")
        for group, template in zip(graph.groups, self.templates, strict=True):
            if len(group) and graph.shape(group) != template.shape:
                raise GraphError(
                    f"factors '{group.name}' have {graph.shape(group)} states here; "
                    f"the field was made for {template.shape}."
                )


def whole_incidence(plan: SlicePlan, features: CompiledFeatures, dtype: torch.dtype) -> Incidence:
    """The incidence of whole tables, one for every row of the features."""
    rows = torch.arange(features.tokens)
    return plan.place(features, Members(len(rows), rows, rows, torch.zeros_like(rows)), dtype)


def weights_of(
    model: LogLinearField, index: int, labels: Sequence[Sequence[str]]
) -> dict[tuple[str, ...], float]:
    """{(attribute, label, ...): weight} of one template, dense columns too, where not 0."""
    template, names = model.templates[index], list(model.templates[index].names)
    own = model.weights[index].detach()
    dense = model.dense[index].detach()
    rows = [
        (names[a], c, w)
        for a, c, w in zip(
            template.attribute.tolist(), template.cell.tolist(), own.tolist(), strict=True
        )
    ]
    rows += [
        (column, c, w)
        for column, weights in zip(template.columns, dense.tolist(), strict=True)
        for c, w in enumerate(weights)
    ]
    cells = list(product(*labels))
    return {(name, *cells[cell]): weight for name, cell, weight in rows if weight}


class _Scores(torch.autograd.Function):
    """Scores of an incidence as a function of weights and dense weights."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, dense: Tensor, incidence: Incidence) -> Tensor:
        ctx.incidence, ctx.shapes = incidence, (weights.shape, dense.shape)
        return incidence.scores(weights, incidence.plan.weights.table(weights), dense)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, Tensor, None]:
        slopes = outputs[0].contiguous()
        plan = ctx.incidence.plan.weights
        weights, dense = (slopes.new_zeros(shape) for shape in ctx.shapes)
        table = slopes.new_zeros(plan.rows, plan.labels)
        ctx.incidence.add_gradient(slopes, weights, table, dense)
        weights.index_copy_(0, plan.wide, table.view(-1).index_select(0, plan.place))
        return weights, dense, None

"""Log-linear fields on factor graphs, linear chains among them: weights in, potentials out.

    log psi_a(y_a, x) = sum_k value_k(x_a) weight[k, y_a] + dense(x_a) . dense[:, y_a]
                                                        [Sutton and McCallum 2009, eq. 2]

with the weights of a template shared by all of its factors.

With the states of some axes given and folded into the attribute (`attribute * others + other`) a
slice of a factor is what a token is to a chain: a bag of attributes with weights for labels.  So
one layout (`incidence`) serves for whole tables (nothing given) as for single rows and columns.

Letters in shapes: w: weights; n: problems; l: cells of the free axes; k: members, each the part
that one factor plays in one problem; d: dense columns; t: all cells of the template; r: rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.execution.resources import moved
from mrflearn.features.features import CompiledFeatures, Numbering
from mrflearn.features.index import (
    FactorTemplate,
    attributes_of,
    cells_of,
    edge_numbers,
    recoded_cells,
    transition_features,
)
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.kernels.chain_sums import Steps
from mrflearn.models.chains import ChainPotentials, LabelChain, label_chain
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.incidence import WeightIncidence, WeightPlan

# Scores of some axes of a template's factors, the states on the other axes being given.


NO_NAMES = Numbering(closed=True)


@dataclass(frozen=True, eq=False)
class SlicePlan:
    """Where the weights of a template lie, seen from its `free` axes (in that order)."""

    template: FactorTemplate
    free: tuple[int, ...]
    codes: Int64[Tensor, " u"] | None  # attribute * others + other, ascending; None: the attribute
    weights: WeightPlan

    @classmethod
    def of(cls, template: FactorTemplate, free: tuple[int, ...]) -> SlicePlan:
        axes = range(len(template.shape))
        if free == tuple(axes):
            pairs = (template.attribute, template.cell)
            plan = WeightPlan.of(*pairs, len(template.names), template.cells)
            return cls(template, free, None, plan)
        coordinates = torch.stack(torch.unravel_index(template.cell, template.shape), dim=1)
        given = [axis for axis in axes if axis not in free]
        label = cells_of(coordinates[:, list(free)], [template.shape[axis] for axis in free])
        other = cells_of(coordinates[:, given], [template.shape[axis] for axis in given])
        cells = math.prod(template.shape[axis] for axis in free)
        others = template.cells // cells
        codes, number = torch.unique(template.attribute * others + other, return_inverse=True)
        order = (number * cells + label).argsort()
        plan = WeightPlan.of(number[order], label[order], len(codes), cells)
        plan = replace(plan, wide=order[plan.wide], narrow=order[plan.narrow])
        return cls(template, free, codes, plan)

    @property
    def given(self) -> list[int]:
        """The axes that are not free."""
        return [axis for axis in range(len(self.template.shape)) if axis not in self.free]

    @property
    def others(self) -> int:
        """How many tuples of states the given axes have."""
        return self.template.cells // self.weights.labels

    def other(self, states: Int64[Tensor, "k a"]) -> Int64[Tensor, " k"]:
        """Which tuple the given axes are in."""
        return cells_of(states[:, self.given], [self.template.shape[axis] for axis in self.given])

    def place(
        self, features: CompiledFeatures, members: Members, dtype: torch.dtype
    ) -> FeatureIncidence:
        """Which weights the scores of these problems are made of."""
        place, owner = attributes_of(features, members.row)
        found, kept = features.attributes[place], torch.ones(len(place), dtype=torch.bool)
        if self.codes is not None:
            code = found.long() * self.others + members.other[owner]
            found = torch.searchsorted(self.codes, code).clamp(max=max(len(self.codes) - 1, 0))
            kept = self.codes[found] == code if len(self.codes) else ~kept
        problem = members.problem[owner[kept]]
        counts = torch.bincount(problem, minlength=members.problems)
        values = None if features.values is None else features.values[place[kept]]
        bag = CompiledFeatures(
            NO_NAMES, (), counts, counts.cumsum(0), found[kept].int(), values, None
        )
        dense = None
        if features.dense is not None:
            dense = features.dense[members.row].to(dtype)
        incidence = WeightIncidence.of(self.weights, bag, dtype).with_back()
        return FeatureIncidence(self, incidence, dense, members)


@dataclass(frozen=True, eq=False)
class Members:
    """Parts of factors in problems, in the order of the problems.

    `row` names the features of the factor, `other` the tuple its given axes are in.
    """

    problems: int
    problem: Int64[Tensor, " k"]
    row: Int64[Tensor, " k"]
    other: Int64[Tensor, " k"]


@dataclass(frozen=True, eq=False)
class FeatureIncidence:
    """The weights that problems read, dense ones too, and the way their gradients take back."""

    plan: SlicePlan
    incidence: WeightIncidence
    dense: Float[Tensor, "k d"] | None
    members: Members

    def scores(
        self, weights: Float[Tensor, " w"], table: Float[Tensor, "r l"], dense: Float[Tensor, "d t"]
    ) -> Float[Tensor, "n l"]:
        """The scores of the free cells of every problem."""
        scores = self.incidence.scores(weights, table)
        if self.dense is not None and len(dense):
            scores.index_add_(0, self.members.problem, self._picked(self.dense @ dense))
        return scores

    def add_gradient(
        self,
        gradient: Float[Tensor, "n l"],
        weights: Float[Tensor, " w"],
        table: Float[Tensor, "r l"],
        dense: Float[Tensor, "d t"],
    ) -> None:
        """Adds to the gradients of single weights, of table rows and of dense weights."""
        self.incidence.add_gradient(gradient, weights, table)
        if self.dense is not None and len(dense):
            dense.addmm_(self.dense.t(), self._spread(gradient[self.members.problem]))

    def _axes(self) -> list[int]:
        return [1 + axis for axis in (*self.plan.given, *self.plan.free)]

    def _picked(self, full: Float[Tensor, "k t"]) -> Float[Tensor, "k l"]:
        """Of the scores of all cells those of the free ones, at the other states that are given."""
        shaped = full.view(-1, *self.plan.template.shape).permute(0, *self._axes())
        cells = shaped.reshape(len(full), self.plan.others, -1)
        return cells[torch.arange(len(full)), self.members.other]

    def _spread(self, gradient: Float[Tensor, "k l"]) -> Float[Tensor, "k t"]:
        """The way back: zero where other states than the given ones are."""
        shape = [self.plan.template.shape[axis] for axis in (*self.plan.given, *self.plan.free)]
        full = gradient.new_zeros(len(gradient), self.plan.others, gradient.shape[1])
        full[torch.arange(len(gradient)), self.members.other] = gradient
        order = [0, *(1 + int(i) for i in torch.tensor(self._axes()).argsort())]
        return full.view(-1, *shape).permute(order).reshape(len(gradient), -1)


# A log-linear field on any factor graph: weights and features in, potentials out.


DENSE = " dense"
SHARES = "piece shares"
NUMBERS_IN_TABLES = 2**22  # rows times cells, where rows have tables of their own


@final
class FieldPlans:
    """What depends on the templates of a field alone: made once, and shared by its copies."""

    def __init__(self, templates: tuple[FactorTemplate, ...]) -> None:
        self.templates = templates
        self._placed: dict[tuple[int, torch.device], WeightPlan] = {}

    @cached_property
    def whole(self) -> tuple[SlicePlan, ...]:
        """For each template the plan of its whole tables."""
        return tuple(SlicePlan.of(own, tuple(range(len(own.shape)))) for own in self.templates)

    @cached_property
    def chain(self) -> LabelChain:
        """The chain that the templates of a linear chain make of labels."""
        return label_chain(self.templates)

    @cached_property
    def edge_number(self) -> Int64[Tensor, " n"]:
        """Of a linear chain: which attribute of transitions each attribute of tokens is."""
        state, transition, *_ = self.templates
        return edge_numbers(state.names, transition.names)

    @property
    def shared_table(self) -> bool:
        """Of a linear chain: whether all transitions have the same scores."""
        return len(self.templates[1].names) == 1

    def placed(self, index: int, device: torch.device) -> WeightPlan:
        """The plan of the weights of a template on a device."""
        if (index, device) not in self._placed:
            self._placed[index, device] = moved(self.whole[index].weights, device)
        return self._placed[index, device]

    def __reduce__(self) -> tuple[type[FieldPlans], tuple[tuple[FactorTemplate, ...]]]:
        return FieldPlans, (self.templates,)  # what was made of them need not travel


@dataclass(frozen=True, eq=False)
class LogLinearField:
    """The weights of the pairs that the templates name, and of their dense columns.

    `shares` (None: not learned) are logarithms of the weights that reweighted piecewise training
    gives to the pieces of each template; potentials do not depend on them.
    """

    plans: FieldPlans
    weights: tuple[Float[Tensor, " w"], ...]
    dense: tuple[Float[Tensor, "d t"], ...]
    shares: Float[Tensor, " templates"] | None = None

    @classmethod
    def zeros(
        cls,
        templates: Iterable[FactorTemplate],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> LogLinearField:
        """Every labelling equally likely."""
        plans, none = FieldPlans(tuple(templates)), torch.zeros(0, dtype=dtype, device=device)
        weights = (none.new_zeros(len(own)) for own in plans.templates)
        dense = (none.new_zeros(len(own.columns), own.cells) for own in plans.templates)
        return cls(plans, tuple(weights), tuple(dense))

    @property
    def templates(self) -> tuple[FactorTemplate, ...]:
        """The kinds of factors."""
        return self.plans.templates

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        return self.weights[0].dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.weights[0].device

    def on(
        self, templates: Iterable[FactorTemplate], labels: Int64[Tensor, " s"] | None = None
    ) -> LogLinearField:
        """The same weights where these templates have those pairs too, and 0 for their others.

        `labels` are the new numbers of labels; None: they keep theirs.
        """
        fresh = LogLinearField.zeros(templates, self.dtype, self.device)
        known = {own.name: k for k, own in enumerate(self.templates)}
        for index, template in enumerate(fresh.templates):
            if (k := known.get(template.name)) is None:
                continue
            own = self.templates[k]
            there = template.find(*own.recoded(template.names, template.shape, labels))
            _copy(self.weights[k], there, fresh.weights[index])
            if template.columns == own.columns:
                every = torch.arange(own.cells)
                there = recoded_cells(every, own.shape, template.shape, labels)
                _copy(self.dense[k].t(), there, fresh.dense[index].t())
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
        names = [template.name for template in self.templates]
        weights = tuple(parameters[name] for name in names)
        own = zip(names, self.dense, strict=True)
        dense = tuple(parameters.get(name + DENSE, none.to(weights[0])) for name, none in own)
        return LogLinearField(self.plans, weights, dense, parameters.get(SHARES))

    def chains(self, features: CompiledFeatures) -> ChainPotentials:
        """Of a linear chain: these sequences, packed; the table is shared where it can be."""
        chain, table = self.plans.chain, self.shared_moves
        steps = Steps.of(features.lengths).to(self.device)
        unary = chain.unary(steps.pack(self.token_scores(features)), self.moves, steps)
        if not self.plans.shared_table:
            later = features.taken(steps.source[steps.starting :].cpu())
            joint = transition_features(later, self.plans.edge_number, self.templates[1].names)
            if len(joint.attributes) > joint.tokens:
                table = self._row_scores(1, joint).view(-1, *table.shape)
        return ChainPotentials(unary, table, steps, chain)

    def token_scores(self, features: CompiledFeatures) -> Float[Tensor, "k s"]:
        """Of a linear chain: the scores of every label at every token."""
        scores = self._row_scores(0, features)
        if features.dense is not None and len(self.dense[0]):
            scores += features.dense.to(self.device, self.dtype) @ self.dense[0]
        return scores

    def parts(self, features: CompiledFeatures) -> Iterator[CompiledFeatures]:
        """The same sequences, as many at a time as may have tables of their own in memory."""
        if self.plans.shared_table:
            yield features
            return
        most = max(1, NUMBERS_IN_TABLES // self.templates[1].cells)
        number = (features.lengths.cumsum(0) - features.lengths).div(most, rounding_mode="floor")
        yield from features.split(number.unique_consecutive(return_counts=True)[1].tolist())

    def _row_scores(self, index: int, features: CompiledFeatures) -> Float[Tensor, "k l"]:
        incidence = WeightIncidence.of(self.plans.whole[index].weights, features, self.dtype)
        return moved(incidence, self.device).scores(self.weights[index], self.tables[index])

    @cached_property
    def tables(self) -> tuple[Float[Tensor, "r l"], ...]:
        """Of a linear chain: the wide weights of tokens and of transitions as rows."""
        own = enumerate(self.weights[:2])
        return tuple(self.plans.placed(k, self.device).table(weights) for k, weights in own)

    @cached_property
    def moves(self) -> Float[Tensor, " e"]:
        """Of a linear chain: the weights of pairs of labels, then (if any) those of triples."""
        return torch.cat(self.weights[1:])

    @cached_property
    def shared_moves(self) -> Float[Tensor, "p p"]:
        """Of a linear chain: the scores of steps that no attribute changes."""
        return self.plans.chain.table(self.moves)

    def potentials(self, batch: FieldBatch) -> Potentials:
        """A table for every row of features; differentiable in the weights."""
        self.check(batch)
        tables = (
            self.table(index, whole_incidence(plan, features, self.dtype))
            for index, (plan, features) in enumerate(
                zip(self.plans.whole, batch.features, strict=True)
            )
        )
        return Potentials(batch.graph, tuple(DenseTable(table) for table in tables))

    def table(self, index: int, incidence: FeatureIncidence) -> Float[Tensor, " r *shape"]:
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


def whole_incidence(
    plan: SlicePlan,
    features: CompiledFeatures,
    dtype: torch.dtype,
    rows: Int64[Tensor, " n"] | None = None,
) -> FeatureIncidence:
    """The incidence of whole tables, one for each of these rows of features (None: for all)."""
    rows = torch.arange(features.tokens) if rows is None else rows
    members = Members(len(rows), torch.arange(len(rows)), rows, torch.zeros_like(rows))
    return plan.place(features, members, dtype)


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


def _copy(
    values: Float[Tensor, " n *d"], place: Int64[Tensor, " n"], into: Float[Tensor, " m *d"]
) -> None:
    """Writes values to their places, in place; those without one are dropped."""
    kept = (place >= 0).to(values.device)
    into[place.to(values.device)[kept]] = values[kept]


class _Scores(torch.autograd.Function):
    """Scores of an incidence as a function of weights and dense weights."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, dense: Tensor, incidence: FeatureIncidence) -> Tensor:
        ctx.incidence, ctx.shapes = incidence, (weights.shape, dense.shape)
        return incidence.scores(weights, incidence.plan.weights.table(weights), dense)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, Tensor, None]:
        gradient = outputs[0].contiguous()
        plan = ctx.incidence.plan.weights
        weights, dense = (gradient.new_zeros(shape) for shape in ctx.shapes)
        table = gradient.new_zeros(plan.rows, plan.labels)
        ctx.incidence.add_gradient(gradient, weights, table, dense)
        plan.add_wide(table, weights)
        return weights, dense, None

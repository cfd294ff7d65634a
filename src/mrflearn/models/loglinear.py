"""Log-linear fields on factor graphs, linear chains among them: weights in, potentials out.

    log psi_a(y_a, x) = sum_k value_k(x_a) weight[k, y_a] + dense(x_a) . dense[:, y_a]
                                                        [Sutton and McCallum 2009, eq. 2]

with the weights of a template shared by all of its factors.

A state of a linear chain is a label or, of the second order, a pair of neighbouring labels: a chain
of the second order is one of the first over pairs, where state (a, b) goes to (b, c) only, and the
first token has the state (start, b).

Letters in shapes: w: weights; d: dense columns; t: all cells of a template; s: labels; p: states;
e: weights of transitions; g: weighted label triples; b: sequences; k: tokens; r: rows packed by
`Steps`; q: rows that have a row before them; l: cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.execution.resources import moved
from mrflearn.features.features import CompiledFeatures, CompiledLabels
from mrflearn.features.index import (
    FactorTemplate,
    constant,
    edge_numbers,
    neighbours,
    recoded_cells,
    transition_features,
)
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.kernels.chain_sums import Steps
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.incidence import (
    FeatureIncidence,
    SlicePlan,
    WeightIncidence,
    WeightPlan,
    whole_incidence,
)

# The states of a linear chain, and its potentials.


@final
@dataclass(frozen=True, eq=False)
class LabelChain:
    """How scores of labels and weights of transitions become a chain, and counts come back.

    Of the first order: a state is a label, and a pair of labels without a weight scores 0.  Of the
    second: a state is (start, label) or a weighted pair of labels, other pairs are impossible, and
    a triple without a weight scores 0.  Weights of transitions are those of pairs of labels, then
    (if any) those of triples.
    """

    order: int
    labels: int
    last: Int64[Tensor, " p"]  # the label of each state
    pair: Int64[Tensor, "s s"]  # the state after a label and the next one, or -1
    empty: Float[Tensor, " p*p"]  # the scores of steps where no weight counts
    code: Int64[Tensor, " e"]  # first state * states + second state of each weighted step

    @classmethod
    def of(cls, templates: Sequence[FactorTemplate]) -> LabelChain:
        """The chain of the templates "state", "transition" and, of the second order, "triple"."""
        state, transition, *others = templates
        labels = state.cells
        pairs = transition.cell[transition.attribute == 0]  # the constant that every one has
        last = torch.arange(labels)
        if not others:
            return cls(1, labels, last, last.repeat(labels, 1), torch.zeros(labels**2), pairs)
        source, target = pairs.div(labels, rounding_mode="floor"), pairs % labels
        pair = torch.full((labels, labels), -1)
        pair[source, target] = torch.arange(len(pairs)) + labels
        begins, last = torch.cat([torch.full_like(last, -1), source]), torch.cat([last, target])
        empty = torch.where(last[:, None] == begins, 0.0, -torch.inf).flatten()
        first, middle, third = torch.unravel_index(others[0].cell, (labels,) * 3)
        code = pair[first, middle] * len(last) + pair[middle, third]
        return cls(2, labels, last, pair, empty, code)

    @classmethod
    def plain(cls, labels: int) -> LabelChain:
        """The chain of the first order in which every pair of labels has a weight."""
        last = torch.arange(labels)
        empty = torch.zeros(labels**2)
        return cls(1, labels, last, last.repeat(labels, 1), empty, torch.arange(labels**2))

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.last)

    def table(self, weights: Float[Tensor, " e"]) -> Float[Tensor, "p p"]:
        """Scores of steps from state to state."""
        own = weights[self.states - self.labels :][: len(self.code)]
        flat = self.empty.to(own).index_copy(0, self.code.to(own.device), own)
        return flat.view(self.states, self.states)

    def unary(
        self, scores: Float[Tensor, "r s"], weights: Float[Tensor, " e"], steps: Steps
    ) -> Float[Tensor, "r p"]:
        """Scores of states."""
        if self.order == 1:
            return scores
        unary = scores[:, self.last.to(scores.device)]
        unary[:, self.labels :] += weights[: self.states - self.labels]
        unary[: steps.starting, self.labels :] = -torch.inf
        unary[steps.starting :, : self.labels] = -torch.inf
        return unary

    def of_labels(self, single: Float[Tensor, "r p"]) -> Float[Tensor, "r s"]:
        """Sums over the states of each label."""
        if self.order == 1:
            return single
        total = single.new_zeros(len(single), self.labels)
        return total.index_add_(1, self.last.to(single.device), single)

    def of_weights(
        self, single: Float[Tensor, "r p"], pair: Float[Tensor, "p p"], steps: Steps
    ) -> Float[Tensor, " e"]:
        """How often each transition weight counts, given sums over states and pairs of states."""
        pairs = single[steps.starting :, self.labels :].sum(dim=0)
        return torch.cat([pairs, pair.flatten()[self.code.to(pair.device)]])

    def path(self, labels: Int64[Tensor, " r"], steps: Steps) -> Int64[Tensor, " r"]:
        """The states of labelled rows; -1 where the chain has no such state."""
        before, after = labels[steps.previous], labels[steps.starting :]
        later = self.pair.to(labels.device)[before, after].where((before >= 0) & (after >= 0), -1)
        return torch.cat([labels[: steps.starting], later])

    def label(self, states: Int64[Tensor, "*n"]) -> Int64[Tensor, "*n"]:
        """The labels of states."""
        return self.last.to(states.device)[states]

    def allowed(self, labels: Bool[Tensor, "r s"]) -> Bool[Tensor, "r p"]:
        """The states whose labels are allowed."""
        return labels[:, self.last.to(labels.device)]


@dataclass(frozen=True, eq=False)
class ChainPotentials:
    """Sequences ready for `chain_sums` and `chain_search`.

    Rows are packed by `steps`, whose `source` counts the tokens of all sequences end to end.
    `table` is shared, or one for each row that has a row before it.
    """

    unary: Float[Tensor, "r p"]
    table: Float[Tensor, "*q p p"]
    steps: Steps
    chain: LabelChain

    @property
    def scores(self) -> tuple[Tensor, Tensor, Steps]:
        """What the functions of `chain_sums` and `chain_search` take."""
        return self.unary, self.table, self.steps


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
        return LabelChain.of(self.templates)

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

    def incidences(self, batch: FieldBatch, dtype: torch.dtype) -> tuple[FeatureIncidence, ...]:
        """Which weights the tables of a batch are made of, whatever their values."""
        self.check(batch)
        own = zip(self.plans.whole, batch.features, strict=True)
        return tuple(whole_incidence(plan, features, dtype) for plan, features in own)

    def potentials(
        self, batch: FieldBatch, incidences: Sequence[FeatureIncidence] | None = None
    ) -> Potentials:
        """A table for every row of features; differentiable in the weights."""
        own = self.incidences(batch, self.dtype) if incidences is None else incidences
        tables = tuple(DenseTable(self.table(index, each)) for index, each in enumerate(own))
        return Potentials(batch.graph, tables)

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


def weights_of(
    model: LogLinearField, index: int, labels: Sequence[Sequence[str]]
) -> dict[tuple[str, ...], float]:
    """{(attribute, label, ...): weight} of one template, dense columns too, where not 0."""
    template, cells = model.templates[index], list(product(*labels))
    names, own = list(template.names), model.weights[index]
    pairs = zip(template.attribute.tolist(), template.cell.tolist(), own.tolist(), strict=True)
    columns = zip(template.columns, model.dense[index].tolist(), strict=True)
    return {(names[k], *cells[cell]): weight for k, cell, weight in pairs if weight} | {
        (column, *cells[cell]): weight
        for column, weights in columns
        for cell, weight in enumerate(weights)
        if weight
    }


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
        gradient, own = outputs[0].contiguous(), ctx.incidence
        weights, dense = (gradient.new_zeros(shape) for shape in ctx.shapes)
        own.add_dense_gradient(gradient, dense)
        return own.incidence.pulled_back(gradient, own.plan.weights, weights), dense, None


# Labelled sequences, as linear-chain CRFs train on them.


@dataclass(frozen=True, eq=False)
class ChainBatch:
    """Labelled sequences end to end, as linear-chain CRFs train on them.

    `joint` has for each further template the features of its factors: row i those of the factor
    that ends at token i, or one row for all.
    """

    features: CompiledFeatures
    joint: tuple[CompiledFeatures, ...]
    labels: CompiledLabels
    weight: Float[Tensor, " b"] | None = None

    @classmethod
    def of(
        cls,
        templates: Sequence[FactorTemplate],
        features: CompiledFeatures,
        labels: CompiledLabels,
        weight: Float[Tensor, " b"] | None = None,
    ) -> ChainBatch:
        """Sequences as factors of the templates of a linear chain."""
        state, transition, *others = templates
        number = edge_numbers(state.names, transition.names)
        joint = transition_features(features, number, transition.names)
        return cls(features, (joint, *(constant() for _ in others)), labels, weight)

    @property
    def sizes(self) -> Int64[Tensor, " b"]:
        """How many tokens each sequence has."""
        return self.features.lengths

    def examples(self, chosen: Int64[Tensor, " n"]) -> ChainBatch:
        """These sequences alone, in the order in which they are named."""
        own = self.sizes
        lengths, begins = own[chosen], (own.cumsum(0) - own)[chosen]
        shift = begins - (lengths.cumsum(0) - lengths)
        tokens = torch.arange(int(lengths.sum())) + shift.repeat_interleave(lengths)
        return ChainBatch(
            replace(self.features.taken(tokens), lengths=lengths),
            tuple(
                own if own.tokens < self.features.tokens else own.taken(tokens)
                for own in self.joint
            ),
            self.labels.taken(tokens),
            None if self.weight is None else self.weight[chosen],
        )

    def as_graph(self) -> FieldBatch:
        """The same sequences as one graph of paths: a token is a variable."""
        lengths, tokens, own = self.sizes, self.features.tokens, self.labels
        groups = [FactorGroup("state", neighbours(lengths, 1))]
        for count, name, joint in zip((2, 3), ("transition", "triple"), self.joint, strict=False):
            scope = neighbours(lengths, count)
            rows = scope[:, -1] if joint.tokens == tokens else torch.zeros_like(scope[:, -1])
            groups.append(FactorGroup(name, scope, rows))
        graph = FactorGraph(
            torch.full((tokens,), len(own.names)),
            tuple(groups),
            torch.arange(len(lengths)).repeat_interleave(lengths),
            components=len(lengths),
        )
        features = (self.features, *self.joint)
        return FieldBatch(graph, features, own.states, own.uncertain, own.allowed, self.weight)

"""Linear-chain CRFs: weights of attributes, transitions and edges, of order one and two.

A chain of the second order is one of the first over pairs: state (a, b) goes to (b, c) only, and
the first token has the state (start, b).

Letters in shapes: s: labels; p: states; e: weighted label pairs; g: weighted label triples;
r: rows laid out by `Steps`; q: rows that have a row before them.

Laid out as the weights of attributes and labels are (`state_weights`), with a pair of labels in
place of a label.  Letters in shapes: h: weights; w: rows of the table of wide weights; p: states;
q: rows laid out by `Steps` that have a row before them.

score(y, x) = sum_t [ sum_a value_a(x_t) state[a, y_t] + dense(x_t) . dense[:, y_t] ]
            + sum_t [ transition[y_t-1, y_t] + sum_a value_a(x_t) edge[a, y_t-1, y_t] ]

Letters in shapes: f: state weights; e: transition weights; d: dense columns; s: labels; k: tokens;
r: rows of those tokens laid out by `Steps`; q: those that have a row before them; p: states;
h: weights of attributes of transitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.features.features import CompiledFeatures
from mrflearn.features.merging import edge_positions, label_places, positions
from mrflearn.features.support import Support
from mrflearn.kernels.chain_sums import Steps
from mrflearn.models.state_weights import Bags, Singles, WeightPlan, incidence

# Labels as the states of a chain: one label a state, or a pair of neighbouring labels a state.


class LabelChain(Protocol):
    """How scores of labels and weights of transitions become a chain, and counts come back."""

    @property
    def states(self) -> int: ...

    def table(self, weights: Float[Tensor, " e"]) -> Float[Tensor, "p p"]:
        """Scores of steps from state to state."""

    def unary(
        self, scores: Float[Tensor, "r s"], weights: Float[Tensor, " e"], steps: Steps
    ) -> Float[Tensor, "r p"]:
        """Scores of states."""

    def of_labels(self, single: Float[Tensor, "r p"]) -> Float[Tensor, "r s"]:
        """Sums over the states of each label."""

    def of_weights(
        self, single: Float[Tensor, "r p"], pair: Float[Tensor, "p p"], steps: Steps
    ) -> Float[Tensor, " e"]:
        """How often each transition weight counts, given sums over states and pairs of states."""

    def path(self, labels: Int64[Tensor, " r"], steps: Steps) -> Int64[Tensor, " r"]:
        """The states of labelled rows; -1 where the chain has no such state."""

    def label(self, states: Int64[Tensor, "*n"]) -> Int64[Tensor, "*n"]:
        """The labels of states."""

    def allowed(self, labels: Bool[Tensor, "r s"]) -> Bool[Tensor, "r p"]:
        """The states whose labels are allowed."""


@final
@dataclass(frozen=True, eq=False)
class FirstOrder:
    """A state is a label; a pair of labels without a weight scores 0."""

    states: int
    code: Int64[Tensor, " e"]  # first * states + second

    @classmethod
    def of(cls, support: Support) -> FirstOrder:
        states = len(support.labels)
        return cls(states, support.source * states + support.target)

    def table(self, weights: Float[Tensor, " e"]) -> Float[Tensor, "p p"]:
        flat = weights.new_zeros(self.states**2).index_copy(
            0, self.code.to(weights.device), weights
        )
        return flat.view(self.states, self.states)

    def unary(self, scores: Tensor, weights: Tensor, steps: Steps) -> Tensor:  # noqa: ARG002
        return scores

    def of_labels(self, single: Tensor) -> Tensor:
        return single

    def of_weights(self, single: Tensor, pair: Tensor, steps: Steps) -> Tensor:  # noqa: ARG002
        return pair.flatten()[self.code.to(pair.device)]

    def path(self, labels: Tensor, steps: Steps) -> Tensor:  # noqa: ARG002
        return labels

    def label(self, states: Tensor) -> Tensor:
        return states

    def allowed(self, labels: Tensor) -> Tensor:
        return labels


@final
@dataclass(frozen=True, eq=False)
class SecondOrder:
    """A state is (start, label) or a weighted pair of labels; other pairs are impossible.

    Weights are those of pairs, then those of triples; a triple without a weight scores 0.
    """

    labels: int
    states: int
    last: Int64[Tensor, " p"]  # the label of each state
    pair: Int64[Tensor, "s s"]  # the state of each pair, or -1
    legal: Int64[Tensor, " l"]  # first state * states + second state
    code: Int64[Tensor, " g"]  # the same for the weighted triples

    @classmethod
    def of(cls, support: Support, triples: Int64[Tensor, "g 3"]) -> SecondOrder:
        labels, pairs = len(support.labels), len(support.source)
        pair = torch.full((labels, labels), -1)
        pair[support.source, support.target] = torch.arange(pairs) + labels
        last = torch.cat([torch.arange(labels), support.target])
        begins = torch.cat([torch.full((labels,), -1), support.source])
        legal = (last[:, None] == begins[None, :]).flatten().nonzero().squeeze(1)
        states = labels + pairs
        first, middle, third = triples.unbind(dim=1)
        code = pair[first, middle] * states + pair[middle, third]
        return cls(labels, states, last, pair, legal, code)

    def table(self, weights: Float[Tensor, " e"]) -> Float[Tensor, "p p"]:
        device = weights.device
        flat = weights.new_full((self.states**2,), -torch.inf)
        flat = flat.index_fill(0, self.legal.to(device), 0.0)
        triples = weights[self.states - self.labels :]
        return flat.index_copy(0, self.code.to(device), triples).view(self.states, self.states)

    def unary(self, scores: Tensor, weights: Tensor, steps: Steps) -> Tensor:
        unary = scores[:, self.last.to(scores.device)]
        unary[:, self.labels :] += weights[: self.states - self.labels]
        unary[: steps.starting, self.labels :] = -torch.inf
        unary[steps.starting :, : self.labels] = -torch.inf
        return unary

    def of_labels(self, single: Tensor) -> Tensor:
        total = single.new_zeros(len(single), self.labels)
        return total.index_add_(1, self.last.to(single.device), single)

    def of_weights(self, single: Tensor, pair: Tensor, steps: Steps) -> Tensor:
        pairs = single[steps.starting :, self.labels :].sum(dim=0)
        return torch.cat([pairs, pair.flatten()[self.code.to(pair.device)]])

    def path(self, labels: Tensor, steps: Steps) -> Tensor:
        before, after = labels[steps.previous], labels[steps.starting :]
        return torch.cat([labels[: steps.starting], self.pair.to(labels.device)[before, after]])

    def label(self, states: Tensor) -> Tensor:
        return self.last.to(states.device)[states]

    def allowed(self, labels: Tensor) -> Tensor:
        return labels[:, self.last.to(labels.device)]


def label_chain(support: Support) -> LabelChain:
    """The chain of the support's order."""
    if support.triples is None:
        return FirstOrder.of(support)
    return SecondOrder.of(support, support.triples)


# Transition tables of single tokens, from the weights of attributes of transitions.


def edge_plan(support: Support) -> WeightPlan:
    """Where each weight of an attribute and two labels lies."""
    size = len(support.labels)
    attribute, source, target = support.edges.unbind(dim=1)
    return WeightPlan.over(attribute, source * size + target, len(support.attributes), size**2)


@dataclass(frozen=True, eq=False)
class EdgeWeights:
    """Which weights the transition into each row is made of, beside the shared ones."""

    bags: Bags
    singles: Singles

    @classmethod
    def of(
        cls, plan: WeightPlan, tokens: CompiledFeatures, dtype: torch.dtype
    ) -> EdgeWeights | None:
        """Those of rows that have a row before them; None where none has such an attribute."""
        edges = cls(*incidence(plan, tokens, dtype))
        return edges if len(edges.bags.index) or len(edges.singles.place) else None

    def tables(
        self,
        weights: Float[Tensor, " h"],
        wide: Float[Tensor, "w p*p"],
        shared: Float[Tensor, "p p"],
    ) -> Float[Tensor, "q p p"]:
        """The scores of steps from state to state into each row."""
        scores = self.bags.sums(wide)
        self.singles.add_scores(weights, scores)
        return scores.view(-1, *shared.shape).add_(shared)

    def to(self, device: torch.device) -> EdgeWeights:
        """The same on another device."""
        return EdgeWeights(self.bags.to(device), self.singles.to(device))


# A linear-chain conditional random field: weights in, scores of labels and of transitions out.


NUMBERS_IN_TABLES = 2**22  # rows times states squared, where rows have tables of their own


@dataclass(frozen=True, eq=False)
class ChainScores:
    """A batch of chains, ready for `chain_sums`, `chain_search` and `chain_sampling`.

    Rows are laid out by `steps`, whose `source` counts the tokens of all sequences end to end.
    `table` is shared, or one for each row that has a row before it.
    """

    unary: Float[Tensor, "r p"]
    table: Float[Tensor, "*q p p"]
    steps: Steps
    chain: LabelChain


@dataclass(frozen=True, eq=False)
class ChainCRF:
    """The weights of the pairs that `support` names."""

    support: Support
    state: Float[Tensor, " f"]
    transition: Float[Tensor, " e"]
    dense: Float[Tensor, "d s"]
    edge: Float[Tensor, " h"]

    @classmethod
    def zeros(cls, support: Support, dtype: torch.dtype, device: torch.device) -> ChainCRF:
        """Every label equally likely."""
        none = torch.zeros(0, dtype=dtype, device=device)
        return cls(
            support,
            none.new_zeros(len(support.attribute)),
            none.new_zeros(support.transitions),
            none.new_zeros(len(support.columns), len(support.labels)),
            none.new_zeros(len(support.edges)),
        )

    def on(self, support: Support) -> ChainCRF:
        """The same weights where `support` has those pairs too, and 0 for its other pairs."""
        fresh = ChainCRF.zeros(support, self.state.dtype, self.state.device)
        state, transition = positions(self.support, support)
        label = label_places(self.support, support)
        for own, place, target in (
            (self.state, state, fresh.state),
            (self.transition, transition, fresh.transition),
            (self.dense.t(), label, fresh.dense.t()),
            (self.edge, edge_positions(self.support, support), fresh.edge),
        ):
            kept = (place >= 0).to(own.device)
            if own.numel():
                target[place.to(own.device)[kept]] = own[kept]
        return fresh

    def parameters(self) -> dict[str, Tensor]:
        return {
            "state": self.state,
            "transition": self.transition,
            "dense": self.dense,
            "edge": self.edge,
        }

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> ChainCRF:
        # Plans and chain depend on the support alone: they are handed on, not made again.
        copy = ChainCRF(self.support, **parameters)
        copy.__dict__.update(plan=self.plan, chain=self.chain, edge_plan=self.edge_plan)
        if copy.state.device == self.state.device:
            copy.__dict__.update(placed=self.placed, edge_placed=self.edge_placed)
        return copy

    @cached_property
    def plan(self) -> WeightPlan:
        return WeightPlan.of(self.support)

    @cached_property
    def placed(self) -> WeightPlan:
        """The plan on the device of the weights."""
        return self.plan.to(self.state.device)

    @cached_property
    def chain(self) -> LabelChain:
        return label_chain(self.support)

    @cached_property
    def edge_plan(self) -> WeightPlan | None:
        """The plan of the weights of attributes of transitions; None: there are none."""
        return edge_plan(self.support) if len(self.support.edges) else None

    @cached_property
    def edge_placed(self) -> WeightPlan | None:
        """The same on the device of the weights."""
        return None if self.edge_plan is None else self.edge_plan.to(self.edge.device)

    @cached_property
    def _table(self) -> Float[Tensor, "w s"]:
        return self.placed.table(self.state)

    def scores(self, tokens: CompiledFeatures) -> Float[Tensor, "k s"]:
        """The scores of every label at every token."""
        device = self.state.device
        bags, singles = incidence(self.plan, tokens, self.state.dtype)
        scores = bags.to(device).sums(self._table)
        singles.to(device).add_scores(self.state, scores)
        if tokens.dense is not None and len(self.dense):
            scores += tokens.dense.to(device, self.state.dtype) @ self.dense
        return scores

    @cached_property
    def _edge_table(self) -> Float[Tensor, "w p*p"]:
        return self.edge_table(self.edge)

    def edge_table(self, weights: Float[Tensor, " h"]) -> Float[Tensor, "w p*p"]:
        """The wide ones among weights of attributes of transitions as rows."""
        plan = self.edge_placed
        if plan is None:
            return weights.new_zeros(0, len(self.support.labels) ** 2)
        return plan.table(weights)

    def chains(self, features: CompiledFeatures) -> ChainScores:
        """The chains of these sequences."""
        steps = Steps.of(features.lengths).to(self.state.device)
        scores = steps.pack(self.scores(features))
        unary = self.chain.unary(scores, self.transition, steps)
        return ChainScores(unary, self._tables(features, steps), steps, self.chain)

    def parts(self, features: CompiledFeatures) -> Iterator[CompiledFeatures]:
        """The same sequences, as many at a time as may have tables of their own in memory."""
        if self.edge_plan is None:
            yield features
            return
        most = max(1, NUMBERS_IN_TABLES // len(self.support.labels) ** 2)
        number = (features.lengths.cumsum(0) - features.lengths).div(most, rounding_mode="floor")
        begin = 0
        for count in number.unique_consecutive(return_counts=True)[1].tolist():
            yield features.part(begin, begin + count)
            begin += count

    def _tables(self, features: CompiledFeatures, steps: Steps) -> Float[Tensor, "*q p p"]:
        shared, edges = self.chain.table(self.transition), None
        if self.edge_plan is not None:
            later = features.taken(steps.source[steps.starting :].cpu())
            edges = EdgeWeights.of(self.edge_plan, later, self.edge.dtype)
        if edges is None:
            return shared
        return edges.to(self.edge.device).tables(self.edge, self._edge_table, shared)

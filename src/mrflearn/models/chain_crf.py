"""A linear-chain conditional random field: weights in, scores of labels and of transitions out.

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

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.features.compiled import CompiledFeatures
from mrflearn.features.merging import edge_positions, label_places, positions
from mrflearn.features.support import Support
from mrflearn.kernels.chain_steps import Steps
from mrflearn.models.edge_weights import Edges, edge_plan
from mrflearn.models.label_chain import LabelChain, label_chain
from mrflearn.models.state_weights import WeightPlan, incidence

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
    state: Float[Tensor, "f"]
    transition: Float[Tensor, "e"]
    dense: Float[Tensor, "d s"]
    edge: Float[Tensor, "h"]

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

    def edge_table(self, weights: Float[Tensor, "h"]) -> Float[Tensor, "w p*p"]:
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
            edges = Edges.of(self.edge_plan, later, self.edge.dtype)
        if edges is None:
            return shared
        return edges.to(self.edge.device).tables(self.edge, self._edge_table, shared)

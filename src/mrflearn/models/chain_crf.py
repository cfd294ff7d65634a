"""A linear-chain conditional random field: weights in, scores of labels and of transitions out.

score(y, x) = sum_t [ sum_a value_a(x_t) state[a, y_t] + dense(x_t) . dense[:, y_t] ]
            + sum_t transition[y_t-1, y_t]

Letters in shapes: f: state weights; e: transition weights; d: dense columns; s: labels; k: tokens;
r: rows of those tokens laid out by `Steps`; p: states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.chain_steps import Steps
from mrflearn.models.label_chain import LabelChain, label_chain
from mrflearn.models.state_weights import WeightPlan, incidence
from mrflearn.statistics.compiled import CompiledFeatures
from mrflearn.statistics.merging import label_places, positions
from mrflearn.statistics.support import Support


@dataclass(frozen=True, eq=False)
class ChainScores:
    """A batch of chains, ready for `chain_sums`, `chain_search` and `chain_sampling`.

    Rows are laid out by `steps`, whose `source` counts the tokens of all sequences end to end.
    """

    unary: Float[Tensor, "r p"]
    table: Float[Tensor, "p p"]
    steps: Steps
    chain: LabelChain


@dataclass(frozen=True, eq=False)
class ChainCRF:
    """The weights of the pairs that `support` names."""

    support: Support
    state: Float[Tensor, "f"]
    transition: Float[Tensor, "e"]
    dense: Float[Tensor, "d s"]

    @classmethod
    def zeros(cls, support: Support, dtype: torch.dtype, device: torch.device) -> ChainCRF:
        """Every label equally likely."""
        none = torch.zeros(0, dtype=dtype, device=device)
        return cls(
            support,
            none.new_zeros(len(support.attribute)),
            none.new_zeros(support.transitions),
            none.new_zeros(len(support.columns), len(support.labels)),
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
        ):
            kept = (place >= 0).to(own.device)
            if own.numel():
                target[place.to(own.device)[kept]] = own[kept]
        return fresh

    def parameters(self) -> dict[str, Tensor]:
        return {"state": self.state, "transition": self.transition, "dense": self.dense}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> ChainCRF:
        # Plan and chain depend on the support alone: they are handed on, not made again.
        copy = ChainCRF(self.support, **parameters)
        copy.__dict__.update({"plan": self.plan, "chain": self.chain})
        if copy.state.device == self.state.device:
            copy.__dict__["placed"] = self.placed
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

    def chains(self, features: CompiledFeatures) -> ChainScores:
        """The chains of these sequences."""
        steps = Steps.of(features.lengths).to(self.state.device)
        scores = steps.pack(self.scores(features))
        unary = self.chain.unary(scores, self.transition, steps)
        return ChainScores(unary, self.chain.table(self.transition), steps, self.chain)

"""Transition tables of single tokens, from the weights of attributes of transitions.

Laid out as the weights of attributes and labels are (`state_weights`), with a pair of labels in
place of a label.  Letters in shapes: h: weights; w: rows of the table of wide weights; p: states;
q: rows laid out by `Steps` that have a row before them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.features.compiled import CompiledFeatures
from mrflearn.features.support import Support
from mrflearn.models.state_weights import Bags, Singles, WeightPlan, incidence


def edge_plan(support: Support) -> WeightPlan:
    """Where each weight of an attribute and two labels lies."""
    size = len(support.labels)
    attribute, source, target = support.edges.unbind(dim=1)
    return WeightPlan.over(attribute, source * size + target, len(support.attributes), size**2)


@dataclass(frozen=True, eq=False)
class Edges:
    """Which weights the transition into each row is made of, beside the shared ones."""

    bags: Bags
    singles: Singles

    @classmethod
    def of(cls, plan: WeightPlan, tokens: CompiledFeatures, dtype: torch.dtype) -> Edges | None:
        """Those of rows that have a row before them; None where none has such an attribute."""
        edges = cls(*incidence(plan, tokens, dtype))
        return edges if len(edges.bags.index) or len(edges.singles.place) else None

    def tables(
        self,
        weights: Float[Tensor, "h"],
        wide: Float[Tensor, "w p*p"],
        shared: Float[Tensor, "p p"],
    ) -> Float[Tensor, "q p p"]:
        """The scores of steps from state to state into each row."""
        scores = self.bags.sums(wide)
        self.singles.add_scores(weights, scores)
        return scores.view(-1, *shared.shape).add_(shared)

    def to(self, device: torch.device) -> Edges:
        """The same on another device."""
        return Edges(self.bags.to(device), self.singles.to(device))

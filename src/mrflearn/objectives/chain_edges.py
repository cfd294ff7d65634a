"""How slopes of single transitions reach the weights of attributes of transitions.

Tables of pairs are as large as rows times states squared, so they are made and carried back block
by block.  Letters in shapes as in `chain_blocks`; h: weights of attributes of transitions; q: rows
of a block that have a row before them; w: rows of the table of wide weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.features.compiled import CompiledFeatures
from mrflearn.kernels.chain_steps import Steps
from mrflearn.models.chain_crf import ChainCRF
from mrflearn.models.edge_weights import Edges
from mrflearn.models.state_weights import Bags


@dataclass(frozen=True, eq=False)
class BlockEdges:
    """The edges of a block's rows, and what carries gradients back over them."""

    edges: Edges
    used: Int64[Tensor, "u"]
    bags: Bags  # over the rows of the block, one for each of `used`

    @classmethod
    def of(
        cls, model: ChainCRF, features: CompiledFeatures, tokens: Int64[Tensor, "q"]
    ) -> BlockEdges | None:
        """Those of tokens that have a token before them; None where there are none."""
        plan, device = model.edge_plan, model.edge.device
        if plan is None:
            return None
        edges = Edges.of(plan, features.taken(tokens), model.edge.dtype)
        if edges is None:
            return None
        used, back = edges.bags.transposed()
        return cls(edges.to(device), used.to(device), back.to(device))


@dataclass(frozen=True, eq=False)
class EdgeSlopes:
    """Sums over blocks of the gradient: of wide weights as a table, of the others one by one."""

    model: ChainCRF
    wide: Float[Tensor, "w p*p"]
    narrow: Float[Tensor, "h"]

    @classmethod
    def zeros(cls, model: ChainCRF) -> EdgeSlopes:
        rows = 0 if model.edge_plan is None else model.edge_plan.rows
        pairs = len(model.support.labels) ** 2
        return cls(model, model.edge.new_zeros(rows, pairs), torch.zeros_like(model.edge))

    def add(self, block: BlockEdges, slopes: Float[Tensor, "q p p"]) -> None:
        """Carries the slopes of a block's transitions back, in place."""
        flat = slopes.flatten(1)
        if len(block.used):
            self.wide.index_add_(0, block.used, block.bags.sums(flat))
        block.edges.singles.add_gradient(flat, self.narrow)

    def gradient(self) -> Float[Tensor, "h"]:
        """The slope of each weight."""
        plan = self.model.edge_placed
        if plan is None:
            return self.narrow
        return self.narrow.index_copy(0, plan.wide, self.wide.view(-1)[plan.place])


def add_path(
    pairs: Float[Tensor, "q p p"],
    path: Int64[Tensor, "r"],
    steps: Steps,
    weight: Float[Tensor, "b"] | None,
    sign: int,
) -> None:
    """Counts the transitions of a path of states, `sign` times and sequences weighted, in place."""
    amount = pairs.new_ones(len(pairs))
    if weight is not None:
        amount = weight[steps.sequence[steps.starting :]]
    row = torch.arange(len(pairs), device=pairs.device)
    pairs[row, path[steps.previous], path[steps.starting :]] += sign * amount

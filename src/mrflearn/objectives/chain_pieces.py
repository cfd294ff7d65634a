"""Piecewise likelihood and pseudolikelihood of chains that share one transition table.

    value = sum over pieces of log Z(piece) - score of its labels
    gradient = expected minus observed counts of every weight

Letters in shapes as in `chain_blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.execution.threads import Threads
from mrflearn.kernels.chain_pieces import (
    PieceSums,
    Side,
    given_neighbours,
    sides,
    whole_pieces,
)
from mrflearn.models.chain_crf import ChainCRF
from mrflearn.models.parameters import Layout
from mrflearn.objectives.chain_blocks import Block, ChainData, Shard
from mrflearn.objectives.chain_edges import EdgeSlopes
from mrflearn.objectives.chain_likelihood import Laid, block_scores, carry_back, lay, total

Kind = Literal["pw", "pwpl"]


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of a block: how much each row counts, and of `pwpl` what is on its sides."""

    block: Block
    amount: Float[Tensor, "r"]
    sides: tuple[Side, Side] | None

    @classmethod
    def of(cls, model: ChainCRF, block: Block, kind: Kind) -> Pieces:
        """Those of a block whose labels are known."""
        assert block.gold is not None  # noqa: S101 - `suits` made sure
        steps = block.steps
        amount = model.state.new_ones(len(steps))
        if block.weight is not None:
            amount = block.weight[steps.sequence]
        if kind == "pw":
            return cls(block, amount, None)
        return cls(block, amount, sides(block.gold, steps, amount, model.chain.states))

    def sums(self, unary: Float[Tensor, "r s"], table: Float[Tensor, "s s"]) -> PieceSums:
        """The losses of the pieces, and their slopes."""
        gold = self.block.gold
        assert gold is not None  # noqa: S101 - `Pieces.of` made sure
        if self.sides is None:
            return whole_pieces(unary, table, gold, self.block.steps, self.amount)
        return given_neighbours(unary, table, gold, *self.sides)


@dataclass(frozen=True, eq=False)
class PiecedShard:
    """A shard, and the pieces of its blocks."""

    shard: Shard
    pieces: tuple[Pieces, ...]

    @classmethod
    def of(cls, model: ChainCRF, shard: Shard, kind: Kind) -> PiecedShard:
        """The same shard, ready for `kind`."""
        return cls(shard, tuple(Pieces.of(model, block, kind) for block in shard.blocks))


@final
@dataclass(frozen=True, eq=False)
class ChainPieces:
    """Minus the piecewise log-likelihood as a function of the flat vector of weights.

    `pw` normalises each transition with the tokens at its ends [Sutton and McCallum 2009, eq. 8],
    `pwpl` each of those tokens given the other [eq. 36, 37].
    """

    model: ChainCRF  # support and type count; its weights do not
    shards: list[PiecedShard]
    threads: Threads

    @classmethod
    def of(cls, model: ChainCRF, shards: list[Shard], kind: Kind, threads: Threads) -> ChainPieces:
        """The objective of these shards."""
        return cls(model, [PiecedShard.of(model, own, kind) for own in shards], threads)

    @torch.no_grad()
    def __call__(self, vector: Float[Tensor, "v"]) -> tuple[Tensor, Tensor]:
        """Nats, summed over the weights of the sequences; and the gradient."""
        laid = lay(self.model, Layout.of(self.model.parameters()).unflatten(vector))
        return total(self.threads.map(lambda shard: self._shard(laid, shard), self.shards))

    @torch.no_grad()
    def _shard(self, laid: Laid, pieced: PiecedShard) -> tuple[Tensor, Tensor]:
        shard, values = pieced.shard, []
        slopes = laid.state.new_empty(shard.rows, laid.table.shape[1])
        pairs = torch.zeros_like(laid.steps)
        for own in pieced.pieces:
            found = own.sums(block_scores(laid, shard, own.block), laid.steps)
            values.append(found.value)
            slopes[own.block.rows] = found.single
            pairs += found.pair
        steps = pieced.pieces[0].block.steps
        moves = self.model.chain.of_weights(slopes, pairs, steps)
        gradient = carry_back(self.model, slopes, moves, EdgeSlopes.zeros(self.model), shard)
        return torch.stack(values).sum(), gradient


def suits(model: ChainCRF, data: ChainData) -> bool:
    """Whether all transitions share one table and every label is known."""
    shared = model.edge_plan is None and model.support.triples is None
    return shared and not len(data.labels.uncertain)

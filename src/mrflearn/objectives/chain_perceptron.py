"""The structured perceptron's loss: how much better the best labels score than the right ones.

[Collins 2002, Discriminative training methods for hidden Markov models]  Its gradient is the
counts of the best labels less those of the right ones; a step of length 1 against it is the
perceptron's update.  Letters in shapes as in `chain_blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.execution.threads import Threads
from mrflearn.kernels import chain_search
from mrflearn.models.chain_crf import ChainCRF
from mrflearn.objectives.base import Evaluation, Objective
from mrflearn.objectives.chain_likelihood import (
    ChainBlock,
    ChainWeights,
    EdgeGradient,
    Shard,
    add_path,
    block_scores,
    block_table,
    carry_back,
    label_scores,
    lay,
    observe,
    total,
    transition_counts,
)


@final
@dataclass(frozen=True, eq=False)
class ChainPerceptron(Objective[ChainCRF]):
    """max over labels of the score, less the score of the right labels, summed over sequences."""

    model: ChainCRF  # support, type and device count; its weights do not
    shards: list[Shard]
    threads: Threads

    def __post_init__(self) -> None:
        if any(block.gold is None for shard in self.shards for block in shard.blocks):
            raise TrainingError(
                "the perceptron needs every label; None and sets are for algorithm='lbfgs'."
            )

    @torch.no_grad()
    def __call__(self, vector: Float[Tensor, " v"]) -> Evaluation:
        """The loss, and the counts of the best labels less those of the right ones."""
        laid = lay(self.model, self.layout.unflatten(vector))
        return total(self.threads.map(lambda shard: self._shard(laid, shard), self.shards))

    @torch.no_grad()
    def _shard(self, laid: ChainWeights, shard: Shard) -> tuple[Tensor, Tensor]:
        value = torch.zeros((), dtype=torch.float64, device=laid.state.device)
        slopes = laid.state.new_zeros(shard.rows, laid.table.shape[1])
        transitions, edges = -shard.gold_transitions, EdgeGradient.zeros(self.model)
        for block in shard.blocks:
            loss, best = self._best(laid, shard, block)
            value += loss
            amount = slopes.new_ones(len(best))
            if block.weight is not None:
                amount = block.weight[block.steps.sequence]
            label = self.model.chain.label(best)
            slopes[block.rows].scatter_(1, label[:, None], amount[:, None])
            transitions += transition_counts(self.model, block, best)
            _count_edges(edges, block, best)
        observe(slopes, shard)
        return value, carry_back(self.model, slopes, transitions, edges, shard)

    def _best(self, laid: ChainWeights, shard: Shard, block: ChainBlock) -> tuple[Tensor, Tensor]:
        scores = block_scores(laid, shard, block)
        unary = self.model.chain.unary(scores, laid.transition, block.steps)
        table = block_table(laid, block)
        best, score = chain_search.viterbi(unary, table, block.steps)
        loss = score.double() - block.steps.totals(label_scores(unary, table, block).double())
        return (loss if block.weight is None else loss * block.weight).sum(), best


def _count_edges(edges: EdgeGradient, block: ChainBlock, best: Int64[Tensor, " r"]) -> None:
    if block.edges is None or block.gold is None:
        return
    steps, states = block.steps, len(edges.model.support.labels)
    pairs = edges.narrow.new_zeros(len(best) - steps.starting, states, states)
    add_path(pairs, best, steps, block.weight, 1)
    add_path(pairs, block.gold, steps, block.weight, -1)
    edges.add(block.edges, pairs)

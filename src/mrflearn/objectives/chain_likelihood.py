"""Minus the log-likelihood of label sequences, value and gradient by hand, shards on all cores.

    value = sum over sequences of log Z(x) - score(y, x)
    gradient = expected minus observed counts of every weight

Where labels are not known for certain, log Z over the allowed labels takes the place of the score
and expectations under them that of the observed counts.  Letters in shapes as in `chain_blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.execution.threads import Threads
from mrflearn.kernels import chain_sums
from mrflearn.models.chain_crf import ChainCRF
from mrflearn.models.parameters import Layout
from mrflearn.objectives.chain_blocks import Block, Shard


class Laid(NamedTuple):
    """A vector of weights laid out for use by every shard."""

    state: Float[Tensor, "f"]
    table: Float[Tensor, "w s"]
    transition: Float[Tensor, "e"]
    steps: Float[Tensor, "p p"]
    dense: Float[Tensor, "d s"]


class Slopes(NamedTuple):
    """The value of one block, and what its gradients are made of."""

    value: Float[Tensor, ""]
    labels: Float[Tensor, "r s"]
    transitions: Float[Tensor, "e"]


@final
@dataclass(frozen=True, eq=False)
class ChainLikelihood:
    """-log p(y | x) of all shards as a function of the flat vector of weights."""

    model: ChainCRF  # support, type and device count; its weights do not
    shards: list[Shard]
    threads: Threads

    @torch.no_grad()
    def __call__(self, vector: Float[Tensor, "v"]) -> tuple[Tensor, Tensor]:
        """Nats, summed over the weights of the sequences; and the gradient."""
        layout = Layout.of(self.model.parameters())
        laid = lay(self.model, layout.unflatten(vector))
        return total(self.threads.map(lambda shard: self._shard(laid, shard), self.shards))

    @torch.no_grad()
    def _shard(self, laid: Laid, shard: Shard) -> tuple[Tensor, Tensor]:
        values, slopes = [], laid.state.new_empty(shard.rows, laid.table.shape[1])
        transitions = -shard.gold_transitions
        for block in shard.blocks:
            found = block_slopes(self.model, laid, shard, block)
            values.append(found.value)
            slopes[block.rows] = found.labels
            transitions += found.transitions
        observe(slopes, shard)
        return torch.stack(values).sum(), carry_back(self.model, slopes, transitions, shard)


def total(answers: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The sums of the values and of the gradients."""
    value, gradient = answers[0]
    for more, slope in answers[1:]:
        value = value + more
        gradient += slope
    return value, gradient


def lay(model: ChainCRF, weights: dict[str, Tensor]) -> Laid:
    """The weights as every shard needs them."""
    state, transition = weights["state"], weights["transition"]
    table = model.placed.table(state)
    return Laid(state, table, transition, model.chain.table(transition), weights["dense"])


def block_scores(laid: Laid, shard: Shard, block: Block) -> Float[Tensor, "r s"]:
    """The scores of the labels of a block's rows."""
    scores = block.bags.sums(laid.table)
    block.singles.add_scores(laid.state, scores)
    if shard.dense is not None and len(laid.dense):
        scores.addmm_(shard.dense[block.rows], laid.dense)
    return scores


def block_slopes(model: ChainCRF, laid: Laid, shard: Shard, block: Block) -> Slopes:
    """log Z minus the score of the labels, and expected counts (less those of uncertain labels)."""
    chain, steps = model.chain, block.steps
    unary = chain.unary(block_scores(laid, shard, block), laid.transition, steps)
    free = chain_sums.expectations(unary, laid.steps, steps)
    single, pair = free.single, free.pair_counts(steps, block.weight)
    value = free.log_partition.double()
    if block.gold is not None:
        value -= path_scores(unary, laid.steps, block)
    else:
        bound = _bound(unary, laid, block)
        value -= bound.log_partition.double()
        single = single - bound.single
        pair -= bound.pair_counts(steps, block.weight)
    if block.weight is not None:
        value *= block.weight
        single = single * block.weight[steps.sequence][:, None]
    return Slopes(value.sum(), chain.of_labels(single), chain.of_weights(single, pair, steps))


def observe(slopes: Float[Tensor, "k s"], shard: Shard) -> None:
    """Takes the known labels off the expected ones, in place."""
    taken = slopes.new_ones(1).expand(len(shard.gold_place))
    if shard.gold_weight is not None:
        taken = shard.gold_weight
    slopes.view(-1).index_add_(0, shard.gold_place, taken, alpha=-1)


def carry_back(
    model: ChainCRF, slopes: Float[Tensor, "k s"], transitions: Float[Tensor, "e"], shard: Shard
) -> Float[Tensor, "v"]:
    """The gradient of all weights from the slopes of the scores."""
    plan = model.placed
    table = shard.bags.sums(slopes)
    if len(shard.used) < plan.rows:
        table = table.new_zeros(plan.rows, plan.labels).index_copy_(0, shard.used, table)
    state = torch.zeros_like(model.state)
    state.index_copy_(0, plan.wide, table.view(-1).index_select(0, plan.place))
    shard.singles.add_gradient(slopes, state)
    dense = torch.zeros_like(model.dense) if shard.dense is None else shard.dense.t() @ slopes
    return torch.cat([state, transitions, dense.flatten()])


def path_scores(
    unary: Float[Tensor, "r p"], table: Float[Tensor, "p p"], block: Block
) -> Float[Tensor, "b"]:
    """The score of the known labels of each sequence."""
    assert block.gold is not None  # noqa: S101 - the caller made sure
    steps, gold = block.steps, block.gold
    own = unary.gather(1, gold[:, None]).squeeze(1).double()
    own[steps.starting :] += table[gold[steps.previous], gold[steps.starting :]]
    return steps.totals(own)


def _bound(unary: Tensor, laid: Laid, block: Block) -> chain_sums.Expectations:
    assert block.allowed is not None  # noqa: S101 - a block has either
    return chain_sums.expectations(
        unary.masked_fill(~block.allowed, -torch.inf), laid.steps, block.steps
    )

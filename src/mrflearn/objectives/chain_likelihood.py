"""Minus the log-likelihood of label sequences, value and gradient by hand, shards on all cores.

    value = sum over sequences of log Z(x) - score(y, x)
    gradient = expected minus observed counts of every weight

Scores are taken relative to those of the known labels, so that log Z is the loss itself: as the
difference of two large sums it would be noise in single precision before training is over.

Where labels are not known for certain, log Z over the allowed labels takes the place of the score
and expectations under them that of the observed counts.  Letters in shapes as in `chain_edges`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.execution.threads import Threads
from mrflearn.kernels import chain_sums
from mrflearn.kernels.chain_steps import scores_along
from mrflearn.models.chain_crf import ChainCRF
from mrflearn.models.parameters import Layout
from mrflearn.objectives.chain_blocks import Block, Shard
from mrflearn.objectives.chain_edges import EdgeSlopes, add_path


class Laid(NamedTuple):
    """A vector of weights laid out for use by every shard."""

    state: Float[Tensor, "f"]
    table: Float[Tensor, "w s"]
    transition: Float[Tensor, "e"]
    steps: Float[Tensor, "p p"]
    dense: Float[Tensor, "d s"]
    edge: Float[Tensor, "h"]
    edge_table: Float[Tensor, "w p*p"]


class Slopes(NamedTuple):
    """The value of one block, and what its gradients are made of."""

    value: Float[Tensor, ""]
    labels: Float[Tensor, "r s"]
    transitions: Float[Tensor, "e"]
    pairs: Float[Tensor, "q p p"] | None  # of single transitions, where rows have own tables


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
        transitions, edges = -shard.gold_transitions, EdgeSlopes.zeros(self.model)
        for block in shard.blocks:
            found = block_slopes(self.model, laid, shard, block)
            values.append(found.value)
            slopes[block.rows] = found.labels
            transitions += found.transitions
            if block.edges is not None and found.pairs is not None:
                edges.add(block.edges, found.pairs)
        observe(slopes, shard)
        return torch.stack(values).sum(), carry_back(self.model, slopes, transitions, edges, shard)


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
    edge = weights["edge"]
    return Laid(
        state,
        model.placed.table(state),
        transition,
        model.chain.table(transition),
        weights["dense"],
        edge,
        model.edge_table(edge),
    )


def block_scores(laid: Laid, shard: Shard, block: Block) -> Float[Tensor, "r s"]:
    """The scores of the labels of a block's rows."""
    scores = block.bags.sums(laid.table)
    block.singles.add_scores(laid.state, scores)
    if shard.dense is not None and len(laid.dense):
        scores.addmm_(shard.dense[block.rows], laid.dense)
    return scores


def block_table(laid: Laid, block: Block) -> Float[Tensor, "*q p p"]:
    """The scores of transitions: shared, or of each row that has one before it."""
    if block.edges is None:
        return laid.steps
    return block.edges.edges.tables(laid.edge, laid.edge_table, laid.steps)


def block_slopes(model: ChainCRF, laid: Laid, shard: Shard, block: Block) -> Slopes:
    """log Z minus the score of the labels, and expected counts (less those of uncertain labels)."""
    chain, steps = model.chain, block.steps
    unary = chain.unary(block_scores(laid, shard, block), laid.transition, steps)
    table = block_table(laid, block)
    if block.gold is not None:
        unary = unary - label_scores(unary, table, block)[:, None]
    value, single, pair = _moments(unary, table, block)
    if block.gold is None:
        assert block.allowed is not None  # noqa: S101 - a block has either
        bound = _moments(unary.masked_fill(~block.allowed, -torch.inf), table, block)
        value -= bound[0]
        single = single - bound[1]
        pair -= bound[2]
    if block.weight is not None:
        value *= block.weight
        single = single * block.weight[steps.sequence][:, None]
    pairs, pair = (None, pair) if pair.ndim == 2 else (pair, pair.sum(dim=0))
    if pairs is not None and block.gold is not None:
        add_path(pairs, block.gold, steps, block.weight, -1)
    counts = chain.of_weights(single, pair, steps)
    return Slopes(value.sum(), chain.of_labels(single), counts, pairs)


def _moments(unary: Tensor, table: Tensor, block: Block) -> tuple[Tensor, Tensor, Tensor]:
    """log Z and probabilities of states; of pairs, weighted: their sum, or those of each row."""
    steps, weight = block.steps, block.weight
    if table.ndim == 2:
        found = chain_sums.expectations(unary, table, steps)
        return found.log_partition.double(), found.single, found.pair_counts(steps, weight)
    value, single, pair = chain_sums.marginals(unary, table, steps)
    if weight is not None:
        pair *= weight[steps.sequence[steps.starting :], None, None]
    return value.double(), single, pair


def observe(slopes: Float[Tensor, "k s"], shard: Shard) -> None:
    """Takes the known labels off the expected ones, in place."""
    taken = slopes.new_ones(1).expand(len(shard.gold_place))
    if shard.gold_weight is not None:
        taken = shard.gold_weight
    slopes.view(-1).index_add_(0, shard.gold_place, taken, alpha=-1)


def carry_back(
    model: ChainCRF,
    slopes: Float[Tensor, "k s"],
    transitions: Float[Tensor, "e"],
    edges: EdgeSlopes,
    shard: Shard,
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
    return torch.cat([state, transitions, dense.flatten(), edges.gradient()])


def label_scores(
    unary: Float[Tensor, "r p"], table: Float[Tensor, "*q p p"], block: Block
) -> Float[Tensor, "r"]:
    """The score of the known label of each row and of the step into it."""
    assert block.gold is not None  # noqa: S101 - the caller made sure
    steps, gold = block.steps, block.gold
    own = unary.gather(1, gold[:, None]).squeeze(1)
    own[steps.starting :] += scores_along(table, gold[steps.previous], gold[steps.starting :])
    return own

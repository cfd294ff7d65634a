"""The likelihood of chain CRFs over packed blocks of sequences.

Tables of pairs are as large as rows times states squared, so they are made and carried back block
by block.  Letters in shapes as in `chain_blocks`; h: weights of attributes of transitions; q: rows
of a block that have a row before them; w: rows of the table of wide weights.

Letters in shapes: b: sequences; r: rows (tokens) of one block, laid out by `Steps`; k: rows of all
blocks of a shard; s: labels; p: states; e: transition weights; d: dense columns; u: rows in use of
the table of weights.

    value = sum over sequences of log Z(x) - score(y, x)
    gradient = expected minus observed counts of every weight

Scores are taken relative to those of the known labels, so that log Z is the loss itself: as the
difference of two large sums it would be noise in single precision before training is over.

Where labels are not known for certain, log Z over the allowed labels takes the place of the score
and expectations under them that of the observed counts.  Letters in shapes as in `chain_edges`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.execution.threads import Threads
from mrflearn.features.features import UNKNOWN, CompiledFeatures
from mrflearn.features.labels import CompiledLabels
from mrflearn.kernels import chain_sums
from mrflearn.kernels.chain_sums import Steps, scores_along
from mrflearn.models.chain_crf import NUMBERS_IN_TABLES, ChainCRF, EdgeWeights
from mrflearn.models.state_weights import LONGEST_PIECE, Bags, Singles, incidence, joined
from mrflearn.objectives.base import Evaluation, Objective

# How slopes of single transitions reach the weights of attributes of transitions.


@dataclass(frozen=True, eq=False)
class BlockEdges:
    """The edges of a block's rows, and what carries gradients back over them."""

    edges: EdgeWeights
    used: Int64[Tensor, " u"]
    bags: Bags  # over the rows of the block, one for each of `used`

    @classmethod
    def of(
        cls, model: ChainCRF, features: CompiledFeatures, tokens: Int64[Tensor, " q"]
    ) -> BlockEdges | None:
        """Those of tokens that have a token before them; None where there are none."""
        plan, device = model.edge_plan, model.edge.device
        if plan is None:
            return None
        edges = EdgeWeights.of(plan, features.taken(tokens), model.edge.dtype)
        if edges is None:
            return None
        used, back = edges.bags.transposed()
        return cls(edges.to(device), used.to(device), back.to(device))


@dataclass(frozen=True, eq=False)
class EdgeGradient:
    """Sums over blocks of the gradient: of wide weights as a table, of the others one by one."""

    model: ChainCRF
    wide: Float[Tensor, "w p*p"]
    narrow: Float[Tensor, " h"]

    @classmethod
    def zeros(cls, model: ChainCRF) -> EdgeGradient:
        rows = 0 if model.edge_plan is None else model.edge_plan.rows
        pairs = len(model.support.labels) ** 2
        return cls(model, model.edge.new_zeros(rows, pairs), torch.zeros_like(model.edge))

    def add(self, block: BlockEdges, slopes: Float[Tensor, "q p p"]) -> None:
        """Carries the slopes of a block's transitions back, in place."""
        flat = slopes.flatten(1)
        if len(block.used):
            self.wide.index_add_(0, block.used, block.bags.sums(flat))
        block.edges.singles.add_gradient(flat, self.narrow)

    def gradient(self) -> Float[Tensor, " h"]:
        """The slope of each weight."""
        plan = self.model.edge_placed
        if plan is None:
            return self.narrow
        return self.narrow.index_copy(0, plan.wide, self.wide.view(-1)[plan.place])


def add_path(
    pairs: Float[Tensor, "q p p"],
    path: Int64[Tensor, " r"],
    steps: Steps,
    weight: Float[Tensor, " b"] | None,
    sign: int,
) -> None:
    """Counts the transitions of a path of states, `sign` times and sequences weighted, in place."""
    amount = pairs.new_ones(len(pairs))
    if weight is not None:
        amount = weight[steps.sequence[steps.starting :]]
    row = torch.arange(len(pairs), device=pairs.device)
    pairs[row, path[steps.previous], path[steps.starting :]] += sign * amount


# Training data of chains cut into blocks that fit the cache, and blocks dealt out to cores.


NUMBERS_IN_BLOCK = 700_000  # rows times states: a handful of such arrays stays near the cores
NUMBERS_ON_GPU = 200_000_000  # there each step of a block costs a launch, and memory is plenty
LEAST_TOKENS = 4_000  # a shard with fewer is not worth a core of its own


@dataclass(frozen=True, eq=False)
class ChainData:
    """Sequences with labels and weights, all end to end, as `fit` got them."""

    features: CompiledFeatures
    labels: CompiledLabels
    weight: Float[Tensor, " b"] | None = None


@dataclass(frozen=True, eq=False)
class ChainBlock:
    """Sequences of similar lengths.  Either `gold` states are known or only `allowed` ones."""

    rows: slice  # within the shard
    steps: Steps
    bags: Bags
    singles: Singles
    gold: Int64[Tensor, " r"] | None
    allowed: Bool[Tensor, "r p"] | None
    weight: Float[Tensor, " b"] | None
    edges: BlockEdges | None  # None: all rows share one transition table


@dataclass(frozen=True, eq=False)
class Shard:
    """Blocks for one core, with what carries their gradients back to the weights."""

    blocks: tuple[ChainBlock, ...]
    rows: int
    used: Int64[Tensor, " u"]  # rows of the table of weights that the shard uses
    bags: Bags  # over the rows of the shard, one for each of those
    singles: Singles
    dense: Float[Tensor, "k d"] | None
    gold_place: Int[Tensor, " m"]  # row * labels + label, of the rows with known labels
    gold_weight: Float[Tensor, " m"] | None
    gold_transitions: Float[Tensor, " e"]


def make_shards(model: ChainCRF, data: ChainData, count: int) -> list[Shard]:
    """At most `count` shards of about equal work."""
    tokens = data.features.tokens
    on_gpu = model.state.is_cuda
    count = 1 if on_gpu else max(1, min(count, tokens // LEAST_TOKENS))
    most = max(1, (NUMBERS_ON_GPU if on_gpu else NUMBERS_IN_BLOCK) // model.chain.states)
    blocks = count * max(1, -(-tokens // (most * count)))
    sizes = tokens / blocks, min(tokens / blocks, NUMBERS_IN_TABLES / model.chain.states**2)
    groups = [
        group
        for kind, with_edges in _kinds(model, data)
        for group in _cut(kind, data.features.lengths, sizes[with_edges])
    ]
    dealt = [groups[start::count] for start in range(count)]
    return [make_shard(model, data, share) for share in dealt if share]


def make_shard(model: ChainCRF, data: ChainData, groups: list[Tensor]) -> Shard:
    """The shard whose blocks have these sequences."""
    device, dtype = model.state.device, model.state.dtype
    starts = data.features.lengths.cumsum(0) - data.features.lengths
    blocks, parts, orders, begins = [], [], [], [0]
    for group in groups:
        steps = Steps.of(data.features.lengths[group])
        order = starts[group][steps.sequence] + _position(steps)
        part = incidence(model.plan, data.features.taken(order), dtype)
        blocks.append(_block(model, data, group, steps, order, begins[-1], part))
        parts.append(part)
        orders.append(order)
        begins.append(begins[-1] + len(order))
    bags, singles = joined(parts, begins[:-1], model.plan.labels)
    used, back = bags.transposed()
    if model.state.is_cuda:
        back = back.in_pieces(LONGEST_PIECE)
    dense = data.features.dense
    return Shard(
        tuple(blocks),
        begins[-1],
        used.to(device),
        back.to(device),
        singles.sorted().to(device),
        None if dense is None else dense[torch.cat(orders)].to(device, dtype),
        *_gold(model, data, groups, orders, blocks),
    )


def _block(
    model: ChainCRF,
    data: ChainData,
    group: Tensor,
    steps: Steps,
    order: Tensor,
    begin: int,
    part: tuple[Bags, Singles],
) -> ChainBlock:
    device, dtype = model.state.device, model.state.dtype
    states = data.labels.states[order]
    gold = allowed = None
    if bool((states != UNKNOWN).all()):
        gold = model.chain.path(states, steps).to(device)
        _check_possible(gold, steps, group)
    else:
        allowed = model.chain.allowed(_allowed(data.labels, order)).to(device)
    weight = None if data.weight is None else data.weight[group].to(device, dtype)
    return ChainBlock(
        slice(begin, begin + len(order)),
        steps.to(device),
        part[0].to(device),
        part[1].to(device),
        gold,
        allowed,
        weight,
        BlockEdges.of(model, data.features, order[steps.starting :]),
    )


def _gold(
    model: ChainCRF,
    data: ChainData,
    groups: list[Tensor],
    orders: list[Tensor],
    blocks: list[ChainBlock],
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Places and weights of the known labels, and the counts of their transitions."""
    device, dtype = model.state.device, model.state.dtype
    places, weights = [], []
    counts = torch.zeros_like(model.transition)
    for group, order, block in zip(groups, orders, blocks, strict=True):
        if block.gold is None:
            continue
        labels = data.labels.states[order]
        row = torch.arange(block.rows.start, block.rows.stop)
        places.append(row * model.plan.labels + labels)
        if data.weight is not None:
            weights.append(data.weight[group][block.steps.sequence.cpu()])
        counts += transition_counts(model, block, block.gold)
    place = torch.cat(places) if places else torch.zeros(0, dtype=torch.int64)
    weight = torch.cat(weights).to(device, dtype) if weights else None
    return place.to(device), weight, counts


def transition_counts(
    model: ChainCRF, block: ChainBlock, path: Int64[Tensor, " r"]
) -> Float[Tensor, " e"]:
    """How often each transition weight counts on a path of states, sequences weighted."""
    chain, steps = model.chain, block.steps
    amount = model.transition.new_ones(len(path))
    if block.weight is not None:
        amount = block.weight[steps.sequence]
    step = path[steps.previous] * chain.states + path[steps.starting :]
    pair = amount.new_zeros(chain.states**2).index_add_(0, step, amount[steps.starting :])
    single = amount.new_zeros(len(path), chain.states).scatter_(1, path[:, None], amount[:, None])
    return chain.of_weights(single, pair.view(chain.states, chain.states), steps)


def _kinds(model: ChainCRF, data: ChainData) -> Iterator[tuple[Tensor, bool]]:
    """Sequences of all known labels, and the others, longest first; empty ones in neither.

    Of both kinds, those without attributes of transitions and those with (True) by themselves.
    """
    lengths = data.features.lengths
    owner = torch.arange(len(lengths)).repeat_interleave(lengths)
    uncertain = torch.zeros(len(lengths), dtype=torch.bool)
    uncertain[owner[data.labels.uncertain]] = True
    edged = torch.zeros(len(lengths), dtype=torch.bool)
    if model.edge_plan is not None:
        weighted = torch.zeros(len(data.features.names), dtype=torch.bool)
        weighted[model.support.edges[:, 0]] = True
        edged[owner[data.features.owner[weighted[data.features.attributes]]]] = True
    order = lengths.argsort(descending=True, stable=True)
    order = order[lengths[order] > 0]
    for unsure, with_edges in product((False, True), repeat=2):
        kind = order[(uncertain[order] == unsure) & (edged[order] == with_edges)]
        if len(kind):
            yield kind, with_edges


def _cut(sequences: Tensor, lengths: Tensor, tokens: float) -> list[Tensor]:
    """Runs of neighbouring sequences, of about so many tokens each."""
    total = lengths[sequences].cumsum(0)
    count = max(1, round(int(total[-1]) / tokens))
    number = ((total - 1) * count).div(total[-1], rounding_mode="floor")
    sizes = torch.bincount(number, minlength=count).tolist()
    return [part for part in sequences.split(sizes) if len(part)]


def _position(steps: Steps) -> Int64[Tensor, " r"]:
    """The position of each row in its sequence."""
    sizes = torch.tensor(steps.sizes, dtype=torch.int64)
    return torch.arange(len(sizes)).repeat_interleave(sizes)


def _allowed(labels: CompiledLabels, order: Tensor) -> Bool[Tensor, "r s"]:
    chosen = torch.full((len(labels.states),), -1)
    chosen[labels.uncertain] = torch.arange(len(labels.uncertain))
    known = labels.states[order].clamp(min=0)
    own = torch.nn.functional.one_hot(known, len(labels.names)).bool()
    unsure = chosen[order] >= 0
    own[unsure] = labels.allowed[chosen[order][unsure]]
    return own


def _check_possible(gold: Tensor, steps: Steps, group: Tensor) -> None:
    wrong = gold < 0
    if bool(wrong.any()):
        row = int(wrong.int().argmax())
        raise TrainingError(
            f"sequence {int(group[steps.sequence[row]])} has two neighbouring labels that this "
            "chain of order 2 never saw together. Try all_possible_transitions=True."
        )


# Minus the log-likelihood of label sequences, value and gradient by hand, shards on all cores.


class ChainWeights(NamedTuple):
    """A vector of weights laid out for use by every shard."""

    state: Float[Tensor, " f"]
    table: Float[Tensor, "w s"]
    transition: Float[Tensor, " e"]
    steps: Float[Tensor, "p p"]
    dense: Float[Tensor, "d s"]
    edge: Float[Tensor, " h"]
    edge_table: Float[Tensor, "w p*p"]


class ChainGradient(NamedTuple):
    """The value of one block, and what its gradients are made of."""

    value: Float[Tensor, ""]
    labels: Float[Tensor, "r s"]
    transitions: Float[Tensor, " e"]
    pairs: Float[Tensor, "q p p"] | None  # of single transitions, where rows have own tables


@final
@dataclass(frozen=True, eq=False)
class ChainLikelihood(Objective[ChainCRF]):
    """-log p(y | x) of all shards as a function of the flat vector of weights."""

    model: ChainCRF  # support, type and device count; its weights do not
    shards: list[Shard]
    threads: Threads

    @torch.no_grad()
    def __call__(self, vector: Float[Tensor, " v"]) -> Evaluation:
        """Nats, summed over the weights of the sequences; and the gradient."""
        laid = lay(self.model, self.layout.unflatten(vector))
        return total(self.threads.map(lambda shard: self._shard(laid, shard), self.shards))

    @torch.no_grad()
    def _shard(self, laid: ChainWeights, shard: Shard) -> tuple[Tensor, Tensor]:
        values, slopes = [], laid.state.new_empty(shard.rows, laid.table.shape[1])
        transitions, edges = -shard.gold_transitions, EdgeGradient.zeros(self.model)
        for block in shard.blocks:
            found = block_slopes(self.model, laid, shard, block)
            values.append(found.value)
            slopes[block.rows] = found.labels
            transitions += found.transitions
            if block.edges is not None and found.pairs is not None:
                edges.add(block.edges, found.pairs)
        observe(slopes, shard)
        return torch.stack(values).sum(), carry_back(self.model, slopes, transitions, edges, shard)


def total(answers: list[tuple[Tensor, Tensor]]) -> Evaluation:
    """The sums of the values and of the gradients."""
    value, gradient = answers[0]
    for more, slope in answers[1:]:
        value = value + more
        gradient += slope
    return Evaluation(value, gradient)


def lay(model: ChainCRF, weights: dict[str, Tensor]) -> ChainWeights:
    """The weights as every shard needs them."""
    state, transition = weights["state"], weights["transition"]
    edge = weights["edge"]
    return ChainWeights(
        state,
        model.placed.table(state),
        transition,
        model.chain.table(transition),
        weights["dense"],
        edge,
        model.edge_table(edge),
    )


def block_scores(laid: ChainWeights, shard: Shard, block: ChainBlock) -> Float[Tensor, "r s"]:
    """The scores of the labels of a block's rows."""
    scores = block.bags.sums(laid.table)
    block.singles.add_scores(laid.state, scores)
    if shard.dense is not None and len(laid.dense):
        scores.addmm_(shard.dense[block.rows], laid.dense)
    return scores


def block_table(laid: ChainWeights, block: ChainBlock) -> Float[Tensor, "*q p p"]:
    """The scores of transitions: shared, or of each row that has one before it."""
    if block.edges is None:
        return laid.steps
    return block.edges.edges.tables(laid.edge, laid.edge_table, laid.steps)


def block_slopes(
    model: ChainCRF, laid: ChainWeights, shard: Shard, block: ChainBlock
) -> ChainGradient:
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
    return ChainGradient(value.sum(), chain.of_labels(single), counts, pairs)


def _moments(unary: Tensor, table: Tensor, block: ChainBlock) -> tuple[Tensor, Tensor, Tensor]:
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
    transitions: Float[Tensor, " e"],
    edges: EdgeGradient,
    shard: Shard,
) -> Float[Tensor, " v"]:
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
    unary: Float[Tensor, "r p"], table: Float[Tensor, "*q p p"], block: ChainBlock
) -> Float[Tensor, " r"]:
    """The score of the known label of each row and of the step into it."""
    assert block.gold is not None  # noqa: S101 - the caller made sure
    steps, gold = block.steps, block.gold
    own = unary.gather(1, gold[:, None]).squeeze(1)
    own[steps.starting :] += scores_along(table, gold[steps.previous], gold[steps.starting :])
    return own

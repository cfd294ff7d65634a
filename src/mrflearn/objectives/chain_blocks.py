"""Training data of chains cut into blocks that fit the cache, and blocks dealt out to cores.

Letters in shapes: b: sequences; r: rows (tokens) of one block, laid out by `Steps`; k: rows of all
blocks of a shard; s: labels; p: states; e: transition weights; d: dense columns; u: rows in use of
the table of weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.features.compiled import CompiledFeatures
from mrflearn.features.features import UNKNOWN
from mrflearn.features.labels import CompiledLabels
from mrflearn.kernels.chain_steps import Steps
from mrflearn.models.chain_crf import NUMBERS_IN_TABLES, ChainCRF
from mrflearn.models.state_weights import LONGEST_PIECE, Bags, Singles, incidence, joined
from mrflearn.objectives.chain_edges import BlockEdges

NUMBERS_IN_BLOCK = 700_000  # rows times states: a handful of such arrays stays near the cores
NUMBERS_ON_GPU = 200_000_000  # there each step of a block costs a launch, and memory is plenty
LEAST_TOKENS = 4_000  # a shard with fewer is not worth a core of its own


@dataclass(frozen=True, eq=False)
class ChainData:
    """Sequences with labels and weights, all end to end, as `fit` got them."""

    features: CompiledFeatures
    labels: CompiledLabels
    weight: Float[Tensor, "b"] | None = None


@dataclass(frozen=True, eq=False)
class Block:
    """Sequences of similar lengths.  Either `gold` states are known or only `allowed` ones."""

    rows: slice  # within the shard
    steps: Steps
    bags: Bags
    singles: Singles
    gold: Int64[Tensor, "r"] | None
    allowed: Bool[Tensor, "r p"] | None
    weight: Float[Tensor, "b"] | None
    edges: BlockEdges | None  # None: all rows share one transition table


@dataclass(frozen=True, eq=False)
class Shard:
    """Blocks for one core, with what carries their gradients back to the weights."""

    blocks: tuple[Block, ...]
    rows: int
    used: Int64[Tensor, "u"]  # rows of the table of weights that the shard uses
    bags: Bags  # over the rows of the shard, one for each of those
    singles: Singles
    dense: Float[Tensor, "k d"] | None
    gold_place: Int[Tensor, "m"]  # row * labels + label, of the rows with known labels
    gold_weight: Float[Tensor, "m"] | None
    gold_transitions: Float[Tensor, "e"]


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
) -> Block:
    device, dtype = model.state.device, model.state.dtype
    states = data.labels.states[order]
    gold = allowed = None
    if bool((states != UNKNOWN).all()):
        gold = model.chain.path(states, steps).to(device)
        _check_possible(gold, steps, group)
    else:
        allowed = model.chain.allowed(_allowed(data.labels, order)).to(device)
    weight = None if data.weight is None else data.weight[group].to(device, dtype)
    return Block(
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
    blocks: list[Block],
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
    model: ChainCRF, block: Block, path: Int64[Tensor, "r"]
) -> Float[Tensor, "e"]:
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


def _position(steps: Steps) -> Int64[Tensor, "r"]:
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

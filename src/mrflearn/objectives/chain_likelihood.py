"""Objectives of linear chains over packed blocks of sequences: value and gradient by hand.

    likelihood    log Z(x) - score(y, x)
    perceptron    max over y' of score(y', x) - score(y, x)     [Collins 2002]
                  and a margin where y' is wrong                [Crammer et al. 2006]
    pw, pwpl      sum over pieces of log Z(piece) - score of its labels

The gradient is expected (or best) minus observed counts of every weight; both differences are
taken row by row, and counts of transitions are summed in float64: as differences of large sums
they would be noise in single precision before training is over.  For the same reason scores are
taken relative to those of the known labels, so that log Z is the loss itself.  Where labels are not
known for certain, log Z over the allowed labels takes the place of the score and expectations under
them that of the observed counts.

Training data are cut into blocks that fit the cache, and blocks dealt out to cores.  Tables of
pairs, where rows have their own, are made and carried back block by block.

Letters in shapes: b: sequences; r: rows (tokens) of one block, packed by `Steps`; q: those that
have a row before them; k: rows of all blocks of a shard; s: labels; p: states; e: weights of
transitions; f: weights of tokens; d: dense columns; w: rows of the table of wide weights; v: all
weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TypeAlias, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.execution.resources import Threads, moved
from mrflearn.kernels import chain_pieces, chain_search, chain_sums
from mrflearn.kernels.chain_pieces import ChainLoss, PieceSide
from mrflearn.kernels.chain_sums import Rows, Steps, Table, Tables, row_scores
from mrflearn.models.incidence import LONGEST_PIECE, WeightIncidence
from mrflearn.models.loglinear import NUMBERS_IN_TABLES, ChainBatch, LabelChain, LogLinearField
from mrflearn.objectives.base import Evaluation, Objective, total

NUMBERS_IN_BLOCK = 700_000  # rows times states: a handful of such arrays stays near the cores
NUMBERS_ON_GPU = 200_000_000  # there each step of a block costs a launch, and memory is plenty
LEAST_TOKENS = 4_000  # a shard with fewer is not worth a core of its own


@dataclass(frozen=True, eq=False)
class ChainBlock:
    """Sequences of similar lengths.  Either `gold` states are known or only `allowed` ones."""

    rows: slice  # within the shard
    steps: Steps
    tokens: WeightIncidence
    gold: Int64[Tensor, " r"] | None
    allowed: Bool[Tensor, "r p"] | None
    weight: Float[Tensor, " b"] | None
    moves: WeightIncidence | None  # None: all rows share one transition table
    chain: LabelChain

    @cached_property
    def amount(self) -> Float[Tensor, " r"]:
        """How often each row counts."""
        if self.weight is None:
            return torch.ones(1, device=self.steps.rank.device).expand(len(self.steps))
        return self.weight[self.steps.sequence]

    @cached_property
    def sides(self) -> tuple[PieceSide, PieceSide]:
        """The known states before and after every row."""
        return chain_pieces.sides(_known(self), self.steps, self.amount, self.chain.states)

    @cached_property
    def observed(self) -> tuple[Int64[Tensor, " r"], Int64[Tensor, " n"], Float[Tensor, " n"]]:
        """Where the known states stand among those of all rows, and their steps, each counted."""
        rows, steps = self.places(_known(self))
        codes, place = steps.unique(return_inverse=True)
        counts = torch.zeros(len(codes), dtype=torch.float64, device=codes.device)
        return rows, codes, counts.index_add_(0, place, self.amount[self.steps.starting :].double())

    def places(self, path: Int64[Tensor, " r"]) -> tuple[Int64[Tensor, " r"], Int64[Tensor, " q"]]:
        """Where the states of a path and its steps stand in the tables of all rows, flat."""
        row, states = torch.arange(len(path), device=path.device), self.chain.states
        step = path[self.steps.previous] * states + path[self.steps.starting :]
        if self.moves is not None:  # each row has a table of its own
            step += row[: len(step)] * states**2
        return row * states + path, step


@dataclass(frozen=True, eq=False)
class Shard:
    """Blocks for one core, with what carries their gradients back to the weights."""

    blocks: list[ChainBlock]
    tokens: WeightIncidence
    dense: Float[Tensor, "k d"] | None


def make_shards(model: LogLinearField, batch: ChainBatch, count: int) -> list[Shard]:
    """At most `count` shards of about equal work."""
    tokens, states = batch.features.tokens, model.plans.chain.states
    on_gpu = model.device.type != "cpu"
    count = 1 if on_gpu else max(1, min(count, tokens // LEAST_TOKENS))
    most = max(1, (NUMBERS_ON_GPU if on_gpu else NUMBERS_IN_BLOCK) // states)
    blocks = count * max(1, -(-tokens // (most * count)))
    sizes = tokens / blocks, min(tokens / blocks, NUMBERS_IN_TABLES / states**2)
    groups: list[Tensor] = []
    for kind, with_edges in _kinds(model, batch):
        groups += _cut(kind, batch.features.lengths, sizes[with_edges])
    dealt = [groups[start::count] for start in range(count)]
    return [_shard(model, batch, share) for share in dealt if share]


def _shard(model: LogLinearField, batch: ChainBatch, groups: list[Tensor]) -> Shard:
    """The shard whose blocks have these sequences."""
    device, plan, features = model.device, model.plans.whole[0].weights, batch.features
    starts = features.lengths.cumsum(0) - features.lengths
    packed = [Steps.of(features.lengths[group]) for group in groups]
    pairs = zip(groups, packed, strict=True)
    orders = [starts[group][steps.sequence] + steps.position for group, steps in pairs]
    tokens = features.taken(torch.cat(orders))
    incidence = WeightIncidence.of(plan, tokens, model.dtype)
    blocks, first = [], 0
    for group, steps, order in zip(groups, packed, orders, strict=True):
        rows = slice(first, first + len(order))
        part = incidence.rows(rows.start, rows.stop, plan.labels)
        gold, allowed = _labels(model, batch, group, steps, order)
        block = ChainBlock(
            rows,
            steps.to(device),
            moved(part, device),
            gold,
            allowed,
            None if batch.weight is None else batch.weight[group].to(device, model.dtype),
            _moves(model, batch, order[steps.starting :]),
            model.plans.chain,
        )
        blocks.append(block)
        first = rows.stop
    back = incidence.only_back(None if device.type == "cpu" else LONGEST_PIECE)
    dense = None if tokens.dense is None else tokens.dense.to(device, model.dtype)
    return Shard(blocks, moved(back, device), dense)


def _labels(
    model: LogLinearField, batch: ChainBatch, group: Tensor, steps: Steps, order: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """The known states of a block's rows, or else the allowed ones."""
    labels, chain = batch.labels.taken(order), model.plans.chain
    if len(labels.uncertain):
        return None, chain.allowed(labels.allowed_states()).to(model.device)
    gold = chain.path(labels.states, steps)
    if bool((gold < 0).any()):
        row = int((gold < 0).int().argmax())
        raise TrainingError(
            f"sequence {int(group[steps.sequence[row]])} has two neighbouring labels that this "
            "chain of order 2 never saw together. Try all_possible_transitions=True."
        )
    return gold.to(model.device), None


def _moves(model: LogLinearField, batch: ChainBatch, later: Tensor) -> WeightIncidence | None:
    """The weights of the transitions into these tokens; None: they have but the constant."""
    if model.plans.shared_table:
        return None
    joint = batch.joint[0].taken(later)
    if len(joint.attributes) == joint.tokens:
        return None
    own = WeightIncidence.of(model.plans.whole[1].weights, joint, model.dtype)
    return moved(own.with_back(), model.device)


def _kinds(model: LogLinearField, batch: ChainBatch) -> Iterator[tuple[Tensor, bool]]:
    """Sequences of all known labels, and the others, longest first; empty ones in neither.

    Of both kinds, those without attributes of transitions and those with (True) by themselves.
    """
    lengths = batch.features.lengths
    owner = torch.arange(len(lengths)).repeat_interleave(lengths)
    uncertain, edged = (torch.zeros(len(lengths), dtype=torch.bool) for _ in range(2))
    uncertain[owner[batch.labels.uncertain]] = True
    if not model.plans.shared_table:
        ends = batch.joint[0].ends
        edged[owner[ends.diff(prepend=ends.new_zeros(1)) > 1]] = True
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


def _known(block: ChainBlock) -> Int64[Tensor, " r"]:
    if block.gold is None:
        raise TrainingError(
            "the perceptron needs every label; None and sets are for algorithm='lbfgs'."
        )
    return block.gold


# What is lost on one block of sequences, and its gradient by the scores.


Loss: TypeAlias = Callable[[Tensor, Tensor, ChainBlock], ChainLoss]  # of unary scores and tables


def likelihood(unary: Rows, table: Tables, block: ChainBlock) -> ChainLoss:
    """log Z less the score of the labels, or less log Z over those allowed."""
    if block.gold is not None:
        own = row_scores(unary, table, block.gold, block.steps)
        found = _moments(unary - own[:, None], table, block)
        rows, codes, counts = block.observed
        _subtract(found.single, rows, block.amount)
        _subtract(found.pair, codes, counts)
        return found
    assert block.allowed is not None  # noqa: S101 - a block has either
    value, single, pair = _moments(unary, table, block)
    bound = _moments(unary.masked_fill(~block.allowed, -torch.inf), table, block)
    return ChainLoss(value - bound.value, single - bound.single, pair - bound.pair)


def perceptron(
    unary: Rows, table: Tables, block: ChainBlock, margin: Callable[[Tensor], Tensor] | None = None
) -> ChainLoss:
    """The score of the best labels less that of the right ones.

    With a `margin`, that of the number of wrong labels is added, and sequences without have none.
    """
    steps, gold = block.steps, _known(block)
    best, score = chain_search.viterbi(unary, table, steps)
    loss = score.double() - steps.totals(row_scores(unary, table, gold, steps).double())
    if margin is not None:
        wrong = steps.totals((block.chain.label(best) != block.chain.label(gold)).double())
        loss = torch.where(wrong > 0, loss + margin(wrong), 0.0)
    single, pair = torch.zeros_like(unary), torch.zeros_like(table)
    for path in (gold, best):
        rows, codes = block.places(path)
        _subtract(single.neg_(), rows, block.amount)
        _subtract(pair.neg_(), codes, block.amount[steps.starting :])
    return ChainLoss(_total(loss, block), single.neg_(), pair.neg_())


def piecewise(unary: Rows, table: Table, block: ChainBlock) -> ChainLoss:
    """Each transition with the tokens at its ends [Sutton and McCallum 2009, eq. 8]."""
    return chain_pieces.whole_pieces(unary, table, _known(block), block.steps, block.amount)


def piecewise_pseudolikelihood(unary: Rows, table: Table, block: ChainBlock) -> ChainLoss:
    """Each token of such a piece given the other [Sutton and McCallum 2009, eq. 36, 37]."""
    return chain_pieces.given_neighbours(unary, table, _known(block), *block.sides)


def _subtract(counts: Tensor, place: Tensor, amount: Tensor) -> None:
    """Takes amounts off the entries of a table at these flat places, in place."""
    counts.view(-1).index_add_(0, place, amount.to(counts.dtype), alpha=-1)


def _moments(unary: Tensor, table: Tensor, block: ChainBlock) -> ChainLoss:
    """log Z, and probabilities of states and pairs (their sum, or those of each row), weighted."""
    steps, weight = block.steps, block.weight
    if table.ndim == 2:
        found = chain_sums.expectations(unary, table, steps)
        value, single, pair = found.log_partition, found.single, found.pair_counts(steps, weight)
    else:
        value, single, pair = chain_sums.marginals(unary, table, steps)
        if weight is not None:
            pair *= block.amount[steps.starting :, None, None]
    if weight is not None:
        single *= block.amount[:, None]
    return ChainLoss(_total(value.double(), block), single, pair)


def _total(values: Float[Tensor, " b"], block: ChainBlock) -> Float[Tensor, ""]:
    return (values if block.weight is None else values * block.weight).sum()


# A sum of losses over all blocks as a function of the flat vector of weights, on all cores.


@final
@dataclass(frozen=True, eq=False)
class ChainObjective(Objective[LogLinearField]):
    """The sum of a loss over all shards; nats, where the loss is a likelihood."""

    model: LogLinearField  # templates, type and device count; its weights do not
    shards: list[Shard]
    threads: Threads
    loss: Loss = likelihood

    @torch.no_grad()
    def __call__(self, vector: Float[Tensor, " v"]) -> Evaluation:
        """The value, summed over the weights of the sequences; and the gradient."""
        model = self.at(vector)
        return total(self.threads.map(lambda shard: self._shard(model, shard), self.shards))

    @torch.no_grad()
    def _shard(self, model: LogLinearField, shard: Shard) -> Evaluation:
        plans, chain = model.plans, model.plans.chain
        value = torch.zeros((), dtype=torch.float64, device=model.device)
        rows = shard.blocks[-1].rows.stop
        scores = model.weights[0].new_empty(rows, model.templates[0].cells)
        moves = torch.zeros_like(model.moves, dtype=torch.float64)
        narrow, wide = torch.zeros_like(model.moves), torch.zeros_like(model.tables[1])
        for block in shard.blocks:
            found = self._block(model, shard, block)
            value += found.value
            scores[block.rows] = chain.of_labels(found.single)
            if block.moves is not None:
                block.moves.add_gradient(found.pair.flatten(1), narrow, wide)
            else:
                own = chain.of_weights(found.single, found.pair, block.steps)
                moves[: len(own)] += own
        if not plans.shared_table:
            plans.placed(1, scores.device).add_wide(wide, narrow)
            moves += narrow
        tokens, dense = torch.zeros_like(model.weights[0]), torch.zeros_like(model.dense[0])
        shard.tokens.pulled_back(scores, plans.placed(0, scores.device), tokens)
        if shard.dense is not None:
            dense = shard.dense.t() @ scores
        return Evaluation(value, torch.cat([tokens, dense.flatten(), moves.to(tokens.dtype)]))

    def _block(self, model: LogLinearField, shard: Shard, block: ChainBlock) -> ChainLoss:
        scores = block.tokens.scores(model.weights[0], model.tables[0])
        if shard.dense is not None and len(model.dense[0]):
            scores.addmm_(shard.dense[block.rows], model.dense[0])
        table = model.shared_moves
        if block.moves is not None:
            table = block.moves.scores(model.moves, model.tables[1]).view(-1, *table.shape)
        return self.loss(model.plans.chain.unary(scores, model.moves, block.steps), table, block)

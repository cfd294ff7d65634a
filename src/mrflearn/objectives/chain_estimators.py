"""Estimators of chain CRFs other than exact likelihood.

    value = sum over pieces of log Z(piece) - score of its labels
    gradient = expected minus observed counts of every weight

Letters in shapes as in `chain_blocks`.

Tokens have a factor "state" with their attributes, neighbours a factor "transition" with one
weight for each pair of labels and those of attributes of transitions.  A piece is a transition
with the tokens at its ends: alone, a transition without attributes would learn how often labels
follow each other, and count again what the tokens already say.

Letters in shapes: p: all weights of the chain; z: attributes of all tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.execution.threads import Threads
from mrflearn.features.features import CompiledFeatures, Numbering
from mrflearn.graph.builders import chains
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.kernels.chain_pieces import (
    PieceSide,
    PieceSums,
    given_neighbours,
    sides,
    whole_pieces,
)
from mrflearn.models.chain_crf import ChainCRF
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import FactorTemplate, LogLinearField
from mrflearn.objectives.base import Evaluation, Objective, Reparametrised
from mrflearn.objectives.chain_likelihood import (
    ChainBlock,
    ChainData,
    ChainWeights,
    EdgeGradient,
    Shard,
    block_scores,
    carry_back,
    lay,
    make_shard,
    make_shards,
    total,
)
from mrflearn.objectives.field_objectives import (
    Criterion,
    Principle,
    field_objective,
    natural_pieces,
)

# Piecewise likelihood and pseudolikelihood of chains that share one transition table.


Kind = Literal["pw", "pwpl"]


@dataclass(frozen=True, eq=False)
class PieceBlock:
    """The pieces of a block: how much each row counts, and of `pwpl` what is on its sides."""

    block: ChainBlock
    amount: Float[Tensor, " r"]
    sides: tuple[PieceSide, PieceSide] | None

    @classmethod
    def of(cls, model: ChainCRF, block: ChainBlock, kind: Kind) -> PieceBlock:
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
    pieces: tuple[PieceBlock, ...]

    @classmethod
    def of(cls, model: ChainCRF, shard: Shard, kind: Kind) -> PiecedShard:
        """The same shard, ready for `kind`."""
        return cls(shard, tuple(PieceBlock.of(model, block, kind) for block in shard.blocks))


@final
@dataclass(frozen=True, eq=False)
class ChainPieces(Objective[ChainCRF]):
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
    def __call__(self, vector: Float[Tensor, " v"]) -> Evaluation:
        """Nats, summed over the weights of the sequences; and the gradient."""
        laid = lay(self.model, self.layout.unflatten(vector))
        return total(self.threads.map(lambda shard: self._shard(laid, shard), self.shards))

    @torch.no_grad()
    def _shard(self, laid: ChainWeights, pieced: PiecedShard) -> tuple[Tensor, Tensor]:
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
        gradient = carry_back(self.model, slopes, moves, EdgeGradient.zeros(self.model), shard)
        return torch.stack(values).sum(), gradient


def suits(model: ChainCRF, data: ChainData) -> bool:
    """Whether all transitions share one table and every label is known."""
    shared = model.edge_plan is None and model.support.triples is None
    return shared and not len(data.labels.uncertain)


# A linear-chain CRF trained by any estimator: its weights as those of a log-linear field.


BIAS = "every transition"


def chain_objective(
    model: ChainCRF, data: ChainData, estimator: Criterion, threads: Threads
) -> Objective[ChainCRF]:
    """The objective of an estimator, as a function of the chain's flat vector of weights."""
    if (estimator == "pw" or estimator == "pwpl") and suits(model, data):
        shards = make_shards(model, data, threads.count)
        return ChainPieces.of(model, shards, estimator, threads)
    return field_of_chain(model, data, estimator, threads)


def field_of_chain(
    model: ChainCRF, data: ChainData, estimator: Criterion, threads: Threads
) -> Objective[ChainCRF]:
    """The same for any chain, by the log-linear field that it is."""
    field, number = chain_field(model)
    principle = Principle(estimator, natural_pieces(estimator))
    function = field_objective(field, chain_batch(model, data), principle, threads)
    return Reparametrised(function, model, number)


def chain_objectives(
    model: ChainCRF,
    data: ChainData,
    estimator: Criterion,
    threads: Threads,
    parts: list[Int64[Tensor, " b"]],
) -> list[Objective[ChainCRF]]:
    """The same for some sequences at a time."""
    if (estimator == "pw" or estimator == "pwpl") and suits(model, data):
        shards = [make_shard(model, data, [own]) for own in parts]
        return [ChainPieces.of(model, [shard], estimator, threads) for shard in shards]
    field, number = chain_field(model)
    batch, principle = chain_batch(model, data), Principle(estimator, natural_pieces(estimator))
    return [
        Reparametrised(
            field_objective(field, batch.examples(own.sort().values).compact(), principle, threads),
            model,
            number,
        )
        for own in parts
    ]


def chain_field(model: ChainCRF) -> tuple[LogLinearField, Int64[Tensor, " p"]]:
    """A field of the chain's weights, and where in the chain's flat vector each of them lies."""
    support = model.support
    if support.triples is not None:
        raise SettingsError("chains of order 2 are trained by estimator='ml' only.")
    if model.state.device.type != "cpu":
        raise SettingsError("estimators other than 'ml' work on the processor: device='cpu'.")
    size, attributes = len(support.labels), len(support.attributes)
    sizes = [part.numel() for part in model.parameters().values()]
    ends = [0, *torch.tensor(sizes).cumsum(0).tolist()]
    state, transition, dense, edge = (torch.arange(a, b) for a, b in pairwise(ends))
    code = support.attribute * size + support.label
    order = code.argsort()
    own = FactorTemplate(
        "state",
        (size,),
        support.attributes,
        support.columns,
        support.attribute[order],
        support.label[order],
    )
    cells = size * size
    first, before, after = support.edges.unbind(dim=1)
    bias = attributes if len(support.edges) else 0
    pairs = torch.cat(
        [
            first * cells + before * size + after,
            bias * cells + support.source * size + support.target,
        ]
    )
    turn = pairs.argsort()
    names = Numbering([*support.attributes, BIAS] if bias else [BIAS], closed=True)
    codes = pairs[turn]
    joint = FactorTemplate(
        "transition",
        (size, size),
        names,
        (),
        codes.div(cells, rounding_mode="floor"),
        codes % cells,
    )
    field = LogLinearField.zeros((own, joint), model.state.dtype)
    number = torch.cat([state[order], dense, torch.cat([edge, transition])[turn]])
    return field, number


def chain_batch(model: ChainCRF, data: ChainData) -> FieldBatch:
    """The sequences as one graph of paths."""
    features, labels, support = data.features, data.labels, model.support
    size = len(support.labels)
    graph = chains(features.lengths, size)
    tokens, steps = graph.groups
    later = steps.scope[:, 1]
    joint = _transition_features(features, support.edges, len(support.attributes))
    rows = later if len(support.edges) else torch.zeros_like(later)
    groups = (
        replace(tokens, name="state", table=torch.arange(features.tokens)),
        replace(steps, name="transition", table=rows),
    )
    path = FactorGraph(graph.states, groups, graph.component, components=graph.components)
    allowed = labels.allowed
    weight = None if data.weight is None else data.weight.double()
    return FieldBatch(path, (features, joint), labels.states, labels.uncertain, allowed, weight)


def _transition_features(
    features: CompiledFeatures, edges: Int64[Tensor, "h 3"], attributes: int
) -> CompiledFeatures:
    """Of every token the attributes of the transition into it, and one that all have."""
    if not len(edges):
        one = torch.ones(1, dtype=torch.int64)
        bias = torch.zeros(1, dtype=torch.int32)
        return CompiledFeatures(Numbering([BIAS], closed=True), (), one, one, bias, None, None)
    marked = torch.zeros(attributes, dtype=torch.bool)
    marked[edges[:, 0]] = True
    kept = marked[features.attributes.long()]
    tokens = torch.arange(features.tokens, dtype=torch.int32)
    owner = torch.cat([features.owner[kept], tokens])
    order = owner.argsort(stable=True)
    own = torch.cat([features.attributes[kept], torch.full_like(tokens, attributes)])[order]
    values = None
    if features.values is not None:
        values = torch.cat([features.values[kept], torch.ones(len(tokens))])[order]
    ends = torch.bincount(owner, minlength=len(tokens)).cumsum(0)
    names = Numbering([*features.names, BIAS], closed=True)
    return CompiledFeatures(names, (), features.lengths, ends, own, values, None)

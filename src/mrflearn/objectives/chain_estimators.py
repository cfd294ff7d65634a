"""A linear-chain CRF trained by any estimator: its weights as those of a log-linear field.

Tokens have a factor "state" with their attributes, neighbours a factor "transition" with one
weight for each pair of labels and those of attributes of transitions.  A piece is a transition
with the tokens at its ends: alone, a transition without attributes would learn how often labels
follow each other, and count again what the tokens already say.

Letters in shapes: p: all weights of the chain; z: attributes of all tokens.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from jaxtyping import Int64
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.execution.threads import Threads
from mrflearn.features.compiled import CompiledFeatures
from mrflearn.features.features import Numbering
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.sequences import chains
from mrflearn.models.chain_crf import ChainCRF
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField
from mrflearn.models.templates import Template
from mrflearn.objectives.chain_blocks import ChainData, make_shard, make_shards
from mrflearn.objectives.chain_pieces import ChainPieces, suits
from mrflearn.objectives.field_objectives import (
    Criterion,
    Principle,
    field_objective,
    natural_pieces,
)
from mrflearn.objectives.objective import ValueAndGradient
from mrflearn.objectives.tied import tied

BIAS = "every transition"


def chain_objective(
    model: ChainCRF, data: ChainData, estimator: Criterion, threads: Threads
) -> ValueAndGradient:
    """Value and gradient of an estimator, as a function of the chain's flat vector of weights."""
    if (estimator == "pw" or estimator == "pwpl") and suits(model, data):
        shards = make_shards(model, data, threads.count)
        return ChainPieces.of(model, shards, estimator, threads)
    return field_of_chain(model, data, estimator, threads)


def field_of_chain(
    model: ChainCRF, data: ChainData, estimator: Criterion, threads: Threads
) -> ValueAndGradient:
    """The same for any chain, by the log-linear field that it is."""
    field, number = chain_field(model)
    principle = Principle(estimator, natural_pieces(estimator))
    function = field_objective(field, chain_batch(model, data), principle, threads)
    return tied(function, number)


def chain_objectives(
    model: ChainCRF,
    data: ChainData,
    estimator: Criterion,
    threads: Threads,
    parts: list[Int64[Tensor, "b"]],
) -> list[ValueAndGradient]:
    """The same for some sequences at a time."""
    if (estimator == "pw" or estimator == "pwpl") and suits(model, data):
        shards = [make_shard(model, data, [own]) for own in parts]
        return [ChainPieces.of(model, [shard], estimator, threads) for shard in shards]
    field, number = chain_field(model)
    batch, principle = chain_batch(model, data), Principle(estimator, natural_pieces(estimator))
    return [
        tied(
            field_objective(field, batch.examples(own.sort().values).compact(), principle, threads),
            number,
        )
        for own in parts
    ]


def chain_field(model: ChainCRF) -> tuple[LogLinearField, Int64[Tensor, "p"]]:
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
    own = Template(
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
    joint = Template(
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

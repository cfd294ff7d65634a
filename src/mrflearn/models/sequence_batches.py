"""Sequences with one or more layers of labels as factors of a log-linear field.

Each layer is a chain; layers may be coupled where they stand at the same token, and tokens far
apart joined by skip edges.  Where the features stand is a choice:

- "edges": on every edge, as in the paper's models [Sutton and McCallum 2009, eqs. 40, 41].  An
  edge along a chain has the features of its first token, as in GRMM; the last token of a sequence,
  which no edge leaves, has a factor alone;
- "nodes": on single tokens; edges have a constant;
- "both": on single tokens and on edges.

A skip edge has the features of both its ends.  Letters in shapes: k: tokens; n: skip edges;
r: rows of features; z: their attributes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.features.features import UNKNOWN, CompiledFeatures
from mrflearn.features.index import (
    attributes_of,
    constant,
    neighbours,
    with_bias,
)
from mrflearn.features.labels import CompiledLabels
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.models.field_batch import FieldBatch

FeaturesOn = Literal["edges", "nodes", "both"]


@dataclass(frozen=True)
class SequenceWiring:
    """How many labels each layer has, which layers are coupled, and where features stand."""

    labels: tuple[int, ...]
    coupled: tuple[tuple[int, int], ...] = ()
    features_on: FeaturesOn = "edges"

    def __post_init__(self) -> None:
        if self.features_on not in get_args(FeaturesOn):
            raise GraphError(
                f"features_on={self.features_on!r} is not one of {', '.join(get_args(FeaturesOn))}."
            )
        layers = len(self.labels)
        for i, j in self.coupled:
            if i == j or not (0 <= i < layers and 0 <= j < layers):
                raise GraphError(
                    f"layers {i} and {j} cannot be coupled: name two of the {layers} layers "
                    f"(0 to {layers - 1})."
                )


def sequence_batch(
    wiring: SequenceWiring,
    features: CompiledFeatures,
    labels: Sequence[CompiledLabels] | None = None,
    *,
    skips: Int64[Tensor, "n 2"] | None = None,
    weight: Float[Tensor, " b"] | None = None,
    only: Collection[str] | None = None,
) -> FieldBatch:
    """All sequences as one graph; variable (token, layer) has the number token * layers + layer.

    Groups without a factor are left out, and with `only` those of other names.  Without `labels`
    every variable may be in any state.
    """
    kept = [
        (group, own)
        for group, own in _groups(wiring, with_bias(features), skips)
        if (len(group) if only is None else group.name in only)
    ]
    layers = len(wiring.labels)
    owner = torch.arange(len(features)).repeat_interleave(features.lengths)
    graph = FactorGraph(
        torch.tensor(wiring.labels).repeat(features.tokens),
        tuple(group for group, _ in kept),
        owner.repeat_interleave(layers),
        components=len(features),
    )
    sets = tuple(own for _, own in kept)
    states = torch.full((graph.variables,), UNKNOWN)
    batch = FieldBatch(graph, sets, states, weight=weight)
    return batch.unlabelled() if labels is None else _labelled(batch, labels)


def _groups(
    wiring: SequenceWiring, features: CompiledFeatures, skips: Int64[Tensor, "n 2"] | None
) -> list[tuple[FactorGroup, CompiledFeatures]]:
    """All groups, each with the record of features that its tables name rows of."""
    layers, lengths = len(wiring.labels), features.lengths
    tokens, (before, after) = torch.arange(features.tokens), neighbours(lengths, 2).t()
    name, alone = "unary", tokens
    if wiring.features_on == "edges":  # only the last token of a sequence has no edge that leaves
        name, alone = "end", lengths.cumsum(0)[lengths > 0] - 1

    def scope(*ends: tuple[Tensor, int]) -> Int64[Tensor, "f a"]:
        return torch.stack([token * layers + layer for token, layer in ends], dim=1)

    def joint(
        name: str, own: Tensor, rows: Tensor, rows_of: CompiledFeatures = features
    ) -> tuple[FactorGroup, CompiledFeatures]:
        if wiring.features_on == "nodes":
            return FactorGroup.tied(name, own), constant()
        return FactorGroup(name, own, rows), rows_of

    found = [
        *((FactorGroup(f"{name} {i}", scope((alone, i)), alone), features) for i in range(layers)),
        *(joint(f"pairwise {i}", scope((before, i), (after, i)), before) for i in range(layers)),
        *(
            joint(f"cotemporal {i},{j}", scope((tokens, i), (tokens, j)), tokens)
            for i, j in wiring.coupled
        ),
    ]
    if skips is not None:
        (one, other), rows = skips.t(), torch.arange(len(skips))
        own = joined_rows(features, skips)
        found += [joint(f"skip {i}", scope((one, i), (other, i)), rows, own) for i in range(layers)]
    return found


def joined_rows(features: CompiledFeatures, pairs: Int64[Tensor, "n 2"]) -> CompiledFeatures:
    """A row for each pair of tokens: the attributes that either has, with the larger value."""
    place, owner = attributes_of(features, pairs.reshape(-1))
    size = len(features.names)
    code = (owner // 2) * size + features.attributes[place]
    codes, number = torch.unique(code, return_inverse=True)
    values = None
    if features.values is not None:
        lowest = torch.full((len(codes),), -torch.inf)
        values = lowest.scatter_reduce(0, number, features.values[place], "amax")
    counts = torch.bincount(codes // size, minlength=len(pairs))
    dense = None
    if features.dense is not None:
        dense = features.dense[pairs].amax(dim=1)
    return replace(
        features,
        lengths=torch.tensor([len(pairs)]),
        ends=counts.cumsum(0),
        attributes=(codes % size).int(),
        values=values,
        dense=dense,
    )


def _labelled(batch: FieldBatch, labels: Sequence[CompiledLabels]) -> FieldBatch:
    """The batch with the labels of all layers woven together."""
    layers, most = len(labels), batch.graph.most_states
    states = torch.stack([own.states for own in labels], dim=1).reshape(-1)
    uncertain = torch.cat([own.uncertain * layers + i for i, own in enumerate(labels)])
    allowed = torch.cat(
        [torch.nn.functional.pad(own.allowed, (0, most - own.allowed.shape[1])) for own in labels]
    )
    order = uncertain.argsort()
    return replace(batch, states=states, uncertain=uncertain[order], allowed=allowed[order])

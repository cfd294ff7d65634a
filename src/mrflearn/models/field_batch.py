"""Labelled examples of any graphs as one disjoint graph in flat tensors; layered sequences so.

In sequences each layer of labels is a chain; layers may be coupled where they stand at the same
token, and tokens far apart joined by skip edges.  Where the features stand is a choice:

- "edges": on every edge, as in the paper's models [Sutton and McCallum 2009, eqs. 40, 41].  An
  edge along a chain has the features of its first token, as in GRMM; the last token of a sequence,
  which no edge leaves, has a factor alone;
- "nodes": on single tokens; edges have a constant;
- "both": on single tokens and on edges.

A skip edge has the features of both its ends.

Letters in shapes: v: variables; c: examples (components); f: factors of one group; a: their arity;
m: variables whose label is not known for certain; s: states.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.features.features import UNKNOWN, CompiledFeatures, CompiledLabels, attributes_of
from mrflearn.features.index import FactorTemplate, constant, neighbours, weighted_pairs, with_bias
from mrflearn.graph.builders import check_coupled
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup

NOBODY = torch.zeros(0, dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class FieldBatch:
    """A graph, the features of its factors and, in training, the labels of its variables.

    Group k of the graph holds the factors of template k; factor i there has the features of row
    `table[i]` of `features[k]` (a token of the compiled sequences), so that factors with the same
    features share a row, and groups may share one record of features.  `states` holds
    `UNKNOWN` for the `uncertain` variables, which may be in any `allowed` state.
    """

    graph: FactorGraph
    features: tuple[CompiledFeatures, ...]
    states: Int64[Tensor, " v"]
    uncertain: Int64[Tensor, " m"] = field(default_factory=lambda: NOBODY)
    allowed: Bool[Tensor, "m s"] = field(default_factory=lambda: torch.zeros(0, 1).bool())
    weight: Float[Tensor, " c"] | None = None

    def __post_init__(self) -> None:
        for group, features in zip(self.graph.groups, self.features, strict=True):
            if len(group) and int(group.table.max()) >= features.tokens:
                raise GraphError(
                    f"group '{group.name}' reads row {int(group.table.max())} of {features.tokens}."
                )

    def known(self) -> Bool[Tensor, " v"]:
        """Which variables have a label for certain."""
        return self.states != UNKNOWN

    def allowed_states(self) -> Bool[Tensor, "v s"]:
        """Which labels each variable may have."""
        most = self.graph.most_states
        mask = torch.nn.functional.one_hot(self.states.clamp(min=0), most).bool()
        if not len(self.uncertain):
            return mask
        return mask.index_copy(0, self.uncertain, self.allowed) & self.graph.legal()

    def unknown(self) -> Bool[Tensor, " v"]:
        """The variables of whose label nothing is known."""
        free = (self.allowed_states() == self.graph.legal()).all(dim=1)
        return free & (self.graph.states > 1)

    def unlabelled(self) -> FieldBatch:
        """The same graph, every variable in any state."""
        unknown = torch.full_like(self.states, UNKNOWN)
        everyone = torch.arange(self.graph.variables)
        return replace(self, states=unknown, uncertain=everyone, allowed=self.graph.legal())

    @property
    def sizes(self) -> Int64[Tensor, " c"]:
        """How many variables each example has."""
        return torch.bincount(self.graph.component, minlength=self.graph.components)

    def examples(self, chosen: Int64[Tensor, " b"]) -> FieldBatch:
        """These examples with their own features, numbered in the order they are named."""
        graph = self.graph
        place = torch.full((graph.components,), UNKNOWN)
        place[chosen] = torch.arange(len(chosen))
        kept = place[graph.component] != UNKNOWN
        number = kept.cumsum(0) - 1
        groups, features = [], []
        for group, own in zip(graph.groups, self.features, strict=True):
            inside = kept[group.scope[:, 0]]
            used, table = group.table[inside].unique(return_inverse=True)
            groups.append(FactorGroup(group.name, number[group.scope[inside]], table))
            features.append(own.taken(used))
        component = place[graph.component[kept]]
        own_graph = FactorGraph(graph.states[kept], tuple(groups), component, len(chosen))
        unsure = kept[self.uncertain]
        return FieldBatch(
            own_graph,
            tuple(features),
            self.states[kept],
            number[self.uncertain[unsure]],
            self.allowed[unsure],
            None if self.weight is None else self.weight[chosen],
        )

    def parts(self, count: int) -> Iterator[FieldBatch]:
        """At most `count` parts of whole examples."""
        for own in torch.arange(self.graph.components).tensor_split(count):
            if len(own):
                yield self.examples(own)


def find_templates(
    batch: FieldBatch, *, min_freq: float = 0.0, everything: bool = False
) -> tuple[FactorTemplate, ...]:
    """A template for every group; with `everything`, of all pairs."""
    found = []
    least = -math.inf if everything else min_freq
    for group, features in zip(batch.graph.groups, batch.features, strict=True):
        most = batch.graph.most_states  # all that is known of factors never met
        shape = batch.graph.shape(group) if len(group) else (most,) * group.arity
        pairs = weighted_pairs(
            features, group.table, group.scope, shape, batch, min_freq=least, everything=everything
        )
        found.append(FactorTemplate(group.name, shape, features.names, features.columns, *pairs))
    return tuple(found)


# Sequences with one or more layers of labels.


FeaturesOn = Literal["edges", "nodes", "both"]


@dataclass(frozen=True)
class SequenceWiring:
    """How many labels each layer has, which layers are coupled, and where features stand."""

    labels: tuple[int, ...]
    coupled: tuple[tuple[int, int], ...] = ()
    features_on: FeaturesOn = "edges"

    def __post_init__(self) -> None:
        if self.features_on not in get_args(FeaturesOn):
            known = ", ".join(get_args(FeaturesOn))
            raise GraphError(f"features_on={self.features_on!r} is not one of {known}.")
        check_coupled(self.coupled, len(self.labels))


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
    groups, sets = tuple(group for group, _ in kept), tuple(own for _, own in kept)
    states = torch.tensor(wiring.labels).repeat(features.tokens)
    owner = torch.arange(len(features)).repeat_interleave(features.lengths * len(wiring.labels))
    graph = FactorGraph(states, groups, owner, components=len(features))
    batch = FieldBatch(graph, sets, torch.full_like(states, UNKNOWN), weight=weight)
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
    return replace(
        features,
        lengths=torch.tensor([len(pairs)]),
        ends=torch.bincount(codes // size, minlength=len(pairs)).cumsum(0),
        attributes=(codes % size).int(),
        values=values,
        dense=None if features.dense is None else features.dense[pairs].amax(dim=1),
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

"""Labelled examples of any graphs as one disjoint graph in flat tensors.

Letters in shapes: v: variables; c: examples (components); f: factors of one group; a: their arity;
m: variables whose label is not known for certain; s: states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.features.features import UNKNOWN, CompiledFeatures, Numbering
from mrflearn.features.index import FactorTemplate, weighted_pairs
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
        graph = self.graph
        if len(self.features) != len(graph.groups):
            raise GraphError(
                f"{len(graph.groups)} groups of factors, but features for {len(self.features)}."
            )
        if len(self.states) != graph.variables:
            raise GraphError(f"{len(self.states)} labels for {graph.variables} variables.")
        for group, features in zip(graph.groups, self.features, strict=True):
            if len(group) and int(group.table.max()) >= features.tokens:
                raise GraphError(
                    f"group '{group.name}': a factor reads row {int(group.table.max())} of the "
                    f"features, but there are {features.tokens}."
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

    def factor_weight(self, index: int) -> Float[Tensor, " f"]:
        """How often the example of each factor of a group counts."""
        group = self.graph.groups[index]
        if self.weight is None:
            return torch.ones(len(group), dtype=torch.float64)
        return self.weight.double()[self.graph.component_of(group)]

    def unlabelled(self) -> FieldBatch:
        """The same graph, every variable in any state."""
        legal = self.graph.legal()
        unknown = torch.full_like(self.states, UNKNOWN)
        everyone = torch.arange(self.graph.variables)
        return replace(self, states=unknown, uncertain=everyone, allowed=legal)

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
    for group, features in zip(batch.graph.groups, batch.features, strict=True):
        most = batch.graph.most_states  # all that is known of factors never met
        shape = batch.graph.shape(group) if len(group) else (most,) * group.arity
        pairs = weighted_pairs(
            features,
            group.table,
            group.scope,
            shape,
            batch,
            min_freq=-math.inf if everything else min_freq,
            everything=everything,
        )
        names = features.names if features.names.closed else Numbering(features.names, closed=True)
        found.append(FactorTemplate(group.name, shape, names, features.columns, *pairs))
    return tuple(found)

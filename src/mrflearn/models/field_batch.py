"""Labelled examples of any graphs as one disjoint graph in flat tensors.

Letters in shapes: v: variables; c: examples (components); f: factors of one group; a: their arity;
m: variables whose label is not known for certain; s: states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.features.features import UNKNOWN, CompiledFeatures
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

    def part(self, first: int, end: int) -> FieldBatch:
        """The examples from `first` up to `end` alone; feature rows keep their numbers."""
        return self.examples(torch.arange(first, end))

    def examples(self, chosen: Int64[Tensor, " b"]) -> FieldBatch:
        """These examples, numbered in the order they are named; feature rows keep their numbers."""
        graph = self.graph
        place = torch.full((graph.components,), UNKNOWN)
        place[chosen] = torch.arange(len(chosen))
        kept = place[graph.component] != UNKNOWN
        number = kept.cumsum(0) - 1
        groups = tuple(_part(group, kept, number) for group in graph.groups)
        component = place[graph.component[kept]]
        own = FactorGraph(graph.states[kept], groups, component, len(chosen))
        inside = kept[self.uncertain]
        return FieldBatch(
            own,
            self.features,
            self.states[kept],
            number[self.uncertain[inside]],
            self.allowed[inside],
            None if self.weight is None else self.weight[chosen],
        )

    def parts(self, count: int) -> Iterator[FieldBatch]:
        """At most `count` parts of whole examples, each with its own features only."""
        total = self.graph.components
        edges = [total * k // count for k in range(count + 1)]
        for first, end in pairwise(edges):
            if end > first:
                yield self.part(first, end).compact()

    def compact(self) -> FieldBatch:
        """The same examples without the feature rows that none of their factors reads."""
        groups, features = [], []
        for group, own in zip(self.graph.groups, self.features, strict=True):
            used, table = group.table.unique(return_inverse=True)
            groups.append(replace(group, table=table))
            features.append(own.taken(used))
        return replace(
            self, graph=replace(self.graph, groups=tuple(groups)), features=tuple(features)
        )


def _part(group: FactorGroup, kept: Bool[Tensor, " v"], number: Int64[Tensor, " v"]) -> FactorGroup:
    inside = kept[group.scope[:, 0]]
    return FactorGroup(group.name, number[group.scope[inside]], group.table[inside])

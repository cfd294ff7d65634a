"""Graphs as users have them, packed into one batch: networkx graphs, or factor graphs with items.

An example is

- a networkx graph: `features` of a node or an edge is an item, as `mrflearn.features.features`
  tells; factors are its nodes ("node") and edges ("edge");
- or a pair (FactorGraph, {group: items}), one item a factor of each group (a group that is not
  named has none).

Every factor also has the attribute `BIAS`, so that labels and label pairs have weights without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from mrflearn.errors import DataError, GraphError
from mrflearn.features.features import CompiledFeatures, Numbering, compile_features, compile_labels
from mrflearn.features.index import FactorTemplate
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup, disjoint_union
from mrflearn.graph.parts import connected_parts
from mrflearn.models.field_batch import FieldBatch

BIAS = "bias"
NODE, EDGE = "node", "edge"


@dataclass(frozen=True, eq=False)
class GraphExample:
    """A graph, the items of its factors group by group, and the names of its variables."""

    graph: FactorGraph
    items: tuple[Sequence[Any], ...]
    nodes: tuple[Any, ...] | None  # None: variables are known by their numbers
    directed: bool

    def named(self, answers: Any) -> Any:
        """What was found for its variables: by node, or as the list or array it is."""
        return answers if self.nodes is None else dict(zip(self.nodes, answers, strict=True))


@dataclass(frozen=True, eq=False)
class Graphs:
    """Examples of one kind: all directed, or all undirected, or all factor graphs."""

    examples: tuple[GraphExample, ...]

    @classmethod
    def of(cls, X: Iterable[Any]) -> Graphs:
        """What the user gave, read example by example."""
        examples = tuple(_example(given, number) for number, given in enumerate(X))
        if not examples:
            raise DataError("X is empty: there is no graph to learn from or to answer for.")
        for number, own in enumerate(examples):
            if own.directed != examples[0].directed or (own.nodes is None) != (
                examples[0].nodes is None
            ):
                raise DataError(f"example {number} is of another kind of graph than example 0.")
        return cls(examples)

    @property
    def mirrored(self) -> bool:
        """Whether edges have no sense, so that their weights must not depend on one."""
        return self.examples[0].nodes is not None and not self.examples[0].directed

    def batch(
        self,
        names: Numbering,
        y: Iterable[Any] | None = None,
        templates: Sequence[FactorTemplate] | None = None,
        *,
        connected: bool = False,
    ) -> FieldBatch:
        """All graphs as one, with the labels that are known; templates tell known attributes.

        New labels get numbers unless the names are closed; with `connected`, a graph in parts is a
        `GraphError`.
        """
        known = None
        if y is not None:
            lengths = torch.tensor([own.graph.variables for own in self.examples])
            known = compile_labels(self.ordered(y), lengths, names)
        if not names:
            raise DataError("y names no label at all; there is nothing to learn from.")
        graphs = []
        for number, own in enumerate(self.examples):
            states = torch.full_like(own.graph.states, len(names))
            try:
                graphs.append(replace(own.graph, states=states))
            except GraphError as error:
                raise GraphError(f"example {number}: {error}") from None
        union = disjoint_union(graphs)
        groups = tuple(replace(group, table=torch.arange(len(group))) for group in union.groups)
        features = tuple(
            _features([own.items[k] for own in self.examples], templates, k)
            for k in range(len(groups))
        )
        graph = replace(union, groups=groups)
        if connected:
            self._insist_on_connection(graph)
        if known is None:
            return FieldBatch(graph, features, torch.zeros(graph.variables).long()).unlabelled()
        return FieldBatch(graph, features, known.states, known.uncertain, known.allowed)

    def _insist_on_connection(self, graph: FactorGraph) -> None:
        """Raises `GraphError` for the first example in the batch's graph that is in parts."""
        part = connected_parts(graph)
        pairs = torch.stack([graph.component, part], dim=1).unique(dim=0)
        found = torch.bincount(pairs[:, 0], minlength=graph.components)
        if bool((found > 1).any()):
            number = int((found > 1).int().argmax())
            inside = part[graph.component == number]
            raise GraphError(_in_parts(self.examples[number], number, inside - inside.min()))

    def ordered(self, y: Iterable[Any]) -> list[list[Any]]:
        """The labels of each example in the order of its variables."""
        given = list(y)
        if len(given) != len(self.examples):
            raise DataError(f"X has {len(self.examples)} graphs and y has {len(given)}.")
        return [
            _in_order(labels, own, number)
            for number, (labels, own) in enumerate(zip(given, self.examples, strict=True))
        ]


def _example(given: Any, number: int) -> GraphExample:
    if hasattr(given, "nodes") and hasattr(given, "edges"):
        return _from_networkx(given, number)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], FactorGraph):
        return _from_factor_graph(*given, number)
    if isinstance(given, FactorGraph):
        return _from_factor_graph(given, {}, number)
    raise DataError(
        f"example {number} is a {type(given).__name__}; an example is a networkx graph or a pair "
        "(FactorGraph, {group: items})."
    )


def _from_networkx(graph: Any, number: int) -> GraphExample:
    if graph.is_multigraph():
        raise GraphError(f"example {number} has parallel edges. Try networkx.Graph(graph).")
    nodes = tuple(graph.nodes)
    place = {node: k for k, node in enumerate(nodes)}
    edges = [(a, b) for a, b in graph.edges if a != b]
    if len(edges) < graph.number_of_edges():
        loop = next(a for a, b in graph.edges if a == b)
        raise GraphError(f"example {number}: node {loop!r} is joined to itself.")
    scope = torch.tensor([(place[a], place[b]) for a, b in edges], dtype=torch.int64)
    groups = (
        FactorGroup(NODE, torch.arange(len(nodes)).unsqueeze(1)),
        FactorGroup(EDGE, scope.reshape(-1, 2)),
    )
    items = (
        [graph.nodes[node].get("features", ()) for node in nodes],
        [graph.edges[edge].get("features", ()) for edge in edges],
    )
    states = torch.ones(len(nodes), dtype=torch.int64)
    return GraphExample(FactorGraph(states, groups), items, nodes, bool(graph.is_directed()))


def _from_factor_graph(
    graph: FactorGraph, items: Mapping[str, Sequence[Any]], number: int
) -> GraphExample:
    names = [group.name for group in graph.groups]
    unknown = sorted(set(items).difference(names))
    if unknown:
        raise DataError(f"example {number} has items for '{unknown[0]}'; its groups are {names}.")
    found = []
    for group in graph.groups:
        own = items.get(group.name, [()] * len(group))
        if len(own) != len(group):
            raise DataError(
                f"example {number}: group '{group.name}' has {len(group)} factors and "
                f"{len(own)} items."
            )
        found.append(own)
    if graph.components > 1:
        raise DataError(f"example {number} is a batch of {graph.components}; hand over each alone.")
    return GraphExample(graph, tuple(found), None, True)


def _features(
    items: list[Sequence[Any]], templates: Sequence[FactorTemplate] | None, index: int
) -> CompiledFeatures:
    rows = [[_with_bias(item) for item in own] for own in items]
    if templates is None:
        return compile_features(rows)
    return compile_features(rows, templates[index].names, templates[index].columns)


def _with_bias(item: Any) -> Any:
    if isinstance(item, Mapping):
        return {BIAS: 1.0, **item}
    if isinstance(item, list | tuple | set | frozenset):
        return [BIAS, *item]
    return {BIAS: 1.0, "": item}


def _in_order(labels: Any, own: GraphExample, number: int) -> list[Any]:
    if isinstance(labels, Mapping):
        if own.nodes is None:
            raise DataError(f"example {number}: labels of a factor graph are a list.")
        strange = [node for node in labels if node not in set(own.nodes)]
        if strange:
            raise DataError(f"example {number}: there is no node {strange[0]!r} to label.")
        return [labels.get(node) for node in own.nodes]
    return list(labels)


def _in_parts(own: GraphExample, number: int, part: Int64[Tensor, " v"]) -> str:
    """What to say of an example whose variables are in these parts."""
    sizes = torch.bincount(part)
    more = ", ..." if len(sizes) > 5 else ""
    shown = ", ".join(str(size) for size in sizes[:5].tolist()) + more
    names = own.nodes or tuple(range(len(part)))
    first, second = (names[int((part == k).int().argmax())] for k in (0, 1))
    return (
        f"example {number} is not connected: it is in {len(sizes)} parts, of {shown} nodes; no "
        f"path leads from {first!r} to {second!r}. Is an edge missing, or a node spelt in two "
        "ways? Parts can be handed over as examples of their own; or take connected=False, and "
        "they are learned and labelled side by side."
    )


def _mirrored(cell: Int64[Tensor, " n"], template: FactorTemplate) -> Int64[Tensor, " n"]:
    """The cells of the same pairs of labels the other way round."""
    first, second = torch.unravel_index(cell, template.shape)
    return second * template.shape[0] + first


def mirrored_tie(templates: Sequence[FactorTemplate]) -> Tensor:
    """For every weight of all templates the number of the free weight that it is.

    Weights of edges are the same for (a, b) and (b, a); all others are free.
    """
    numbers, begin = [], 0
    for own in templates:
        cell = torch.cat([own.cell, torch.arange(own.cells).repeat(len(own.columns))])
        dense = len(own.names) + torch.arange(len(own.columns)).repeat_interleave(own.cells)
        if own.name == EDGE:
            cell = torch.minimum(cell, _mirrored(cell, own))
        code = torch.cat([own.attribute, dense]) * own.cells + cell
        free, number = torch.unique(code, return_inverse=True)
        numbers.append(number + begin)
        begin += len(free)
    return torch.cat(numbers)


def mirrored_templates(templates: Sequence[FactorTemplate]) -> tuple[FactorTemplate, ...]:
    """The same templates; a pair of labels of an edge has a weight wherever its mirror has one."""
    found = []
    for own in templates:
        if own.name == EDGE:
            both = torch.cat([own.cell, _mirrored(own.cell, own)])
            code = (own.attribute.repeat(2) * own.cells + both).unique()
            own = replace(own, attribute=code // own.cells, cell=code % own.cells)
        found.append(own)
    return tuple(found)

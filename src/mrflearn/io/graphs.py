"""Labelled graphs, one a line of JSON, in the node-link layout of networkx.

    {"directed": false,
     "nodes": [{"id": "a", "features": ["tall"], "label": "left"}, {"id": "b"}],
     "edges": [{"source": "a", "target": "b", "features": {"near": 0.5}}]}

`json.dumps(networkx.node_link_data(graph, edges="edges"))` is such a line.  Features are a list of
names, or names with values; a label may be missing (null), or a list: any of these.  What else
nodes and edges have is not read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mrflearn.errors import DataError
from mrflearn.io.files import Lines, PathLike, to_record, write_text

Features = list[str] | dict[str, float | str]
Label = str | frozenset[str] | None


@dataclass(frozen=True)
class LabelledGraph:
    """Nodes with their features and labels, and edges (two nodes) with their features."""

    directed: bool
    nodes: dict[str | int, Features]
    labels: dict[str | int, Label]
    edges: dict[tuple[str | int, str | int], Features]

    def networkx(self) -> Any:
        """The same as a networkx graph, as `GraphCRF` takes them."""
        import networkx as nx

        graph = nx.DiGraph() if self.directed else nx.Graph()
        graph.add_nodes_from((node, {"features": own}) for node, own in self.nodes.items())
        graph.add_edges_from((*ends, {"features": own}) for ends, own in self.edges.items())
        return graph


def read_graphs(path: PathLike) -> Iterator[LabelledGraph]:
    """The graphs of a file, one at a time."""
    with Lines(path) as lines:
        for line in filter(str.strip, lines):
            yield _graph(to_record(line))


def write_graphs(path: PathLike, graphs: Iterable[LabelledGraph]) -> None:
    """Writes one graph per line."""
    with write_text(path) as stream:
        for graph in graphs:
            stream.write(json.dumps(_record(graph), ensure_ascii=False) + "\n")


def _graph(record: Any) -> LabelledGraph:
    if not isinstance(record, dict) or not isinstance(record.get("nodes"), list):
        raise DataError('a graph is {"nodes": [...], "edges": [...]}, and this line is not.')
    directed, links = record.get("directed", False), record.get("edges", record.get("links", []))
    if not isinstance(directed, bool) or not isinstance(links, list):
        raise DataError('"directed" is true or false, and "edges" a list.')
    nodes: dict[str | int, Features] = {}
    labels: dict[str | int, Label] = {}
    for own in record["nodes"]:
        name = _name(own, "id")
        if name in nodes:
            raise DataError(f"there are two nodes {name!r}.")
        nodes[name], labels[name] = _features(own), _label(own)
    edges: dict[tuple[str | int, str | int], Features] = {}
    for own in links:
        ends = (_name(own, "source"), _name(own, "target"))
        for end in ends:
            if end not in nodes:
                raise DataError(f"an edge ends at {end!r}, which is no node.")
        if ends in edges or (not directed and ends[::-1] in edges):
            raise DataError(f"there are two edges between {ends[0]!r} and {ends[1]!r}.")
        edges[ends] = _features(own)
    return LabelledGraph(directed, nodes, labels, edges)


def _name(own: Any, key: str) -> str | int:
    name = own.get(key) if isinstance(own, dict) else None
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise DataError(f'each has an "{key}", a text or a whole number: {json.dumps(own)[:80]}')
    return name


def _features(own: dict[str, Any]) -> Features:
    given = own.get("features", [])
    if isinstance(given, list) and all(isinstance(name, str) for name in given):
        return given
    if isinstance(given, dict) and all(map(_is_value, given.values())):
        return given
    raise DataError(
        f"features are a list of names, or names with finite values: {json.dumps(given)[:80]}"
    )


def _is_value(given: Any) -> bool:
    try:
        return isinstance(given, str) or (
            isinstance(given, int | float) and math.isfinite(float(given))
        )
    except OverflowError:  # a whole number beyond all floats
        return False


def _label(own: dict[str, Any]) -> Label:
    given = own.get("label")
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, list) and given and all(isinstance(name, str) for name in given):
        return frozenset(given)
    raise DataError(f"a label is a text, a list of texts, or null: {json.dumps(given)[:80]}")


def _record(graph: LabelledGraph) -> dict[str, Any]:
    nodes = []
    for name, features in graph.nodes.items():
        label = graph.labels.get(name)
        record = sorted(label) if isinstance(label, frozenset) else label
        nodes.append({"id": name, "features": features, "label": record})
    edges = [
        {"source": first, "target": second, "features": features}
        for (first, second), features in graph.edges.items()
    ]
    return {"directed": graph.directed, "nodes": nodes, "edges": edges}

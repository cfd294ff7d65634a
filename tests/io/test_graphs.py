"""Labelled graphs as lines of JSON, as networkx writes them."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest

from mrflearn.errors import DataError
from mrflearn.io.graphs import LabelledGraph, read_graphs, write_graphs


def wheel(directed: bool) -> nx.Graph:
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_node("hub", features={"size": 2.0}, label="h")
    for k in range(3):
        graph.add_node(k, features=["rim"], label="r", colour="red")
        graph.add_edge("hub", k, features=[f"spoke{k}"], weight=3)
    return graph


@pytest.mark.parametrize("key", ["edges", "links"])
@pytest.mark.parametrize("directed", [False, True])
def test_what_networkx_writes_is_read(directed: bool, key: str, tmp_path: Path) -> None:
    graph = wheel(directed)
    path = tmp_path / "graphs.jsonl"
    path.write_text(json.dumps(nx.node_link_data(graph, edges=key)) + "\n\n")
    (read,) = read_graphs(path)
    assert read.labels == dict(graph.nodes(data="label"))
    own = read.networkx()
    assert own.is_directed() == directed
    assert list(own.nodes(data="features")) == list(graph.nodes(data="features"))
    assert list(own.edges(data="features")) == list(graph.edges(data="features"))


def test_labels_may_be_unknown_or_several(tmp_path: Path) -> None:
    graph = LabelledGraph(False, {"a": [], "b": []}, {"a": None, "b": frozenset("xy")}, {})
    write_graphs(tmp_path / "g.jsonl", [graph, graph])
    assert list(read_graphs(tmp_path / "g.jsonl")) == [graph, graph]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nodes", "not JSON"),
        ('{"nodes": [', "not JSON"),
        ("[1]", "a graph is"),
        ('{"nodes": {}}', "a graph is"),
        ('{"nodes": [], "directed": "no"}', '"directed" is true or false'),
        ('{"nodes": [{"name": 1}]}', 'each has an "id"'),
        ('{"nodes": [{"id": 1.5}]}', 'each has an "id"'),
        ('{"nodes": [1]}', 'each has an "id"'),
        ('{"nodes": [{"id": 1}, {"id": 1}]}', "two nodes 1"),
        ('{"nodes": [{"id": 1}], "edges": [{"source": 1, "target": 2}]}', "which is no node"),
        ('{"nodes": [{"id": 1}], "edges": [{"source": 1}]}', 'each has an "target"'),
        ('{"nodes": [{"id": 1, "features": [3]}]}', "a list of names"),
        ('{"nodes": [{"id": 1, "features": {"a": []}}]}', "names with finite values"),
        ('{"nodes": [{"id": 1, "label": 3}]}', "a label is a text"),
        ('{"nodes": [{"id": 1, "label": []}]}', "a label is a text"),
    ],
)
def test_mistakes_name_the_line(line: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    path.write_text('{"nodes": []}\n' + line + "\n")
    with pytest.raises(DataError, match=says) as told:
        list(read_graphs(path))
    assert str(told.value).startswith(f"{path}:2: ")


@pytest.mark.parametrize("directed", [False, True])
def test_only_directed_graphs_may_have_an_edge_both_ways(directed: bool, tmp_path: Path) -> None:
    told = {"directed": directed, "nodes": [{"id": 1}, {"id": 2}]}
    told["edges"] = [{"source": 1, "target": 2}, {"source": 2, "target": 1}]
    path = tmp_path / "g.jsonl"
    path.write_text(json.dumps(told))
    if directed:
        assert len(next(read_graphs(path)).edges) == 2
        return
    with pytest.raises(DataError, match="two edges between 2 and 1"):
        list(read_graphs(path))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400])
@pytest.mark.parametrize("part", ["nodes", "edges"])
def test_features_are_finite(part: str, value: str, tmp_path: Path) -> None:
    own = f'"features": {{"x": {value}}}'
    path = tmp_path / "graphs.jsonl"
    edge = '{"source": 1, "target": 2' + (f", {own}" if part == "edges" else "") + "}"
    node = '{"id": 1' + (f", {own}" if part == "nodes" else "") + "}"
    path.write_text('{"nodes": []}\n{"nodes": [' + node + ', {"id": 2}], "edges": [' + edge + "]}")
    with pytest.raises(DataError, match=r"graphs\.jsonl:2: .*finite"):
        list(read_graphs(path))

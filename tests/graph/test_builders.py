from __future__ import annotations

import networkx as nx
import pytest

from mrflearn.errors import DataError, GraphError
from mrflearn.graph.builders import from_edge_file, from_networkx, graph_from_text


def test_networkx_keeps_the_order_of_nodes_and_edges():
    source = nx.Graph()
    source.add_edge("c", "a")
    source.add_node("lonely")
    source.add_edge("a", "b")
    graph, names = from_networkx(source, states=3)
    assert names == ("c", "a", "lonely", "b")
    assert graph.states.tolist() == [3, 3, 3, 3]
    assert graph.groups[1].scope.tolist() == [[0, 1], [1, 3]]


def test_networkx_nodes_may_have_their_own_states():
    source = nx.path_graph(3)
    source.nodes[1]["states"] = 5
    graph, _ = from_networkx(source)
    assert graph.states.tolist() == [2, 5, 2]
    assert [group.name for group in graph.groups][-2:] == ["pairwise 2x5", "pairwise 5x2"]


def test_networkx_without_edges():
    graph, _ = from_networkx(nx.empty_graph(2), tied=True)
    assert len(graph.groups[1]) == 0


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiGraph])
def test_directed_and_multiple_edges_are_refused(kind):
    with pytest.raises(GraphError, match=r"Try networkx\.Graph"):
        from_networkx(kind([(0, 1)]))


def test_a_node_joined_to_itself_is_refused():
    with pytest.raises(GraphError, match="twice"):
        from_networkx(nx.Graph([(0, 0)]))


@pytest.mark.parametrize(
    ("text", "variables", "edges"),
    [
        ("grid:4x5", 20, 31),
        (" torus:3x3 ", 9, 18),
        ("cube:2x2x2", 8, 12),
        ("chimera:3,3,3", 54, 117),
        ("complete:5", 5, 10),
        ("chain:10", 10, 9),
    ],
)
def test_text_names_a_graph(text, variables, edges):
    graph = graph_from_text(text, states=3, variables=variables)
    assert (graph.variables, len(graph.groups[1])) == (variables, edges)
    assert graph.states.unique().tolist() == [3]


def test_complete_takes_its_size_from_the_data():
    assert graph_from_text("complete", variables=4).variables == 4


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ring:5", "no known kind. Write grid:ROWSxCOLUMNS"),
        ("", "no known kind"),
        ("grid:4", "takes 2 whole numbers, as in 'grid:4x4'"),
        ("grid:4x4x4", "takes 2 whole numbers"),
        ("grid:4xfour", "takes 2 whole numbers"),
        ("grid:-4x4", "takes 2 whole numbers"),
        ("grid:0x4", "at least 1"),
        ("chimera:3,3", "as in 'chimera:3,3,3'"),
        ("chain:", "takes 1 whole number,"),
        ("complete", "takes 1 whole number,"),
        ("edges:", "no known kind"),
        ("grid:99999999999x9", "more than 1,000,000,000 nodes"),
    ],
)
def test_bad_text_is_explained(text, complaint):
    with pytest.raises(GraphError, match=complaint):
        graph_from_text(text)


def test_text_must_agree_with_the_data():
    with pytest.raises(GraphError, match="16 variables, but the data have 15"):
        graph_from_text("grid:4x4", variables=15)


def test_edge_file(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("# a comment\n0 2\n\n2,1  # and another\n")
    assert graph_from_text(f"edges:{path}").groups[1].scope.tolist() == [[0, 2], [2, 1]]
    assert from_edge_file(path, variables=6).variables == 6


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("0 1\n1\n", ":2: an edge is two variable numbers"),
        ("0 x\n", ":1: an edge is two variable numbers"),
        ("0 1\n1 0\n", ":2: the edge 1 0 was named before"),
        ("3 3\n", ":1: variable 3 cannot be joined to itself"),
        ("", "there is no edge"),
        ("0 1\n1 99999999999999999999\n", ":2: names variable 9+; .* Is it an identifier"),
    ],
)
def test_bad_edge_files_name_the_line(tmp_path, content, complaint):
    path = tmp_path / "edges.txt"
    path.write_text(content)
    with pytest.raises(DataError, match=complaint):
        from_edge_file(path)


def test_edge_file_must_fit_the_data(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n1 4\n")
    with pytest.raises(DataError, match=r":2: names variable 4, but there are 4 \(0 to 3\)"):
        graph_from_text(f"edges:{path}", variables=4)


def test_missing_edge_file(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        from_edge_file(tmp_path / "absent.txt")


def test_a_file_may_not_call_for_variables_that_no_memory_holds(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("0 999999999\n")
    with pytest.raises(DataError, match=r"edges\.txt: .*variables"):
        from_edge_file(path)

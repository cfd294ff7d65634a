"""Pictures: what is drawn is what was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mrflearn import MarkovField
from mrflearn.describe import describe
from mrflearn.describe.blocks import Diagram, Table
from mrflearn.errors import SettingsError
from mrflearn.plots.fields import draw_graph, draw_heat_map, draw_moments


def test_a_heat_map_shows_the_matrix_around_zero_if_it_has_signs() -> None:
    matrix = np.array([[0.0, -2.0], [-2.0, 0.0]])
    axis = draw_heat_map(matrix, ["a", "b"]).axes[0]
    image = axis.images[0]
    np.testing.assert_array_equal(image.get_array(), matrix)
    assert image.get_clim() == (-2, 2)
    assert [text.get_text() for text in axis.get_xticklabels()] == ["a", "b"]
    assert draw_heat_map(abs(matrix)).axes[0].images[0].get_clim() == (0, 2)


def test_blue_is_below_zero_and_nothing_else() -> None:
    for signed, limits in ((None, (0, 2)), (False, (0, 2)), (True, (-2, 2))):
        figure = draw_heat_map([[0, 2], [2, 0]], signed=signed, axes=("label", "next label"))
        image = figure.axes[0].images[0]
        assert image.get_clim() == limits
        low, high = image.cmap(np.linspace(0.01, 1.0, 50))[:, [0, 2]][[0, -1]]  # red and blue
        assert (low[1] > low[0]) == bool(signed)
        assert high[1] <= high[0]
        assert figure.axes[0].get_xlabel() == "next label"
        assert figure.axes[1].get_ylabel() == "coupling"  # of the colour bar


def test_a_graph_shows_every_edge_and_name_the_strongest_on_top() -> None:
    edges = np.array([[0, 1], [1, 2]])
    figure = draw_graph(edges, np.array([-3.0, 1.0]), ["a", "b", "c"])
    (lines, _) = figure.axes[0].collections
    assert lines.get_array().tolist() == [1.0, -3.0]
    assert [text.get_text() for text in figure.axes[0].texts] == ["a", "b", "c"]


@pytest.mark.parametrize("count", [4, 10, 20, 40, 136])
def test_names_lie_inside_the_picture(count: int) -> None:
    names = [str(i) if count > 40 else f"an item of the survey {i}" for i in range(count)]
    figure = draw_graph([(i, i + 1) for i in range(count - 1)], [1.0] * (count - 1), names)
    figure.canvas.draw()
    inside = figure.bbox
    texts = figure.axes[0].texts
    assert len(texts) == count
    for text in texts:
        box = text.get_window_extent()
        assert inside.x0 <= box.x0 < box.x1 <= inside.x1, text
        assert inside.y0 <= box.y0 < box.y1 <= inside.y1, text


def test_lists_are_drawn_like_arrays() -> None:
    figure = draw_graph([(0, 1), (1, 2)], [-3, 1], ["a", "b", "c"])
    lines = figure.axes[0].collections[0]
    assert lines.get_array().tolist() == [1.0, -3.0]
    assert len(draw_graph([], [], ["a", "b"]).axes[0].collections[0].get_segments()) == 0
    assert draw_heat_map([[0, 2], [2, 0]]).axes[0].images[0].get_clim() == (0, 2)


@pytest.mark.parametrize(
    ("edges", "strengths", "named"),
    [
        ([(0, 2)], [1.0], r"edge \(0, 2\).* 2 names"),
        ([(0, -1)], [1.0], r"edge \(0, -1\)"),
        ([(0, 0.5)], [1.0], r"edge \(0, 0.5\)"),
        ([0, 1], [1.0], r"pairs of variables.*\(2,\)"),
        ([("a", "b")], [1.0], "pairs of numbers"),
        ([(0, 1)], [1.0, 2.0], "1 edges"),
        ([(0, 1)], ["strong"], "strong"),
    ],
)
def test_what_is_no_edge_is_named(edges: Any, strengths: Any, named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        draw_graph(edges, strengths, ["a", "b"])


def test_a_lattice_is_drawn_row_by_row() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (100, 6))
    shown = describe(MarkovField("grid:2x3").fit(rows)).learned(20)
    (network,) = (block for block in shown if isinstance(block, Diagram))
    nodes = network.figure().axes[0].collections[1]
    row_by_row = [[0, 0], [1, 0], [2, 0], [0, -1], [1, -1], [2, -1]]
    assert nodes.get_offsets().tolist() == row_by_row


def test_a_picture_says_how_many_edges_it_leaves_out() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (100, 6))
    for graph, drawn, says in (
        ("complete", 4, "The 4 strongest of 15 couplings"),
        ("grid:2x3", 7, "All 7 couplings"),  # each has its place
    ):
        shown = describe(MarkovField(graph).fit(rows)).learned(4)
        (network,) = (block for block in shown if isinstance(block, Diagram))
        (table,) = (block for block in shown if isinstance(block, Table))
        assert (len(network.edges), network.caption) == (drawn, f"{says}.")
        assert len(table.rows) == 4
        assert table.title.startswith("The 4 strongest of ")


def test_moments_have_a_panel_each() -> None:
    one = (np.array([0.1, 0.9]), np.array([0.2, 0.8]))
    figure = draw_moments({"states": one, "pairs": one})
    assert [axis.get_title() for axis in figure.axes] == ["states", "pairs"]
    np.testing.assert_array_equal(figure.axes[0].collections[0].get_offsets(), np.stack(one, 1))


def test_only_variables_with_edges_are_named_in_a_crowd() -> None:
    names = [str(i) for i in range(60)]
    figure = draw_graph(np.array([[3, 40]]), np.array([0.5]), names, signed=False)
    assert [text.get_text() for text in figure.axes[0].texts] == ["3", "40"]
    assert figure.axes[0].collections[0].get_clim() == (0, 0.5)
    both = draw_graph(np.array([[3, 40]]), np.array([0.5]), names)
    assert both.axes[0].collections[0].get_clim() == (-0.5, 0.5)


def test_a_crowded_heat_map_counts_from_where_it_is_told() -> None:
    image = draw_heat_map(np.eye(60), first=1).axes[0].images[0]
    assert image.get_extent() == [0.5, 60.5, 60.5, 0.5]

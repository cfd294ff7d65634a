"""Blocks as lines of a terminal, as one JSON object, and as a page."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from mrflearn.cli.output import say_json
from mrflearn.describe import blocks as b
from mrflearn.describe.blocks import WIDTH, add_blocks, as_text
from mrflearn.plots import Page


def test_values_are_written_as_people_read_them() -> None:
    values = {"share": b.Percent(0.5), "nats": b.Nats(-1.5), "many": 12345, "none": None}
    values |= {"yes": True, "odd": math.nan, "names": ["a", "b"], "sizes": {"x": 1, "y": None}}
    told = [line.split("  ", 1) for line in as_text([b.Facts(values)]).splitlines()]
    found = {name: value.strip() for name, value in told}
    assert found == {
        "share": "50.00 %",
        "nats": "-1.5 nats",
        "many": "12,345",
        "yes": "yes",
        "odd": "-",
        "names": "a, b",
        "sizes": "x=1",
    }


def test_long_lists_are_folded_and_tables_are_aligned() -> None:
    words = [f"word{k}" for k in range(60)]
    table = b.Table(("word", "p"), [("a", 0.5), ("long", -0.25)], floats="+.2f", title="Words")
    lines = as_text([b.Facts({"words": words, "n": 1}), table]).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[-4:] == ["Words:", "word      p", "a     +0.50", "long  -0.25"]
    assert lines[-5] == ""


def test_only_what_has_a_name_is_data(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("a", 1.0), ("b", math.inf)]
    parts = [
        b.Note("said apart"),
        b.Text("lines"),
        b.Facts({"size": 2}),
        b.Table(("x", "y"), rows, key="pairs"),
        b.Table(("x", "y"), rows, key="records", records=True),
        b.Table(("x", "y"), rows),
        b.Data({"deep": {"er": [math.nan]}}),
    ]
    say_json(b.answer(parts))
    assert json.loads(capsys.readouterr().out) == {
        "size": 2,
        "pairs": [["a", 1.0], ["b", None]],
        "records": [{"x": "a", "y": 1.0}, {"x": "b", "y": None}],
        "deep": {"er": [None]},
    }


def test_rows_with_spaces_in_cells_are_set_apart_by_tabs() -> None:
    marginals = [[{"X": 0.75, "Y": 0.25}]]
    assert b.Tokens([("New York",)], [["X"]], marginals).lines() == ["New York\tX\t0.7500", ""]
    assert b.Tokens([("York",)], [["X"]]).lines() == ["York X", ""]


@dataclass
class Leaf:
    """A tree of one word."""

    label: str = "NN"
    word: str = "dog"

    def __str__(self) -> str:
        return "(NN dog)"


def test_everything_has_a_place_on_a_page() -> None:
    page = Page("all")
    parts = [
        b.Text("1 < 2", title="Text"),
        b.Note("a note"),
        b.Table(("share",), [(b.Percent(0.5),)]),
        b.Table(("nothing",), [], title="Empty"),
        b.Tokens([("dog",)], [["NN"]]),
        b.TreeDrawing(Leaf()),
        b.Matrix(np.array([[0.0, 1.0]]), ("left", "right"), caption="seen"),
    ]
    add_blocks(page, parts)
    text = page.html()
    for part in ("1 &lt; 2", "a note", "50.00 %", "dog NN", "(NN dog)", "<img"):
        assert part in text
    assert "Empty" not in text
    assert b.TreeDrawing(Leaf()).shown()["tree"] == ["NN", "dog"]

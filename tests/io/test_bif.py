"""BIF and XMLBIF: what is read, and what is refused with its line.

Round trips, damage and gzip are in tests/contracts/test_every_reader.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.io import (
    UaiNetwork,
    convert_file,
    read_bif,
    read_network,
    read_xmlbif,
    write_bif,
    write_xmlbif,
)

HEAD = """network n { }
variable a { type discrete [ 2 ] { no, yes }; }
variable b { type discrete [ 3 ] { x, y, z }; }
probability ( b ) { table 0.2, 0.3, 0.5; }
"""


def read(tmp_path: Path, text: str) -> UaiNetwork:
    path = tmp_path / "n.bif"
    path.write_text(text)
    return read_bif(path)


def test_rows_and_runs_of_a_table_are_the_same(tmp_path: Path) -> None:
    rows = HEAD + "probability (a | b) { (y) .3, .7; (x) .1, .9; (z) .6, .4; }\n"
    run = HEAD + "probability (a | b) { table .1, .3, .6, .9, .7, .4; }\n"  # `a` slowest
    expected = [[0.1, 0.9], [0.3, 0.7], [0.6, 0.4]]
    for text in (rows, run):
        network = read(tmp_path, text)
        assert network.scopes == ((1, 0), (1,))
        assert network.tables[0].tolist() == expected
        assert (network.names, network.labels[1]) == (("a", "b"), ("x", "y", "z"))


@pytest.mark.parametrize(
    ("wrong", "line", "facts"),
    [
        ("variable a { }", 5, "'a'"),
        ("probability (a | c) { table 1 0; }", 5, "'c'"),
        ("probability (a | b) {\n (x) .1, .9;\n (q) .1, .9; }", 7, "'q'"),
        ("probability (a | b) {\n (x) .1, .9;\n}", 7, "2 rows"),
        ("probability (a | b) {\n (x) .1, .9, 0;\n}", 6, "2 probabilities"),
        ("probability (a | b) { default .1, .8; }", 5, "'a'"),
        ("probability (a) { table nan, 1; }", 5, "'nan'"),
        ("probability (a) { table 1_0, 1; }", 5, "'1_0'"),
        ("probability (b) { table .2, .3, .5; }", 5, "'b'"),
        ("utility u { }", 5, "'utility'"),
        ("probability (a", 5, "cut short"),
        ("", 4, "'a'"),
    ],
)
def test_mistakes_name_their_line(tmp_path: Path, wrong: str, line: int, facts: str) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, HEAD + wrong + "\n" * bool(wrong))
    assert str(caught.value).startswith(f"{tmp_path / 'n.bif'}:{line}: ")
    assert facts in str(caught.value)


def test_a_circle_is_refused(tmp_path: Path) -> None:
    head = HEAD.rpartition("probability")[0]
    one = "probability (a | b) { default .5, .5; }\n"
    with pytest.raises(DataError, match=r"a -> b|b -> a"):
        read(tmp_path, head + one + "probability (b | a) { default .2, .3, .5; }\n")


XML = """<BIF VERSION="0.3"><NETWORK>
<VARIABLE><NAME>a</NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME></VARIABLE>
<VARIABLE><NAME>b</NAME><OUTCOME>x</OUTCOME><OUTCOME>y</OUTCOME></VARIABLE>
<DEFINITION><FOR>b</FOR><TABLE>1 0</TABLE></DEFINITION>
{}
</NETWORK></BIF>
"""


def test_the_variable_itself_changes_fastest_in_xmlbif(tmp_path: Path) -> None:
    path = tmp_path / "n.xml"
    path.write_text(
        XML.format(
            "<DEFINITION><FOR>a</FOR><GIVEN>b</GIVEN><TABLE>.1 .9 .3 .7</TABLE></DEFINITION>"
        )
    )
    network = read_xmlbif(path)
    assert network.scopes[0] == (1, 0)
    assert network.tables[0].tolist() == [[0.1, 0.9], [0.3, 0.7]]


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        ("<DEFINITION><FOR>a</FOR><TABLE>1</TABLE></DEFINITION>", "2 probabilities"),
        ("<DEFINITION><FOR>c</FOR><TABLE>1 0</TABLE></DEFINITION>", "'c'"),
        ("<DEFINITION><FOR>a</FOR><TABLE>.3 .3</TABLE></DEFINITION>", "0.6"),
        ("<DEFINITION><FOR>a</FOR></DEFINITION>", "TABLE"),
        ("<VARIABLE><NAME>a</NAME><OUTCOME>t</OUTCOME></VARIABLE>", "'a'"),
        ("<DEFINITION>", "mismatched tag"),
        ('<VARIABLE TYPE="utility"/>', "utilities"),
    ],
)
def test_mistakes_in_xml_name_their_line(tmp_path: Path, wrong: str, facts: str) -> None:
    path = tmp_path / "n.xml"
    path.write_text(XML.format(wrong))
    with pytest.raises(DataError) as caught:
        read_xmlbif(path)
    assert str(caught.value).startswith((f"{path}:5: ", f"{path}:6: "))
    assert facts in str(caught.value)


def test_entities_of_a_file_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "n.xml"
    path.write_text('<!DOCTYPE BIF [<!ENTITY a "aaaa">]>\n<BIF><NETWORK/></BIF>')
    with pytest.raises(DataError, match="entit"):
        read_xmlbif(path)


@pytest.mark.parametrize("write", [write_bif, write_xmlbif])
def test_only_a_bayesian_network_can_be_written(
    tmp_path: Path, write: Callable[[Path, UaiNetwork], None]
) -> None:
    table = np.array([0.5, 0.5])
    with pytest.raises(DataError, match="UAI"):
        write(tmp_path / "n.bif", UaiNetwork("MARKOV", (2,), ((0,),), (table,)))
    with pytest.raises(DataError):
        write(tmp_path / "n.bif", UaiNetwork("BAYES", (2, 2), ((0,),), (table,)))
    assert not list(tmp_path.iterdir())


def test_uai_and_bif_become_each_other(tmp_path: Path) -> None:
    table = np.array([[0.25, 0.75], [0.5, 0.5]])
    network = UaiNetwork("BAYES", (2, 2), ((0,), (0, 1)), (table[0], table))
    write_bif(tmp_path / "n.bif", network)
    convert_file(tmp_path / "n.bif", tmp_path / "n.uai")
    assert read_network(tmp_path / "n.uai").tables[1].tolist() == table.tolist()
    assert read_bif(tmp_path / "n.bif").names == ("x0", "x1")

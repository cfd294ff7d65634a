"""UAI networks, evidence and results: round trips, both forms of evidence, complaints by line."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io.uai import (
    UaiNetwork,
    read_evidence,
    read_marginals,
    read_network,
    read_partition,
    write_evidence,
    write_marginals,
    write_network,
    write_partition,
)

SMALL = """MARKOV
3
2 2 3
3
1 0
2 0 1
2 1 2

2
 0.436 0.564

4
 0.128 0.872
 0.920 0.080

6
 0.210 0.333 0.457
 0.811 0.000 0.189
"""


def place(folder: Path, text: str, name: str = "file.uai") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_last_variable_of_a_scope_changes_fastest(tmp_path: Path) -> None:
    network = read_network(place(tmp_path, SMALL))
    assert network.kind == "MARKOV"
    assert network.states == (2, 2, 3)
    assert network.scopes == ((0,), (0, 1), (1, 2))
    assert network.tables[2].shape == (2, 3)
    assert network.tables[2][1, 0] == 0.811
    assert network.tables[2][0, 2] == 0.457


@st.composite
def networks(draw: st.DrawFn) -> UaiNetwork:
    states = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    variable = st.integers(0, len(states) - 1)
    scope = st.lists(variable, max_size=3, unique=True).map(tuple)
    scopes = tuple(draw(st.lists(scope, max_size=4)))
    figure = st.floats(0, allow_infinity=False, allow_nan=False)
    tables = []
    for scope in scopes:
        shape = [states[v] for v in scope]
        entries = draw(st.lists(figure, min_size=math.prod(shape), max_size=math.prod(shape)))
        tables.append(np.array(entries).reshape(shape))
    return UaiNetwork(draw(st.sampled_from(["MARKOV", "BAYES"])), states, scopes, tuple(tables))


@given(networks())
def test_networks_round_trip_without_loss(tmp_path_factory, network: UaiNetwork) -> None:
    path = tmp_path_factory.mktemp("uai") / "network.uai.gz"
    write_network(path, network)
    again = read_network(path)
    assert (again.kind, again.states, again.scopes) == (
        network.kind,
        network.states,
        network.scopes,
    )
    for before, after in zip(network.tables, again.tables, strict=True):
        np.testing.assert_array_equal(after, before)
        assert after.shape == before.shape


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "0 are left"),
        ("MARKET\n1\n2\n0\n", 1, "MARKOV or BAYES"),
        ("MARKOV\n999999999\n2 2\n", 3, "cut short"),
        ("MARKOV\n99999999999999\n2\n", 2, "at most"),
        ("MARKOV\n2\n2 0\n0\n", 3, "at least 1"),
        ("MARKOV\n2\n2 two\n0\n", 3, "'two'"),
        ("MARKOV\n1\n2\n99999999\n1 0\n2\n1 1\n", 4, "99999999 factors"),
        ("MARKOV\n1\n2\n1\n1 1\n2\n1 1\n", 5, "count from 1"),
        ("MARKOV\n2\n2 2\n1\n2 1 1\n4\n1 1 1 1\n", 5, "twice"),
        ("MARKOV\n1\n2\n1\n1 0\n3\n1 1 1\n", 6, "3 entries"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 -1\n", 7, "not negative"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1\nnan\n", 8, "not negative"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1\ninf\n", 8, "finite"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1\n1_0\n", 8, "not a number"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 1x\n", 7, "cannot read '1x'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1\n", 6, "1 figures are left"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 1\n\njunk here\n", 9, "2 more tokens"),
    ],
)
def test_complaints_name_the_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = place(tmp_path, text)
    with pytest.raises(DataError, match=words) as caught:
        read_network(path)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_absurd_tables_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    states = " ".join(["10"] * 12)
    scope = " ".join(map(str, range(12)))
    text = f"MARKOV\n12\n{states}\n1\n12 {scope}\n"
    with pytest.raises(DataError, match="3 figures are left"):
        read_network(place(tmp_path, f"{text}{10**12}\n1 1 1\n"))
    narrow = text.replace(states, " ".join(["5"] * 12))
    with pytest.raises(DataError, match="3 figures are left"):
        read_network(place(tmp_path, f"{narrow}{5**12}\n1 1 1\n"))


def test_scopes_wider_than_an_array_are_refused(tmp_path: Path) -> None:
    ones, scope = " ".join(["1"] * 70), " ".join(map(str, range(70)))
    with pytest.raises(DataError, match="axes"):
        read_network(place(tmp_path, f"MARKOV\n70\n{ones}\n1\n70 {scope}\n1\n1\n"))


def test_a_record_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(DataError, match="factor 0"):
        UaiNetwork("MARKOV", (2, 3), ((0, 1),), (np.ones((3, 2)),))
    with pytest.raises(DataError, match="1 scopes"):
        UaiNetwork("MARKOV", (2, 3), ((0, 1),), ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", {}),
        ("0\n", {}),
        ("2 0 1 3 0\n", {0: 1, 3: 0}),
        ("1 5 1\n", {5: 1}),
        ("1\n2 0 1 3 0\n", {0: 1, 3: 0}),  # the older form: one sample
        ("1\n1 5 1", {5: 1}),
        ("1\n0\n", {}),
    ],
)
def test_both_forms_of_evidence(tmp_path: Path, text: str, expected: dict[int, int]) -> None:
    assert read_evidence(place(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "0 are left"),
        ("2 0 1", "2 observations"),
        ("2\n1 0 1\n1 0 0\n", "several samples"),
        ("2 1 1 1 0", "observed twice"),
        ("1 -1 0", "at least 0"),
        ("1 7 0", "the network has 2"),
        ("1 1 3", "has 3 states"),
    ],
)
def test_complaints_on_evidence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_evidence(place(tmp_path, text), states=(2, 3))


@given(st.dictionaries(st.integers(0, 99), st.integers(0, 9)))
def test_evidence_round_trip(tmp_path_factory, evidence: dict[int, int]) -> None:
    path = tmp_path_factory.mktemp("uai") / "network.uai.evid"
    write_evidence(path, evidence)
    assert read_evidence(path) == evidence


@pytest.mark.parametrize("value", [0.0, -13.497318928473792, 1e300, -math.inf])
def test_partition_round_trip(tmp_path: Path, value: float) -> None:
    write_partition(tmp_path / "network.uai.PR", value)
    assert read_partition(tmp_path / "network.uai.PR") == value


@pytest.mark.parametrize("text", ["", "PR\n", "MAR\n1\n", "PR\nnan\n", "PR\ninf\n", "PR\n1 2\n"])
def test_complaints_on_partitions(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"file\.uai:\d: "):
        read_partition(place(tmp_path, text))


def test_marginals_round_trip(tmp_path: Path) -> None:
    marginals = (np.array([1 / 3, 2 / 3]), np.array([1.0]), np.array([0.1, 0.2, 0.7]))
    write_marginals(tmp_path / "network.uai.MAR", marginals)
    again = read_marginals(tmp_path / "network.uai.MAR")
    assert len(again) == 3
    for before, after in zip(marginals, again, strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("MAR\n2 2 0.5 0.5\n", "state count of variable 1"),
        ("MAR\n1 2 0.5 0.6\n", "sums to 1.1"),
        ("MAR\n1 2 -0.5 1.5\n", "not negative"),
        ("MAR\n999999999\n2 0.5 0.5\n", "state count of variable 1"),
        ("MAR\n1 999999999 0.5 0.5\n", "2 are left"),
        ("MAR\n1 1 1 1\n", "1 more token"),
    ],
)
def test_complaints_on_marginals(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_marginals(place(tmp_path, text))


def test_reading_takes_little_longer_than_the_figures_themselves(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    scopes = tuple((i, i + 1) for i in range(9_999))
    tables = tuple(generator.random((9_999, 10, 10)))
    path = tmp_path / "chain.uai"
    write_network(path, UaiNetwork("MARKOV", (10,) * 10_000, scopes, tables))
    start = time.process_time()
    assert len([float(word) for word in path.read_text().split()[1:]]) > 999_900
    plain, start = time.process_time() - start, time.process_time()
    assert len(read_network(path).tables) == 9_999
    assert time.process_time() - start < 30 * plain  # measured: 1.1


# name: (variables, factors, table entries, observed variables)
COUNTS = {
    "Alchemy_11": (440, 860, 4080, 0),
    "CSP_11": (82, 462, 3306, 0),
    "DBN_11": (40, 440, 1680, 0),
    "Grids_11": (100, 300, 1000, 0),
    "Grids_12": (100, 280, 920, 0),
    "Grids_15": (400, 1160, 3840, 0),
    "ObjectDetection_11": (60, 225, 20625, 0),
    "Pedigree_11": (385, 385, 3152, 37),
    "Promedus_11": (461, 461, 2594, 8),
    "Promedus_24": (200, 200, 1008, 4),
    "Segmentation_11": (228, 845, 2924, 0),
    "linkage_16": (402, 402, 5025, 0),
}


@pytest.mark.data
@pytest.mark.parametrize("name", COUNTS)
def test_the_competitions_networks(data_folder: Path, name: str) -> None:
    path = data_folder / "uai" / f"{name}.uai"
    network = read_network(path)
    evidence = read_evidence(f"{path}.evid", network.states)
    entries = sum(table.size for table in network.tables)
    counts = (len(network.states), len(network.scopes), entries, len(evidence))
    assert counts == COUNTS[name]
    marginals = read_marginals(f"{path}.MAR")
    assert tuple(map(len, marginals)) == network.states
    assert all(marginals[v][state] == 1 for v, state in evidence.items())
    assert math.isfinite(read_partition(f"{path}.PR"))

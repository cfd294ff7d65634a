"""What a fitted field answers, beside sums over all joint states; answers in the user's words."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mrflearn
from mrflearn import FieldStructure, MarkovField, PottsField
from mrflearn.errors import DataError, MrflearnError
from mrflearn.estimators import field_queries
from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import random_ising
from mrflearn.inference.sampling import Drawing
from mrflearn.io.answers import translated
from mrflearn.io.samples import SampleTable

GENERATOR = np.random.default_rng(0)
TIRED = GENERATOR.random(600) < 0.5
SLEEPS = np.where(GENERATOR.random(600) < 0.8, ~TIRED, TIRED)
NOISY = np.where(GENERATOR.random(600) < 0.7, TIRED, ~TIRED)
MOOD = np.where(GENERATOR.random(600) < 0.3, 2, np.where(NOISY, 0, 1))


class Frame:
    """As much of a data frame of pandas as is looked at; columns of any kind."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.data = {name: np.asarray(own) for name, own in columns.items()}
        self.columns = list(columns)

    def __array__(self, *_: object, **__: object) -> Any:
        return np.stack([own.astype(object) for own in self.data.values()], axis=1)

    def __len__(self) -> int:
        return len(next(iter(self.data.values())))

    def get_column(self, name: str) -> Any:
        own = self.data[name]
        return type("Column", (), {"to_numpy": lambda _: own})()


def answers(codes: dict[str, Any]) -> Frame:
    """One survey in several codings."""
    own = {"tired": TIRED, "sleeps": SLEEPS, "mood": MOOD}
    return Frame({name: np.array(codes[name], dtype=object)[own[name].astype(int)] for name in own})


WORDS = {"tired": ["no", "yes"], "sleeps": [False, True], "mood": ["flat", "good", "low"]}
NUMBERS = {"tired": [0, 1], "sleeps": [0, 1], "mood": [0, 1, 2]}
MIXED = {"tired": [1, 2], "sleeps": [-1, 1], "mood": [0, 1, 2]}


@pytest.mark.parametrize("estimator", ["ml", "pl", "lap", "consensus", "pw", "pmm"])
def test_any_coding_gives_the_same_field(estimator: str) -> None:
    plain = MarkovField(estimator=estimator).fit(answers(NUMBERS))
    worded = MarkovField(estimator=estimator).fit(answers(WORDS))
    np.testing.assert_array_equal(plain.strengths_, worded.strengths_)
    assert worded.variable_names_ == ["tired", "sleeps", "mood"]
    assert worded.labels_ == [("no", "yes"), (False, True), ("flat", "good", "low")]
    rows = worded.sample(20, random_state=1)
    assert set(rows[:, 0]) <= {"no", "yes"}
    np.testing.assert_array_equal(worded.encode(rows), plain.sample(20, random_state=1))


def test_labels_are_kept_in_files(tmp_path: Path) -> None:
    with pytest.warns(mrflearn.errors.DataWarning, match="1, 2"):
        field = MarkovField().fit(answers(MIXED))
    field.save(tmp_path / "m")
    back = mrflearn.load(tmp_path / "m")
    assert back.labels_ == [(1, 2), (-1, 1), (0, 1, 2)]
    np.testing.assert_array_equal(back.encode(back.sample(9)), field.encode(field.sample(9)))
    assert back.score(field.sample(9)) == field.score(field.sample(9))
    with pytest.raises(DataError, match="column 'tired': 3"):
        field.encode([[3, 1, 0]])
    structure = FieldStructure(required=[("tired", "mood")]).fit(answers(WORDS))
    assert ["tired", "mood"] in [list(edge) for edge in structure.to_networkx().edges]


def test_labels_are_found_however_they_are_written() -> None:
    own = np.array([0, 1, -1])
    assert translated(own, ("NO", "Yes"), ("no", "yes")).tolist() == [0, 1, -1]
    assert translated(own, (False, True), (0, 1)).tolist() == [0, 1, -1]
    assert translated(own, None, (False, True)).tolist() == [0, 1, -1]
    assert translated(own, ("TRUE", "FALSE"), (False, True)).tolist() == [1, 0, -1]
    assert translated(np.array([1, 2, 3]), None, ("1", "2")).tolist() == [0, 1, -2]
    assert translated(own, ("no", "No"), ("No", "no")).tolist() == [1, 0, -1]


def enumerated(field: Any, evidence: dict[int, int]) -> tuple[np.ndarray, np.ndarray, float]:
    """Marginals, the best joint state and the log-mass of all that agrees with the evidence."""
    sizes = field.potentials_.graph.states.tolist()
    states = np.array(
        [
            own
            for own in itertools.product(*map(range, sizes))
            if all(own[v] == s for v, s in evidence.items())
        ]
    )
    scores = field.potentials_.score(torch.as_tensor(states)).sum(-1)
    chances = scores.softmax(dim=0).numpy()
    table = np.zeros((len(sizes), max(sizes)))
    for variable in range(len(sizes)):
        np.add.at(table[variable], states[:, variable], chances)
    return table, states[scores.argmax()], float(scores.logsumexp(dim=0))


@pytest.mark.parametrize("listed", [0, 4096])
def test_answers_equal_enumeration(listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_queries, "LISTED", listed)
    field = MarkovField().fit(answers(WORDS))
    for evidence in ({}, {0: 1}, {0: 1, 2: 2}, {0: 0, 1: 1, 2: 0}):
        given = {field.variable_names_[v]: field.labels_[v][s] for v, s in evidence.items()}
        found, best = field.marginals(given), field.most_probable(given)
        table, mode, mass = enumerated(field, evidence)
        assert (found.kind, best.kind) == ("exact", "exact")
        for own, chances, labels in zip(
            found.probabilities.values(), table, field.labels_, strict=True
        ):
            assert own == pytest.approx(dict(zip(labels, chances, strict=False)))
        assert list(best.states.values()) == [field.labels_[v][s] for v, s in enumerate(mode)]
        assert found.log_evidence == pytest.approx(mass - enumerated(field, {})[2], abs=1e-9)
        row = np.array([[evidence.get(v, -1) for v in range(3)]])
        given_row = SampleTable(("tired", "sleeps", "mood"), row, labels=tuple(field.labels_))
        proper = field.predict_proba(given_row)
        if not evidence.keys() >= {0, 1, 2}:
            np.testing.assert_allclose(proper[0], table, atol=1e-9)
        for method, expected in (("joint", mode), ("marginal", table.argmax(axis=1))):
            rows = field.impute(given_row, method)
            assert field.encode(rows)[0].tolist() == list(expected)


def test_queries_of_a_lattice_equal_the_junction_tree() -> None:
    rows = Drawing()(random_ising(grid(5, 5), seed=1, scale=0.4), 400, seed=1).samples.numpy()
    field = MarkovField("grid:5x5", l2=0.1).fit(rows)
    many = rows[:40].astype(float)
    many[:, ::2] = np.nan  # 13 variables: more joint states than are listed
    many[:20, :6] = np.nan
    proper = field.predict_proba(many)
    for row, found in zip(many[::13], proper[::13], strict=True):
        seen = {v: int(s) for v, s in enumerate(row) if s == s}
        one = field.marginals(seen).probabilities
        table = np.array([list(own.values()) for own in one.values()])
        np.testing.assert_allclose(found, table, atol=1e-8)


def test_spins_and_temperatures() -> None:
    rows = 2 * Drawing()(random_ising(grid(2, 2), seed=1), 500, seed=1).samples.numpy() - 1
    field = MarkovField("grid:2x2").fit(rows)
    assert set(field.marginals({1: -1}).probabilities["0"]) == {-1, 1}
    hot = field.at_temperature(2.5)
    np.testing.assert_allclose(hot.couplings_, field.couplings_ / 2.5)
    states = np.array(list(itertools.product([-1, 1], repeat=4)))
    first, second = field.edges_.T
    scores = states @ field.fields_ + (states[:, first] * states[:, second]) @ field.couplings_
    expected = np.log(np.exp(scores / 2.5).sum())
    assert hot.log_partition().value == pytest.approx(expected)
    assert not hasattr(hot, "outcome_")
    with pytest.raises(MrflearnError, match="temperature"):
        field.at_temperature(0)
    family = PottsField(identity=None).fit(np.random.default_rng(0).integers(0, 3, (50, 3)))
    warmer = family.at_temperature(2)
    np.testing.assert_allclose(warmer.strengths_, family.strengths_ / 2, rtol=1e-5)


def test_questions_that_have_no_answer() -> None:
    field = MarkovField().fit(answers(WORDS))
    with pytest.raises(DataError, match="no column 'age'"):
        field.marginals({"age": 3})
    with pytest.raises(DataError, match="'maybe' is not a state of column 'tired'"):
        field.most_probable({"tired": "maybe"})
    with pytest.raises(DataError, match="evidence maps"):
        field.marginals(["tired"])  # type: ignore[arg-type]
    with pytest.raises(MrflearnError, match="method 'mean'"):
        field.impute([["yes", True, "low"]], method="mean")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a string or a number"):
        MarkovField().fit(np.array([[{}, 1], [0, 1]], dtype=object))


def test_a_learned_graph_names_its_structure(tmp_path: Path) -> None:
    rows = Drawing()(random_ising(grid(2, 3), seed=3), 2_000, seed=0).samples.numpy()
    found = FieldStructure().fit(rows)
    for graph in ("learn", FieldStructure()):
        field = MarkovField(graph).fit(rows)
        assert field.edges_.tolist() == found.edges_.tolist()
        field.save(tmp_path / "m", overwrite=True)
        assert mrflearn.load(tmp_path / "m").edges_.tolist() == found.edges_.tolist()
    with pytest.raises(MrflearnError, match="name the graph"):
        MarkovField("learn").fit_shards(["a.csv"])


def test_edges_known_before_and_stable_ones() -> None:
    rows = Drawing()(random_ising(grid(2, 3), seed=3), 2_000, seed=0).samples.numpy()
    free = FieldStructure().fit(rows)
    one = tuple(free.edges_[0].tolist())
    structure = FieldStructure(forbidden=[one], required=[(0, 5)]).fit(rows)
    edges = structure.edges_.tolist()
    assert [0, 5] in edges
    assert list(one) not in edges
    stable = FieldStructure(stability=0.9).fit(rows)
    assert stable.frequencies_ is not None
    assert (stable.frequencies_ >= 0.9).all()
    assert stable.to_networkx().number_of_edges() == len(stable.edges_)
    for settings in ({"required": [(0, 9)]}, {"forbidden": [(1, 1)]}, {"stability": 2.0}):
        with pytest.raises(MrflearnError):
            FieldStructure(**settings).fit(rows)  # type: ignore[arg-type]
    with pytest.raises(MrflearnError, match="both required and forbidden"):
        FieldStructure(required=[(0, 1)], forbidden=[(1, 0)]).fit(rows)

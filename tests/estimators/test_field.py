"""MarkovField learns what enumeration says it should, and survives a round trip to disk."""

from __future__ import annotations

import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.base import clone

import mrflearn
from mrflearn import FieldStructure, MarkovField, PottsField
from mrflearn.errors import (
    DataError,
    DataWarning,
    GraphError,
    MrflearnError,
    NotFittedError,
    StorageError,
)
from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import ising_parameters, random_ising
from mrflearn.inference.sampling import Drawing
from mrflearn.io import SampleTable
from support.brute_force import all_assignments, all_probabilities
from support.edited import edit


def expected_samples(side: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every assignment weighted by its true probability, and the true spin parameters."""
    field = random_ising(grid(side, side), seed=seed)
    rows, weights = all_assignments(field).numpy(), all_probabilities(field).numpy()
    known = ising_parameters(field)
    return rows, weights, np.concatenate([known.fields, known.couplings])


@pytest.mark.parametrize("estimator", ["ml", "pl"])
def test_infinite_data_give_the_true_parameters(estimator: str) -> None:
    rows, weights, truth = expected_samples(3)
    model = MarkovField("grid:3x3", estimator=estimator, tolerance=1e-12)
    model.fit(rows, sample_weight=weights)
    np.testing.assert_allclose(np.concatenate([model.fields_, model.couplings_]), truth, atol=1e-4)


def test_maximum_likelihood_matches_moments() -> None:
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 3, size=(200, 4))
    model = MarkovField("grid:2x2", estimator="ml", tolerance=1e-12).fit(rows)
    everything = all_assignments(model.potentials_)
    p = all_probabilities(model.potentials_)
    for i, j in model.edges_:
        for a in range(3):
            for b in range(3):
                seen = ((rows[:, i] == a) & (rows[:, j] == b)).mean()
                learned = float(p[(everything[:, i] == a) & (everything[:, j] == b)].sum())
                assert learned == pytest.approx(seen, abs=1e-5)


def test_scores_equal_enumeration() -> None:
    rows, weights, _ = expected_samples()
    model = MarkovField("grid:2x2", estimator="pl", l2=0.01).fit(rows, sample_weight=weights)
    p = all_probabilities(model.potentials_).numpy()
    np.testing.assert_allclose(model.score_samples(rows), np.log(p), rtol=1e-9)
    assert model.score(rows) == pytest.approx(np.log(p).mean())
    np.testing.assert_allclose(model.log_likelihood(rows, "ais"), np.log(p), atol=0.05)
    conditionals = np.zeros(len(rows))
    lookup = {tuple(row): q for row, q in zip(rows, p, strict=True)}
    for n, row in enumerate(rows):
        for v in range(4):
            flipped = tuple(1 - s if u == v else s for u, s in enumerate(row))
            conditionals[n] += np.log(lookup[tuple(row)] / (lookup[tuple(row)] + lookup[flipped]))
    np.testing.assert_allclose(model.log_likelihood(rows, "pl"), conditionals, rtol=1e-9)


def test_save_load_clone(tmp_path: Path) -> None:
    rows, weights, _ = expected_samples()
    model = MarkovField("grid:2x2", estimator="ml", l2=0.1).fit(rows, sample_weight=weights)
    model.save(tmp_path / "m")
    for back in (MarkovField.load(tmp_path / "m"), mrflearn.load(tmp_path / "m")):
        assert isinstance(back, MarkovField)
        assert back.l2 == 0.1
        np.testing.assert_array_equal(back.score_samples(rows), model.score_samples(rows))
        np.testing.assert_array_equal(
            back.sample(5, random_state=3), model.sample(5, random_state=3)
        )
    assert clone(model).get_params()["l2"] == 0.1


@pytest.mark.parametrize("graph", ["grid:2x2", [(0, 1), (0, 2), (1, 3), (2, 3)], grid(2, 2)])
def test_the_graph_that_was_given_stays_a_setting(graph: object, tmp_path: Path) -> None:
    rows, weights, _ = expected_samples()
    model = MarkovField(graph, states=2).fit(rows, sample_weight=weights)
    model.save(tmp_path / "m")
    back = MarkovField.load(tmp_path / "m")
    assert back.states == 2
    if isinstance(graph, str):
        assert back.graph == graph
    assert back.graph_.variables == 4
    again = clone(back).fit(rows, sample_weight=weights)
    np.testing.assert_array_equal(again.couplings_, model.couplings_)


@pytest.mark.parametrize("kind", [MarkovField, PottsField, FieldStructure])
def test_what_fit_has_set_survives(kind: type, tmp_path: Path) -> None:
    rows = SampleTable(("a", "b", "c"), np.random.default_rng(0).integers(1, 4, (50, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model = kind().fit(rows)
    model.save(tmp_path / "m")
    back = mrflearn.load(tmp_path / "m")
    assert {name for name in vars(back) if name.endswith("_")} == {
        name for name in vars(model) if name.endswith("_")
    }
    if kind is not FieldStructure:
        assert back.outcome_.figures() == model.outcome_.figures()
        assert back.outcome_.model is back.model_
    if kind is MarkovField:
        assert back.choice_ == model.choice_
        assert back.codes_ == model.codes_


def test_a_networkx_graph_and_a_factor_graph_mean_the_same() -> None:
    rows, weights, _ = expected_samples()
    square = nx.Graph()
    square.add_nodes_from(range(4))
    square.add_edges_from([(0, 1), (0, 2), (1, 3), (2, 3)])
    for graph in (square, grid(2, 2)):
        model = MarkovField(graph, estimator="ml").fit(rows, sample_weight=weights)
        other = MarkovField("grid:2x2", estimator="ml").fit(rows, sample_weight=weights)
        assert model.score(rows) == pytest.approx(other.score(rows), abs=1e-8)


def test_samples_follow_the_field() -> None:
    rows, weights, _ = expected_samples()
    model = MarkovField("grid:2x2", estimator="ml").fit(rows, sample_weight=weights)
    drawn = model.sample(20_000, random_state=5)
    frequency = np.array([(drawn == row).all(axis=1).mean() for row in rows])
    np.testing.assert_allclose(frequency, weights, atol=0.015)


def test_wide_graphs_are_sampled_by_gibbs_and_say_so() -> None:
    drawn = Drawing()(random_ising(grid(40, 40), scale=0.3), 3, seed=0)
    assert "burn-in" in drawn.method
    assert drawn.samples.shape == (3, 1600)


def test_mistakes_are_named(tmp_path: Path) -> None:
    rows = np.zeros((3, 4), dtype=int)
    with pytest.raises(NotFittedError, match="not fitted"):
        MarkovField("grid:2x2").score(rows)
    with pytest.raises(GraphError, match="9 variables, but the data have 4"):
        MarkovField("grid:3x3").fit(rows)
    with pytest.raises(MrflearnError, match="'lap2' is not one of"):
        MarkovField("grid:2x2", estimator="lap2").fit(rows)  # type: ignore[arg-type]
    with pytest.raises(MrflearnError, match="whole numbers"):
        MarkovField("grid:2x2").fit(rows + 0.5)
    with pytest.raises(DataError, match=r"row 0 .*, column 0: 7"):
        MarkovField("grid:2x2", states=2).fit(rows + 7)
    with pytest.raises(MrflearnError, match="sample_weight"):
        MarkovField("grid:2x2").fit(rows, sample_weight=[1, 2])
    model = MarkovField("grid:2x2", l2=1.0).fit(rows)
    model.save(tmp_path / "m")
    edit(tmp_path / "m", lambda text: text.replace('"MarkovField"', '"Teapot"'))
    with pytest.raises(StorageError, match="Teapot"):
        mrflearn.load(tmp_path / "m")


def test_float32_rows_of_whole_numbers_are_states() -> None:
    rows = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    model = MarkovField("complete", l2=0.1).fit(rows.numpy())
    assert model.n_features_in_ == 2


@pytest.mark.parametrize("states", [2, 3])
def test_strengths_stand_in_a_symmetric_matrix(states: int) -> None:
    rows = np.random.default_rng(0).integers(0, states, (60, 4))
    field = MarkovField("chain:4", estimator="pl", l2=0.1).fit(rows)
    matrix = field.strength_matrix_
    assert (matrix == matrix.T).all()
    assert np.count_nonzero(matrix) == 2 * len(field.edges_)
    parts = zip(field.edges_, field.couplings_, field.strengths_, strict=True)
    for (a, b), table, strength in parts:
        assert matrix[a, b] == strength
        assert abs(strength) == pytest.approx(np.sqrt((np.asarray(table) ** 2).sum()))


def test_spins_give_what_states_give_and_come_back_as_spins(tmp_path: Path) -> None:
    states = np.random.default_rng(1).integers(0, 2, (300, 4))
    by_states = MarkovField("grid:2x2", estimator="ml").fit(states)
    for spins in (2 * states - 1, 2.0 * states - 1):
        by_spins = MarkovField("grid:2x2", estimator="ml").fit(spins)
        np.testing.assert_array_equal(by_spins.couplings_, by_states.couplings_)
        np.testing.assert_allclose(by_spins.score(spins), by_states.score(states))
        np.testing.assert_allclose(by_spins.score(states), by_states.score(states))
    by_spins.save(tmp_path / "model")
    again = mrflearn.load(tmp_path / "model")
    drawn = again.sample(50, random_state=3)
    assert set(drawn.ravel().tolist()) == {-1, 1}
    np.testing.assert_array_equal((drawn + 1) // 2, by_states.sample(50, random_state=3))


def test_minus_one_beside_a_zero_is_missing() -> None:
    states = np.random.default_rng(2).integers(0, 2, (300, 4))
    states[0, 0] = -1
    model = MarkovField("grid:2x2", estimator="lap").fit(states)
    assert not model.spins_
    with pytest.raises(DataError, match="Missing"):
        model.score([[1, -1, 1, 1]])  # no spins were learned from


def test_pairs_of_columns_are_a_graph(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (60, 4))
    pairs = [(0, 1), (2, 1)]
    from_pairs = MarkovField(pairs, estimator="ml").fit(rows)
    joined = nx.empty_graph(4)
    joined.add_edges_from(pairs)
    expected = MarkovField(joined, estimator="ml").fit(rows)
    np.testing.assert_array_equal(from_pairs.edges_, expected.edges_)
    np.testing.assert_allclose(from_pairs.couplings_, expected.couplings_)
    assert clone(MarkovField(np.array(pairs))).fit(rows).edges_.shape == (2, 2)
    from_pairs.save(tmp_path / "model")
    again = mrflearn.load(tmp_path / "model")
    np.testing.assert_array_equal(again.edges_, from_pairs.edges_)
    assert len(repr(again)) < 200


@pytest.mark.parametrize(
    ("graph", "says"),
    [([(0, 9)], "column 9, but there are 4"), (5, "not this int"), ([(0, 1, 2)], "pairs of")],
)
def test_what_is_no_graph_is_told(graph: object, says: str) -> None:
    with pytest.raises(GraphError, match=says):
        MarkovField(graph).fit(np.zeros((5, 4), int))


def test_files_and_other_shapes_are_told_how_to_become_samples() -> None:
    with pytest.raises(MrflearnError, match=r"'rows\.csv'.*read_samples"):
        MarkovField().fit("rows.csv")
    with pytest.raises(DataError, match=r"the shape \(2, 2, 2\)"):
        MarkovField().fit(np.zeros((2, 2, 2), int))


def test_a_column_of_objects_may_hold_numbers() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (50, 3))
    mixed = rows.astype(object)
    expected = MarkovField(estimator="ml").fit(rows).couplings_
    np.testing.assert_array_equal(MarkovField(estimator="ml").fit(mixed).couplings_, expected)

"""Tables as people have them: codes from 1, columns of many kinds, missing values."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mrflearn
from mrflearn import FieldStructure, MarkovField, PottsField
from mrflearn.errors import DataError, DataWarning, MrflearnError, OutOfMemoryError
from mrflearn.estimators import field_training
from mrflearn.estimators.field_training import unseen_cells
from mrflearn.execution import resources
from mrflearn.graph.builders import complete, grid
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.gauges import random_ising
from mrflearn.graph.networks import from_uai
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.sampling import Drawing
from mrflearn.io.samples import SampleTable, write_samples
from mrflearn.io.uai import read_network
from mrflearn.models.tabular import parameter_count
from mrflearn.training import incomplete

ISING = Drawing()(random_ising(grid(2, 3), seed=3), 3_000, seed=0).samples.numpy()


class Frame:
    """As much of a data frame as estimators look at."""

    def __init__(self, values: Any, columns: list[str]) -> None:
        self.values, self.columns = values, columns

    def __array__(self, *_: object, **__: object) -> Any:
        return self.values


class NullableFrame(Frame):
    """A data frame of pandas' own whole numbers, whose missing value is no number."""

    def to_numpy(self, dtype: Any, na_value: float) -> Any:
        return np.where(self.values == "<NA>", na_value, self.values).astype(dtype)


def test_missing_values_of_whole_numbers_are_missing() -> None:
    values = ISING.astype(object)
    values[4, 2] = "<NA>"
    names = list("abcdef")
    model = MarkovField("grid:2x3", estimator="lap").fit(NullableFrame(values, names))
    holes = ISING.astype(float)
    holes[4, 2] = np.nan
    other = MarkovField("grid:2x3", estimator="lap").fit(holes)
    np.testing.assert_array_equal(model.couplings_, other.couplings_)
    assert model.variable_names_ == names


def with_holes(rows: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    holes = rows.astype(float)
    holes[np.random.default_rng(seed).random(rows.shape) < share] = np.nan
    return holes


@pytest.mark.parametrize("estimator", ["ml", "lap", "pl", "consensus"])
def test_items_coded_1_and_2_are_two_states(estimator: str, tmp_path: Path) -> None:
    plain = MarkovField("grid:2x3", estimator=estimator).fit(ISING)
    with pytest.warns(DataWarning, match="1, 2"):
        coded = MarkovField("grid:2x3", estimator=estimator).fit(ISING + 1)
    assert coded.couplings_.ndim == 1  # with a sign
    np.testing.assert_array_equal(coded.couplings_, plain.couplings_)
    coded.save(tmp_path / "m")
    for model in (coded, mrflearn.load(tmp_path / "m")):
        np.testing.assert_array_equal(
            model.sample(20, random_state=1), plain.sample(20, random_state=1) + 1
        )
        np.testing.assert_array_equal(model.score_samples(ISING + 1), plain.score_samples(ISING))
        with pytest.raises(DataError, match=r"row 0 .*, column 1: 0"):
            model.score([[1, 0, 1, 1, 2, 2]])


def test_columns_may_have_unequal_numbers_of_states(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = np.column_stack([generator.integers(low, 3, 900) for low in (1, 0, 0)])
    for estimator in ("lap", "ml", "pl"):
        with pytest.warns(DataWarning):
            model = MarkovField("complete", estimator=estimator).fit(rows)
        assert model.potentials_.graph.states.tolist() == [2, 3, 3]
        assert [table.shape for table in model.couplings_] == [(2, 3), (2, 3), (3, 3)]
        assert np.isfinite(model.strengths_).all()
        assert not model.signed_.any()
        assert model.outcome_.converged
    two = np.column_stack([rows[:, :2], 3 - rows[:, 0]])
    noise = generator.random(900) < 0.4
    two[noise, 2] = generator.integers(1, 3, noise.sum())
    with pytest.warns(DataWarning):
        model = MarkovField("complete", estimator="lap").fit(two)
    between = model.edges_.tolist().index([0, 2])
    assert model.signed_[between]
    assert model.strengths_[between] < 0
    assert [len(table) for table in model.fields_] == [2, 3, 2]
    model.save(tmp_path / "m")
    back = mrflearn.load(tmp_path / "m")
    np.testing.assert_array_equal(back.sample(9, random_state=0), model.sample(9, random_state=0))


def test_a_state_that_never_occurs_is_told_and_kept() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (200, 2)) * [1, 2]
    with pytest.warns(DataWarning, match="state 1 of column 'b' never occurs"):
        model = MarkovField(l2=0.1).fit(Frame(rows, ["a", "b"]))
    assert model.potentials_.graph.states.tolist() == [2, 3]


def test_sparse_codes_take_no_memory() -> None:
    with pytest.warns(DataWarning, match="1000000"):
        model = MarkovField(l2=0.1).fit([[0, 10**6], [1, 0]])
    assert set(model.sample(50, random_state=0)[:, 1].tolist()) == {0, 10**6}


def test_a_column_without_any_value_is_refused_by_name() -> None:
    rows = np.where(np.arange(3) == 1, np.nan, ISING[:, :3])
    for learner in (MarkovField(), FieldStructure()):
        with pytest.raises(DataError, match="column 'b'"):
            learner.fit(Frame(rows, ["a", "b", "c"]))
    with pytest.raises(DataError, match="column 0"):
        MarkovField().fit(np.full((5, 3), np.nan))
    some = ISING[:500, :3].astype(float)
    some[:7] = np.nan
    with pytest.warns(DataWarning, match="7 of 500 rows"):
        MarkovField("chain:3", estimator="lap").fit(some)


@pytest.mark.parametrize("estimator", ["ml", "pl", "consensus", "lap", "pw", "pmm"])
def test_every_estimator_learns_from_gaps(estimator: str) -> None:
    whole = MarkovField("grid:2x3", estimator=estimator).fit(ISING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of cliques that are counted pair by pair
        model = MarkovField("grid:2x3", estimator=estimator).fit(with_holes(ISING, 0.1))
    assert np.abs(model.couplings_ - whole.couplings_).max() < 0.15
    assert model.outcome_.converged


def test_likelihood_of_what_was_observed_is_at_its_maximum() -> None:
    """Expectation and maximisation by rows, and sums of probabilities over all joint states."""
    holes = with_holes(ISING[:400, :3], 0.2)
    holes = holes[~np.isnan(holes).all(axis=1)]
    model = MarkovField("complete", estimator="ml").fit(holes)
    states = np.array(list(itertools.product(range(2), repeat=3)))
    potentials = model.potentials_
    fits = (holes[:, None] == states) | np.isnan(holes)[:, None]
    agree = torch.as_tensor(fits.all(axis=2)).double()

    def value(shift: torch.Tensor) -> float:
        table = potentials.score(torch.as_tensor(states)).sum(-1) + shift
        return float((agree @ table.softmax(dim=0)).log().sum())

    best = value(torch.zeros(8))
    generator = torch.Generator().manual_seed(0)
    features = torch.as_tensor(
        np.column_stack(
            [states, *(states[:, a] * states[:, b] for a, b in ((0, 1), (0, 2), (1, 2)))]
        )
    ).double()
    for _ in range(20):
        step = features @ torch.randn(6, generator=generator, dtype=torch.float64)
        assert value(0.05 * step) < best
        assert abs(value(1e-4 * step) - value(-1e-4 * step)) / 2e-4 < 0.05  # the slope there


def test_completions_that_are_drawn_agree_with_those_that_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holes = with_holes(ISING, 0.1)
    listed = MarkovField("grid:2x3", estimator="pl").fit(holes)
    monkeypatch.setattr(incomplete, "LIMITS", (1,))
    with pytest.warns(DataWarning, match="drawn"):
        drawn, again = (MarkovField("grid:2x3", estimator="pl").fit(holes) for _ in range(2))
    np.testing.assert_allclose(drawn.couplings_, listed.couplings_, atol=0.03)
    np.testing.assert_array_equal(drawn.couplings_, again.couplings_)


def test_a_dense_graph_with_gaps_is_learned_by_default() -> None:
    generator = np.random.default_rng(0)
    rows = with_holes(generator.integers(0, 2, (150, 24)), 0.005)
    model = MarkovField(l2=0.1).fit(rows)
    assert model.choice_.estimator == "pl"
    with pytest.raises(MrflearnError, match="'pl'"):  # which accepts these rows
        MarkovField(estimator="lap").fit(rows)


def test_neighbours_that_are_never_seen_together_are_learned() -> None:
    rows = np.array([[0, 1, np.nan], [1, np.nan, 0], [np.nan, 0, 1]] * 20)
    model = MarkovField(estimator="pl", l2=0.1).fit(rows)
    assert (model.couplings_ < 0).all()


@pytest.mark.parametrize("share", [0.02, 0.15])
def test_edges_are_found_where_values_are_missing(share: float) -> None:
    generator = np.random.default_rng(1)
    rows = generator.integers(0, 2, (3_000, 6))
    for k in range(1, 6):  # a chain
        rows[:, k] = np.where(generator.random(3_000) < 0.7, rows[:, k - 1], rows[:, k])
    holes = with_holes(rows, share)
    with pytest.warns(DataWarning, match="of 3,000"):
        structure = FieldStructure(gamma=1.0).fit(holes)
    found = structure.edges_.tolist()
    assert all([k, k + 1] in found for k in range(5))
    assert len(found) <= 8  # of 15; the criterion adds one or two to complete rows too
    whole = (~np.isnan(holes).any(axis=1)).sum()
    assert structure.weights_.min() >= whole
    assert structure.weights_.max() > whole


def test_edges_of_coded_items_lead_on_to_a_field() -> None:
    with pytest.warns(DataWarning):
        structure = FieldStructure(l1_path=8).fit(ISING + 1)
    assert structure.edges_.tolist() == FieldStructure(l1_path=8).fit(ISING).edges_.tolist()
    with pytest.warns(DataWarning):
        model = MarkovField(structure.graph_, estimator="lap").fit(ISING + 1)
    plain = MarkovField(structure.graph_, estimator="lap").fit(ISING)
    np.testing.assert_array_equal(model.couplings_, plain.couplings_)


def test_a_constant_column_is_told_or_priced_under_consensus() -> None:
    rows = ISING.copy()
    rows[:, 1] = 1
    with pytest.warns(DataWarning, match="no row has column 1 = 0:"):
        MarkovField("grid:2x3", estimator="consensus").fit(rows)
    model = MarkovField("grid:2x3", estimator="consensus", l2=0.1).fit(rows)
    assert np.isfinite(model.couplings_).all()


def test_a_gap_among_spins_is_no_spin() -> None:
    spins = 2.0 * ISING - 1
    spins[::5, 0] = np.nan
    model = MarkovField("grid:2x3", estimator="lap").fit(spins)
    assert model.spins_
    holes = ISING.astype(float)
    holes[::5, 0] = np.nan
    same = MarkovField("grid:2x3", estimator="lap").fit(holes)
    np.testing.assert_allclose(model.couplings_, same.couplings_, atol=1e-9)


def spin_log_partition(model: MarkovField) -> float:
    """log of the sum over all spins of exp(h s + s J s), by enumeration."""
    spins = np.array(list(itertools.product([-1, 1], repeat=len(model.fields_))))
    pairs = spins[:, model.edges_[:, 0]] * spins[:, model.edges_[:, 1]]
    return float(np.logaddexp.reduce(spins @ model.fields_ + pairs @ model.couplings_))


def test_log_z_is_in_the_gauge_of_the_couplings(tmp_path: Path) -> None:
    model = MarkovField("grid:2x3", estimator="ml").fit(ISING)
    found, expected = model.log_partition(), spin_log_partition(model)
    assert (found.kind, found.standard_error) == ("exact", 0.0)
    assert float(found) == found.value == pytest.approx(expected, rel=1e-9)
    # The network that other programs read has another constant, and it is known.
    model.export(tmp_path / "m.uai")
    network = from_uai(read_network(tmp_path / "m.uai"))
    other = float(JunctionTree()(network).log_partition)
    assert other + model.gauge_constant_ == pytest.approx(expected, rel=1e-9)
    estimate = model.log_partition("ais")
    assert estimate.kind == "approximation"
    assert estimate.standard_error > 0
    with pytest.raises(MrflearnError, match="bp"):
        model.log_partition("bp")  # type: ignore[arg-type]


def test_memory_is_asked_for_before_it_is_taken() -> None:
    with pytest.raises(OutOfMemoryError, match="available"):
        MarkovField(states=10**6).fit([[0, 1], [1, 0]])
    with pytest.raises(OutOfMemoryError, match="available"):
        MarkovField("chain:2", states=10**9, estimator="ml").fit([[0, 1], [1, 0]])
    with pytest.raises(OutOfMemoryError, match="available"):
        PottsField(states=10**6).fit([[0, 1], [1, 0]])


def test_a_large_complete_graph_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_of_system", lambda: 10**9)
    with pytest.raises(OutOfMemoryError, match="parameters"):
        MarkovField().fit(np.zeros((2, 20_000), dtype=np.uint8))
    with pytest.raises(OutOfMemoryError, match="complete graph"):
        complete(20_000)


@pytest.mark.parametrize("estimator", ["lap", "ml"])
def test_files_of_coded_items_give_the_same_field(estimator: str, tmp_path: Path) -> None:
    paths = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for path, rows in zip(paths, np.array_split(ISING + 1, 2), strict=True):
        write_samples(path, SampleTable(None, rows))
    with pytest.warns(DataWarning, match="1, 2"):
        model = MarkovField("grid:2x3", estimator=estimator).fit_shards(paths)
    same = MarkovField("grid:2x3", estimator=estimator).fit(ISING)
    np.testing.assert_allclose(model.couplings_, same.couplings_, atol=1e-4)
    assert set(model.sample(50, random_state=0).ravel().tolist()) == {1, 2}
    (tmp_path / "two.csv").write_text("1,2,1,1,2,3\n")
    with pytest.warns(DataWarning), pytest.raises(DataError, match=r"two\.csv.*column 5: 3"):
        MarkovField("grid:2x3", estimator=estimator).fit_shards(paths)


@pytest.mark.parametrize(
    "model", [MarkovField("grid:2x3", estimator="lap"), PottsField()], ids=["field", "potts"]
)
def test_columns_of_an_answer_go_by_their_names(
    model: MarkovField | PottsField, tmp_path: Path
) -> None:
    names = tuple("abcdef")
    model.fit(SampleTable(names, ISING)).save(tmp_path / "m")
    order = [3, 0, 5, 1, 4, 2]
    moved = SampleTable(tuple(names[i] for i in order), ISING[:, order])
    for field in (model, mrflearn.load(tmp_path / "m")):
        expected = field.score_samples(ISING[:9])
        np.testing.assert_array_equal(field.score_samples(Frame(ISING[:9], list(names))), expected)
        np.testing.assert_array_equal(field.score_samples(moved)[:9], expected)
        with pytest.raises(DataError, match=r"'z' is not among .* 'c'"):
            field.score(Frame(ISING, list("abzdef")))
        with pytest.raises(DataError, match="'id' is not among"):
            field.score(Frame(np.hstack([ISING, ISING[:, :1]]), [*names, "id"]))
        # The numbers that pandas gives where it is given no names are none.
        np.testing.assert_array_equal(
            field.score_samples(Frame(ISING[:9], [*map(str, range(6))])), expected
        )


def test_columns_numbered_by_pandas_go_by_their_numbers() -> None:
    model = MarkovField("grid:2x3", estimator="lap").fit(Frame(ISING, [*map(str, range(6))]))
    backwards = Frame(ISING[:, ::-1], [*map(str, range(6))][::-1])
    assert model.score(backwards) == model.score(ISING)
    assert model.score(Frame(ISING, list("abcdef"))) == model.score(ISING)


@pytest.mark.parametrize("model", [MarkovField("grid:2x3"), PottsField()], ids=["field", "potts"])
def test_tables_that_cannot_be_written_to_are_taken_silently(model: Any) -> None:
    # As pandas has handed them out since version 3.
    rows, weights = ISING.copy(), np.ones(len(ISING))
    rows.setflags(write=False)
    weights.setflags(write=False)
    often = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(action="error"):
            model.fit(Frame(rows, list("abcdef")), sample_weight=weights).score(rows)
    finally:
        torch.set_warn_always(often)


def rare_item() -> Frame:
    """Five rows of 'rare', in all of which 'b' is 1; every other pair of states occurs."""
    rows = np.random.default_rng(0).integers(0, 2, (400, 3))
    rows[:, 2] = 0
    rows[:5, 1:] = 1
    rows[:2, 0] = 0, 1
    return Frame(rows, ["a", "b", "rare"])


@pytest.mark.parametrize("estimator", ["pl", "ml", "bp", "lap", "consensus", "pw"])
def test_an_estimate_that_is_infinite_is_told_by_every_estimator(estimator: Any) -> None:
    with pytest.warns(DataWarning, match="'b' = 0 and column 'rare' = 1: .*infinite") as told:
        field = MarkovField(estimator=estimator).fit(rare_item())
    assert len(told) == 1
    assert told[0].filename == __file__
    assert np.isfinite(field.couplings_).all()
    if estimator not in ("pw", "consensus"):
        bounded = MarkovField(estimator=estimator, l2=0.1).fit(rare_item())  # warns of nothing
        assert abs(bounded.couplings_).max() < 3 < abs(field.couplings_).max()


def test_states_are_named_as_the_samples_have_them() -> None:
    spins = np.array([[1, 1], [1, -1], [-1, -1]] * 9)
    with pytest.warns(DataWarning, match="no row has column 0 = -1 and column 1 = 1:"):
        MarkovField().fit(spins)
    with pytest.warns(DataWarning) as told:  # of the codes too
        MarkovField().fit(np.where(spins < 0, [10, 0], [20, 1]))
    assert "no row has column 0 = 10 and column 1 = 1:" in str(told[-1].message)
    with pytest.warns(DataWarning, match="no row has column 1 = 1:"):  # nor any pair with it
        MarkovField(states=2, l1=0.1, estimator="pl").fit([[0, 0], [1, 0]])


def test_cells_are_empty_only_where_a_parameter_says_so() -> None:
    edge = torch.tensor([[0, 1], [1, 2]])
    seen = torch.tensor([[[3, 0], [2, 1]], [[1, 1], [1, 0]]], dtype=torch.float64)
    states = torch.tensor([2, 2, 2])
    ones = torch.ones(3, 2, dtype=torch.float64)
    alone = FactorGroup("alone", torch.arange(3).unsqueeze(1))

    def found(*groups: FactorGroup) -> list[Any]:
        tables = [ones if group.arity == 1 else seen for group in groups]
        pairs = unseen_cells(FactorGraph(states, groups), tables)
        return [(scope.tolist(), cell.tolist()) for scope, cell in pairs]

    free = FactorGroup("free", edge)
    assert found(alone, free) == [([[0, 1], [1, 2]], [[0, 1], [1, 1]])]
    assert found(free) == [([[1, 2]], [[1, 1]])]  # a coupling by itself has one parameter
    assert found(alone, FactorGroup("tied", edge, torch.zeros(2, dtype=torch.int64))) == []


def test_rows_are_written_in_the_words_they_were_learned_from(tmp_path: Path) -> None:
    rows = np.array([["no", "low"], ["yes", "high"]] * 10, dtype=object)
    field = MarkovField(l2=0.1).fit(Frame(rows, ["sleep", "mood"]))
    field.write_rows(rows[:2], tmp_path / "new.csv")
    assert (tmp_path / "new.csv").read_text() == "sleep,mood\nno,low\nyes,high\n"
    with pytest.raises(DataError, match=r"\.fasta"):
        field.write_rows(rows[:2], tmp_path / "new.fasta")


def test_wide_columns_among_narrow_ones_take_few_evaluations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight items of five states, an age and a region, most of whose states are rare."""
    generator = np.random.default_rng(0)
    level = generator.normal(size=(300, 1))
    items = np.digitize(level + generator.normal(size=(300, 8)), [-1.5, -0.5, 0.5, 1.5])
    wide = np.minimum(generator.geometric(0.12, size=(300, 2)) + items[:, :2], 34)
    rows = np.column_stack([items, wide])
    calls: list[int] = []
    loss = field_training.one_hot_pseudolikelihood

    def counted(*given: Any) -> Any:
        calls.append(1)
        return loss(*given)

    monkeypatch.setattr(field_training, "one_hot_pseudolikelihood", counted)
    monkeypatch.setattr(incomplete, "MANY", 0)
    model = MarkovField(estimator="pl", l2=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of states that never occur
        model.fit(rows)
        assert parameter_count(model.graph_) > field_training.MOST_PARAMETERS
        assert model.outcome_.converged
        whole, strengths = len(calls), model.strengths_
        calls.clear()
        model.fit(with_holes(rows, 0.05))
    assert whole < 110  # 163 in the parameters themselves
    assert len(calls) < 400  # of twenty rounds
    assert np.corrcoef(model.strengths_, strengths)[0, 1] > 0.8

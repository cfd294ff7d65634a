from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import mrflearn
from mrflearn import FieldStructure, MarkovField
from mrflearn.errors import DataError, DataWarning, NotFittedError, SettingsError

GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.integers(0, 2, (400, 5))
ROWS[:, 4] = np.where(GENERATOR.random(400) < 0.9, ROWS[:, 1], ROWS[:, 4])


def test_the_one_edge_is_found_and_learned_on() -> None:
    structure = clone(FieldStructure(gamma=0.5)).fit(ROWS)
    assert structure.edges_.tolist() == [[1, 4]]
    field = MarkovField(structure.graph_, estimator="lap").fit(ROWS)
    assert field.couplings_[0] > 1


def test_counted_rows_are_the_same_as_all_rows() -> None:
    rows, counts = np.unique(ROWS, axis=0, return_counts=True)
    counted = FieldStructure().fit(rows, sample_weight=counts)
    assert counted.edges_.tolist() == FieldStructure().fit(ROWS).edges_.tolist()


def test_bad_input_is_told() -> None:
    with pytest.raises(NotFittedError):
        FieldStructure().graph_  # noqa: B018
    with pytest.raises(DataError, match="two variables"):
        FieldStructure().fit([[0], [1]])
    with pytest.raises(DataError, match="not a state"):
        FieldStructure(states=2).fit(ROWS + 1)


def test_it_comes_back_from_disk(tmp_path: Path) -> None:
    structure = FieldStructure(gamma=0.5).fit(ROWS)
    structure.save(tmp_path / "m")
    again = mrflearn.load(tmp_path / "m")
    assert isinstance(again, FieldStructure)
    assert again.edges_.tolist() == structure.edges_.tolist()
    assert again.states_ == structure.states_
    assert again.weights_.tolist() == structure.weights_.tolist()
    assert MarkovField(again.graph_).fit(ROWS).edges_.tolist() == [[1, 4]]


def test_missing_values_are_filled_by_the_seed() -> None:
    holes = np.where(GENERATOR.random(ROWS.shape) < 0.2, -1, ROWS)
    with pytest.warns(DataWarning, match="values are missing"):
        found = [FieldStructure(random_state=seed).fit(holes) for seed in (0, 0, 1)]
    assert found[0].edges_.tolist() == found[1].edges_.tolist()
    assert [1, 4] in found[2].edges_.tolist()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [({"gamma": -1.0}, "gamma"), ({"combine": "both"}, "'and' or 'or'"), ({"l1_path": 1}, ">= 2")],
)
def test_bad_settings_are_told(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        FieldStructure(**settings).fit(ROWS)

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from mrflearn import FieldStructure, MarkovField
from mrflearn.errors import DataError, NotFittedError

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

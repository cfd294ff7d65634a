"""The page shows samples as they were learned from: spins of a field of spins."""

from __future__ import annotations

import numpy as np
import pytest

from mrflearn import MarkovField, PottsField
from mrflearn.describe import tasks_of
from mrflearn.evaluation import bootstrap
from mrflearn.io import Alignment
from mrflearn.serving.examples import explained


@pytest.mark.parametrize(("lowest", "shown"), [(0, {0, 1}), (-1, {-1, 1})])
def test_samples_are_of_the_kind_that_was_learned_from(lowest: int, shown: set[int]) -> None:
    rows = np.random.default_rng(0).choice([lowest, 1], (200, 4))
    tasks = {task.name: task for task in tasks_of(MarkovField("grid:2x2").fit(rows))}
    _, cells = tasks["samples"]("", n=20)
    assert {value for row in cells.shown()["rows"] for value in row} == shown


def test_questions_about_the_states_of_some_variables() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (200, 4))
    rows[:, 1] = rows[:, 0]
    tasks = {task.name: task for task in tasks_of(MarkovField("grid:2x2", l2=0.1).fit(rows))}
    for state in "01":
        *_, table = tasks["best"](f"0={state}")
        assert table.rows[1] == ("1", state)
        *_, table = tasks["marginals"](f"0={state}")
        assert table.rows[0][0] == "0 (observed)"


def test_samples_of_a_family_are_letters_and_its_columns_counted_from_1() -> None:
    rows = np.random.default_rng(0).integers(0, 5, (50, 4)).astype(np.int8)
    field = PottsField().fit(Alignment("rna", None, rows))
    tasks = {task.name: task for task in tasks_of(field)}
    note, sequences = tasks["samples"]("", n=3)
    assert set(sequences.text.replace("\n", "")) <= set("-ACGU")
    assert note.text.startswith("drawn by: exact")
    assert tasks["contacts"]("", n=1)[0].names == list("1234")


def test_every_option_of_a_field_has_a_label() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (60, 3))
    field = MarkovField("chain:3", l2=1.0).fit(rows)
    field.keep_intervals(bootstrap(field, rows, 3))
    shown = {task.name: explained(task) for task in tasks_of(field)}
    assert "intervals" in shown
    for name, own in shown.items():
        assert set(own["options"]) <= set(own.get("labels", {})), name

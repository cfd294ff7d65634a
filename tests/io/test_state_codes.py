"""Codes of states: recoded where they are not counted from 0, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mrflearn.errors import DataError
from mrflearn.io.state_codes import StateCodes, gaps

TABLE = np.array([[1, 0, 5, 0, 1, 0], [2, 1, 2, 10, 1, 2], [-1, 1, -1, 20, 1, -1]])


def test_each_column_has_the_states_it_shows() -> None:
    codes = StateCodes.seen(TABLE)
    # 1/2 and 2/5 never show 0; 0, 10, 20 shows few of 21; a constant and 0/2 stay as they are.
    assert codes.codes == ((1, 2), None, (2, 5), (0, 10, 20), None, None)
    assert codes.sizes == (2, 2, 2, 3, 2, 3)
    assert codes.encode(TABLE)[:, [0, 2, 3]].tolist() == [[0, 1, 0], [1, 0, 1], [-1, -1, 2]]
    assert codes.recoded == [0, 2, 3]
    assert "item" in "".join(codes.remarks(["item", "b", "c", "d", "e", "f"]))


def test_a_code_that_was_never_seen_is_named() -> None:
    codes = StateCodes.seen(TABLE)
    row = TABLE[:1].copy()
    row[0, 2] = 3
    with pytest.raises(DataError, match=r"row 0 .*, column 2: 3 .*2, 5"):
        codes.encode(row)


def test_codes_are_kept_where_they_can_be_states() -> None:
    table = np.array([[1, 1], [2, 2]])
    assert StateCodes.fitting(table, [3, 2]).codes == (None, (1, 2))


def test_states_that_never_occur_are_found() -> None:
    found = gaps(TABLE)
    assert list(found) == [0, 2, 3, 5]
    assert (found[0], found[2], found[5]) == ([0], [0, 1, 3, 4], [1])
    assert found[3][:3] == [1, 2, 3]


@given(
    arrays(np.int64, st.tuples(st.integers(0, 6), st.integers(1, 4)), elements=st.integers(-1, 30))
)
def test_there_and_back(table: np.ndarray) -> None:
    codes = StateCodes.seen(table)
    states = codes.encode(table)
    assert (states < np.array(codes.sizes)).all()
    assert ((states < 0) == (table < 0)).all()
    np.testing.assert_array_equal(codes.decode(states), table)

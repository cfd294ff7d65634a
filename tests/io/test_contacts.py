from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.io.contacts import read_contacts, write_contacts


def test_a_matrix_comes_back_to_the_bit(tmp_path: Path) -> None:
    scores = np.random.default_rng(0).standard_normal((7, 7))
    write_contacts(tmp_path / "scores.mat", scores)
    assert (read_contacts(tmp_path / "scores.mat") == scores).all()


def test_lines_look_as_ccmpred_prints_them(tmp_path: Path) -> None:
    write_contacts(tmp_path / "m", np.array([[0.0, 0.5], [0.5, 0.0]]))
    first = (tmp_path / "m").read_text().splitlines()[0]
    assert first == "0.00000000000000000000e+00\t5.00000000000000000000e-01\t"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("1 2\n3\n", "m:2: 1 numbers"), ("1 x\n", "m:1: not a row"), ("1 2\n", "square"), ("", "sq")],
)
def test_what_is_no_matrix_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "m").write_text(text)
    with pytest.raises(DataError, match=complaint):
        read_contacts(tmp_path / "m")


def test_numbers_that_are_none_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="finite"):
        write_contacts(tmp_path / "m", np.full((2, 2), np.nan))
    assert not (tmp_path / "m").exists()

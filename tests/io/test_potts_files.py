"""Potts models in the files of plmc and CCMpred come back as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.io.potts_files import (
    CCMPRED,
    CouplingsFile,
    read_ccmpred,
    read_plmc,
    write_ccmpred,
    write_plmc,
)


def model(alphabet: str) -> CouplingsFile:
    random, size = np.random.default_rng(0), len(alphabet)
    fields, seen = random.normal(size=(3, size)), random.random((3, size))
    tables, pair_seen = random.normal(size=(3, size, size)), random.random((3, size, size))
    return CouplingsFile(alphabet, "ACD", (5, 6, 9), fields, tables, seen, pair_seen, 77.5)


def test_plmcs_file_comes_back(tmp_path: Path) -> None:
    ours, path = model("-ACD"), tmp_path / "x.model"
    write_plmc(path, ours)
    again = read_plmc(path)
    assert (again.alphabet, again.target, again.positions) == ("-ACD", "ACD", (5, 6, 9))
    assert again.effective == 77.5
    for name in ("fields", "couplings", "frequencies", "pair_frequencies"):
        np.testing.assert_allclose(getattr(again, name), getattr(ours, name), rtol=1e-6)
    # As EVcouplings reads it: five whole numbers, five floats, letters, no weights, the target.
    content = path.read_bytes()
    assert np.frombuffer(content, "<i4", 5).tolist() == [3, 4, 0, 0, 0]
    assert content[40:47] == b"-ACDACD"
    with_weights = content[:8] + np.array([2, 0], "<i4").tobytes() + content[16:44] + bytes(8)
    path.write_bytes(with_weights + content[44:])
    np.testing.assert_array_equal(read_plmc(path).couplings, again.couplings)


@pytest.mark.parametrize("alphabet", ["-ACDEFGHIKLMNPQRSTVWY", "ACDEFGHIKLMNPQRSTVWY"])
def test_ccmpreds_file_comes_back_relative_to_the_gap(alphabet: str, tmp_path: Path) -> None:
    ours = model(alphabet)
    write_ccmpred(tmp_path / "x.raw", ours)
    lines = (tmp_path / "x.raw").read_text().splitlines()
    assert (len(lines), len(lines[0].split()), lines[3]) == (3 + 3 * 22, 20, "# 0 1")
    again = read_ccmpred(tmp_path / "x.raw")
    order = [CCMPRED.index(letter) for letter in alphabet]
    np.testing.assert_allclose(again.couplings[:, order][:, :, order], ours.couplings, rtol=1e-8)
    gap = ours.fields[:, :1] if alphabet[0] == "-" else 0
    np.testing.assert_allclose(again.fields[:, order], ours.fields - gap, rtol=1e-6, atol=1e-9)


def test_damaged_files_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_plmc(path, model("-ACD"))
    content = path.read_bytes()
    for damaged in (content[:-4], content + b"1234", b"text" * 20, b""):
        path.write_bytes(damaged)
        with pytest.raises(DataError):
            read_plmc(path)
    write_ccmpred(path, model(CCMPRED))
    lines = path.read_text().splitlines()
    for broken in (lines[:-1], lines[:30], lines[1:], [*lines, lines[-1]], lines[:3]):
        path.write_text("\n".join(broken) + "\n")
        with pytest.raises(DataError):
            read_ccmpred(path)
    with pytest.raises(DataError, match="proteins"):
        write_ccmpred(path, model("-ACGU"))

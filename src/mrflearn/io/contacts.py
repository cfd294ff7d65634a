"""Square matrices of contact scores as CCMpred writes them: a row a line, tabs between."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.files import PathLike, read_lines, write_text

Matrix = NDArray[np.float64]


def write_contacts(path: PathLike, scores: Matrix) -> None:
    """Writes the matrix with the digits CCMpred prints, which lose nothing."""
    _check(scores, path)
    with write_text(path) as stream:
        for row in scores.tolist():
            stream.write("".join(f"{score:.20e}\t" for score in row) + "\n")


def read_contacts(path: PathLike) -> Matrix:
    """The matrix of a file of `write_contacts` or of CCMpred."""
    rows: list[list[float]] = []
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            row = [float(word) for word in line.split()]
        except ValueError as error:
            raise DataError(f"not a row of numbers ({error}).", path=path, line=number) from error
        if rows and len(row) != len(rows[0]):
            raise DataError(
                f"{len(row)} numbers, but the first row has {len(rows[0])}.", path=path, line=number
            )
        rows.append(row)
    scores = np.array(rows, dtype=np.float64)
    _check(scores, path)
    return scores


def _check(scores: Matrix, path: PathLike) -> None:
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or not len(scores):
        raise DataError(
            f"contact scores are a square matrix; this one has the shape {scores.shape}.", path=path
        )
    if not np.isfinite(scores).all():
        raise DataError("a contact score is not a finite number.", path=path)

"""Square matrices of contact scores as CCMpred writes them: a row a line, tabs between."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.files import Lines, PathLike, located, write_text

Matrix = NDArray[np.float64]


def write_contacts(path: PathLike, scores: Matrix) -> None:
    """Writes the matrix with the digits CCMpred prints, which lose nothing."""
    with write_text(path) as stream:
        for row in _checked(scores).tolist():
            stream.write("".join(f"{score:.20e}\t" for score in row) + "\n")


def read_contacts(path: PathLike) -> Matrix:
    """The matrix of a file of `write_contacts` or of CCMpred."""
    rows: list[list[float]] = []
    with Lines(path) as lines:
        for words in filter(None, map(str.split, lines)):
            try:
                rows.append([float(word) for word in words])
            except ValueError as error:
                raise DataError(f"not a row of numbers ({error}).") from error
            if len(rows[-1]) != len(rows[0]):
                raise DataError(f"{len(rows[-1])} numbers, but the first row has {len(rows[0])}.")
    with located(path):
        return _checked(np.array(rows, dtype=np.float64))


def _checked(scores: Matrix) -> Matrix:
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or not len(scores):
        raise DataError(f"contact scores must be a square matrix, not of shape {scores.shape}.")
    if not np.isfinite(scores).all():
        raise DataError("a contact score is not a finite number.")
    return scores

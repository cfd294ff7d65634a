"""Rows of a field as files: with the names and codes of its columns, or the letters of a family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.alignments import ALPHABETS, ENDINGS, Alignment, write_alignment
from mrflearn.io.files import PathLike, ending
from mrflearn.io.samples import SampleTable, write_samples

TABLES = (".csv", ".npy", ".dat", ".digits")  # files that hold the numbers of states


def row_writer(field: Any, path: PathLike) -> Callable[[NDArray[Any]], None]:
    """What writes rows to this file; `DataError` at once where its name stands for no format."""
    suffix, family = ending(path), field.molecule_ is not None
    known = (*TABLES, ".txt", *(ENDINGS if family else ()))
    if suffix and suffix not in known:
        problem = f"rows are not written as '{suffix}'; there are {', '.join(known)}."
        raise DataError(problem, path=path)

    def write(rows: NDArray[Any]) -> None:
        sequences = None if suffix in TABLES else alignment_of(field, rows)
        if sequences is None:
            write_samples(path, table_of(field, rows, header=suffix == ".csv"))
        else:
            names = tuple(f"sample-{i}" for i in range(1, len(rows) + 1))
            write_alignment(path, replace(sequences, names=names))

    return write


def alignment_of(field: Any, rows: NDArray[Any]) -> Alignment | None:
    """Rows of an alignment's field as sequences of letters; None for other fields."""
    molecule = field.molecule_
    if molecule is None or rows.max(initial=0) >= len(ALPHABETS[molecule]):
        return None
    return Alignment(molecule, None, rows.astype(np.int8))


def table_of(field: Any, rows: NDArray[Any], *, header: bool) -> SampleTable:
    """Rows with the names of the columns, where a `header` can hold them, and their codes."""
    spins, codes = field.spins_, field.codes_
    values, labels = (rows + 1) // 2 if spins else rows, None
    if codes is not None and (rows.dtype.kind != "i" or (rows < 0).any()):
        values, labels = field.encode(rows), None if spins else codes.codes
    names = tuple(getattr(field, "feature_names_in_", ()))
    named = header and names and not any(name.isdecimal() for name in names)
    return SampleTable(names if named else None, values, spins, labels=labels)

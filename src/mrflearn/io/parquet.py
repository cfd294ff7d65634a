"""Sample tables in parquet files, one variable a column; only whole numbers, null is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError, MissingExtraError
from mrflearn.io.files import PathLike
from mrflearn.io.sample_rows import (
    DOWN,
    LARGEST_STATE,
    MISSING,
    Chunk,
    Columns,
    Signs,
    choose,
    whole_numbers,
)


def parquet_chunks(path: PathLike, rows: int, columns: Columns | None) -> Iterator[Chunk]:
    """Names and values, at most `rows` rows at a time; at least one chunk comes."""
    with _open(path) as file:
        yield from _readable(_chunks(file, path, rows, columns), path)


def _readable(chunks: Iterator[Chunk], path: PathLike) -> Iterator[Chunk]:
    """The chunks; what pyarrow finds damaged on the way is a `DataError`."""
    from pyarrow import ArrowException

    while True:
        try:
            chunk = next(chunks, None)
        except DataError:
            raise
        except (ArrowException, LookupError, OSError, TypeError, ValueError) as error:
            raise DataError(f"not a readable parquet file: {error}.", path=path) from error
        if chunk is None:
            return
        yield chunk


def _chunks(file: Any, path: PathLike, rows: int, columns: Columns | None) -> Iterator[Chunk]:
    header = [str(name) for name in file.schema_arrow.names]
    picked = [header[i] for i in choose(columns, header, len(header), path, 1)]
    names, nothing = tuple(picked), np.zeros((0, len(picked)), dtype=np.int64)
    empty, signs = True, Signs(path)
    for batch in file.iter_batches(batch_size=rows, columns=picked):
        empty = False
        values = np.stack([_states(batch.column(name), name, path) for name in picked], axis=1)
        yield Chunk(names, signs.resolve(values), signs.down)
    if empty:
        yield Chunk(names, nothing)


def _open(path: PathLike) -> Any:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as missing:
        raise MissingExtraError("needs pyarrow: pip install 'mrflearn[parquet]'") from missing
    if not Path(path).exists():
        raise DataError("there is no such file.", path=path)
    try:
        return ParquetFile(path)
    except (ArrowException, LookupError, OSError, TypeError, ValueError) as error:
        raise DataError(f"not a readable parquet file: {error}.", path=path) from error


def _states(column: Any, name: str, path: PathLike) -> NDArray[np.int64]:
    kind = str(column.type)
    known = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    states: NDArray[np.int64] | None = None
    if kind.startswith(("int", "uint")) or kind == "bool":
        whole = column.cast("int64").fill_null(MISSING)
        states = np.array(whole.to_numpy(zero_copy_only=False), dtype=np.int64)
    elif kind in ("float", "double"):  # how pandas keeps whole numbers where some are missing
        figures = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
        known, states = known & ~np.isnan(figures), whole_numbers(figures)
    if states is None:
        raise DataError(
            f"column '{name}' holds {kind}; states are whole numbers. Pick other columns, or cast.",
            path=path,
        )
    if len(states) and not MISSING <= states.min() <= states.max() <= LARGEST_STATE:
        raise DataError(
            f"column '{name}' has values from {states.min()} to {states.max()}; states go from 0 "
            f"to {LARGEST_STATE}.",
            path=path,
        )
    states[known & (states == -1)] = DOWN
    return states

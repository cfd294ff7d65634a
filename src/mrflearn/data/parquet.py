"""Sample tables in parquet files, one variable a column; only whole numbers, null is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.data.files import PathLike
from mrflearn.data.sample_rows import MISSING, Chunk, Columns, choose
from mrflearn.errors import DataError, MissingExtraError


def parquet_chunks(path: PathLike, rows: int, columns: Columns | None) -> Iterator[Chunk]:
    """Names and values, at most `rows` rows at a time; at least one chunk comes."""
    file = _open(path)
    header = [str(name) for name in file.schema_arrow.names]
    picked = [header[i] for i in choose(columns, header, len(header), path, 1)]
    names, nothing = tuple(picked), np.zeros((0, len(picked)), dtype=np.int64)
    empty = True
    for batch in file.iter_batches(batch_size=rows, columns=picked):
        empty = False
        yield names, np.stack([_states(batch.column(name), name, path) for name in picked], axis=1)
    if empty:
        yield names, nothing


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
    except (ArrowException, OSError) as error:
        raise DataError(f"not a readable parquet file: {error}.", path=path) from error


def _states(column: Any, name: str, path: PathLike) -> NDArray[np.int64]:
    kind = str(column.type)
    if not (kind.startswith(("int", "uint")) or kind == "bool"):
        raise DataError(
            f"column '{name}' holds {kind}; states are whole numbers. Pick other columns, or cast.",
            path=path,
        )
    values = column.cast("int64").fill_null(MISSING)
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64)

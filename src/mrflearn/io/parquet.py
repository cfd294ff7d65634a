"""Parquet files as tables of answers: one variable a column; null is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from mrflearn.errors import DataError, MissingExtraError
from mrflearn.io.answers import DOWN, LARGEST_STATE, MISSING, Column, column_of, whole_numbers
from mrflearn.io.files import PathLike, plain, url_of
from mrflearn.io.remote import opened as opened_url

CHUNK_CELLS = 1 << 24  # of one batch of rows


def parquet_columns(
    path: PathLike, rows: int, pick: Callable[[Sequence[str], int], list[int]]
) -> Iterator[tuple[tuple[str, ...], list[Column]]]:
    """Names and answers of the columns that `pick` chooses, at most `rows` rows at a time.

    At least one batch comes.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as missing:
        raise MissingExtraError("needs pyarrow: pip install 'mrflearn[parquet]'") from missing
    try:
        with ExitStack() as opened:
            url = url_of(path)
            source = opened.enter_context(opened_url(url)) if url else plain(path)
            file = opened.enter_context(ParquetFile(source))
            header = [str(name) for name in file.schema_arrow.names]
            names = tuple(header[i] for i in pick(header, len(header)))
            if not names:
                raise DataError("there is no column in it.")
            rows, empty = max(1, min(rows, CHUNK_CELLS // max(1, len(names)))), True
            for batch in file.iter_batches(batch_size=rows, columns=list(names)):
                yield names, arrow_columns(batch.select(list(names)))
                empty = False
            if empty:
                yield names, [Column(np.zeros(0, dtype=np.int64), None) for _ in names]
    except DataError:
        raise
    except (ArrowException, LookupError, OSError, TypeError, ValueError) as error:
        raise DataError(f"not a readable parquet file: {error}.") from error


def arrow_columns(rows: Any) -> list[Column]:
    """The answers of a table of pyarrow, or of a batch of its rows."""
    return [_answers(rows.column(name), name) for name in rows.schema.names]


def _answers(column: Any, name: str) -> Column:
    kind = str(column.type)
    states = None
    if kind in ("string", "large_string", "bool") or kind.startswith("dictionary"):
        return column_of(np.array(column.to_pylist(), dtype=object), name)
    if kind.startswith(("int", "uint")) and not column.null_count and len(column):
        whole = column.to_numpy()
        low, high = int(whole.min()), int(whole.max())
        if low >= MISSING and high <= LARGEST_STATE:
            states = whole.astype(np.min_scalar_type(min(DOWN, -1 - high)))
            if low == MISSING:
                states[states == MISSING] = DOWN
            return Column(states, None)
    if kind in ("float", "double") or kind.startswith(("int", "uint")):
        # pandas keeps whole numbers as floats where some are missing.
        figures = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
        states = whole_numbers(figures)
    if states is None or states.min(initial=0) < MISSING:
        raise DataError(
            f"column '{name}' ({kind}) has values that are not states: whole numbers from 0 to "
            f"{LARGEST_STATE}, words or truth values. Pick other columns, or cast."
        )
    states[(states == -1) & (figures == -1)] = DOWN
    return Column(states.astype(np.int64), None)

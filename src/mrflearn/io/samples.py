"""Integer sample tables: one sample a row, one variable a column, states counted from 0.

Five formats: `csv` (commas or semicolons, header optional), `text` (the same with white space),
`digits` (one character a variable, nothing between), `npy` and `parquet` (read only).  A missing
value is -1 in the record and in npy files of whole numbers, NaN in those of floats, `NA` or an
empty cell in csv, `NA` in text, null in parquet; digits cannot hold one.  Spins, -1 and 1 all
through a file, are read as the states 0 and 1.
"""

from __future__ import annotations

import csv
import io
import math
import sys
import warnings
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError, MissingExtraError
from mrflearn.io.files import PathLike, read_bytes, read_lines, write_binary, write_text
from mrflearn.io.sample_rows import (
    DOWN,
    LARGEST_STATE,
    MISSING,
    Columns,
    SampleTable,
    Signs,
    cell_chunks,
    choose,
    digit_chunks,
    header_problem,
    range_problem,
    whole_numbers,
)

Format = Literal["auto", "csv", "text", "digits", "npy", "parquet"]
CHUNK_ROWS = 1 << 16
CHUNK_CHARACTERS = 1 << 23  # of the lines of one chunk: a row may have 100,000 variables
LARGEST_EMPTY = 1 << 20  # rows of no columns, or columns of no rows: a file of any size can say so


def read_samples(
    path: PathLike,
    format: Format = "auto",  # noqa: A002 - the word everybody tries first
    columns: Columns | None = None,
) -> SampleTable:
    """All samples of a file; `columns` picks some by name or by number from 0, in that order.

    `auto` goes by the file's name (.csv, .npy) and else by its first line.  Columns that are not
    picked may hold anything.
    """
    chosen = _by_name(path) if format == "auto" else format
    rows = sys.maxsize if chosen == "npy" else CHUNK_ROWS  # an array is in memory already
    chunks = list(read_sample_chunks(path, rows, format=chosen, columns=columns))
    if len(chunks) == 1:
        return chunks[0]
    values = np.concatenate([chunk.values for chunk in chunks])
    return SampleTable(chunks[0].names, values, any(chunk.spins for chunk in chunks))


def read_sample_chunks(
    path: PathLike,
    rows: int = CHUNK_ROWS,
    format: Format = "auto",  # noqa: A002
    columns: Columns | None = None,
) -> Generator[SampleTable]:
    """The samples of a file in tables of at most `rows` rows, so that any length can be read.

    At least one table comes, so that names are known.  Files of npy are read whole.
    """
    if rows < 1:
        raise DataError(f"a chunk of {rows} rows is none; ask for at least 1.")
    chosen = _by_name(path) if format == "auto" else format
    if chosen == "npy":
        values, spins = _read_array(path)
        picked = choose(columns, None, values.shape[1], path, 1)
        yield from (
            SampleTable(None, values[start : start + rows][:, picked], spins)
            for start in range(0, max(len(values), 1), rows)
        )
        return
    if chosen == "parquet":
        yield from _parquet_chunks(path, rows, columns)
        return
    with closing(read_lines(path)) as lines:
        yield from _text_chunks(lines, path, rows, chosen, columns)


def _text_chunks(
    numbered: Iterator[tuple[int, str]],
    path: PathLike,
    rows: int,
    chosen: Format,
    columns: Columns | None,
) -> Iterator[SampleTable]:
    """The rows of lines of cells or digits."""
    filled = ((number, line) for number, line in numbered if line.strip())
    # numpy.savetxt and others put remarks above the rows.
    first = next((own for own in filled if not own[1].lstrip().startswith("#")), None)
    if first is None:
        raise DataError("holds no samples: every line is blank, or a remark.", path=path)
    chosen = _by_line(first[1]) if chosen == "auto" else chosen
    lines = chain([first], filled)
    rows = max(1, min(rows, CHUNK_CHARACTERS // len(first[1])))
    if chosen == "digits":
        return digit_chunks(lines, path, rows, columns)
    separator = _border(first[1]) if chosen == "csv" else None
    return cell_chunks(lines, path, rows, columns, separator=separator)


def write_samples(
    path: PathLike,
    table: SampleTable,
    format: Format = "auto",  # noqa: A002
) -> None:
    """Writes a table; `auto` goes by the name: .csv, .npy, else text.  Names go to csv and text."""
    chosen = _by_name(path) if format == "auto" else format
    if chosen == "npy":
        values = _for_array(table, path)
        with write_binary(path) as stream:
            np.lib.format.write_array(stream, values, allow_pickle=False)
    elif chosen == "digits":
        _write_digits(path, table)
    elif chosen == "parquet":
        raise DataError("parquet files are read, not written; try .csv or .npy.", path=path)
    else:
        _write_cells(path, table, "," if chosen == "csv" else " ")


def _by_name(path: PathLike) -> Format:
    suffix = Path(str(path).removesuffix(".gz")).suffix.lower()
    if suffix == ".npz":
        raise DataError("an npz file holds several arrays. Save one of them by np.save.", path=path)
    named: dict[str, Format] = {".npy": "npy", ".csv": "csv", ".parquet": "parquet"}
    return named.get(suffix, "auto")


def _border(line: str) -> str:
    """What sets cells apart; some countries' programs write semicolons in csv files."""
    return ";" if ";" in line and "," not in line else ","


def _by_line(line: str) -> Format:
    if "," in line or ";" in line:
        return "csv"
    return "text" if len(line.split()) > 1 else "digits" if line.strip().isdigit() else "csv"


def _read_array(path: PathLike) -> tuple[NDArray[np.integer[Any]], bool]:
    """The states of an npy file, and whether they were spins."""
    content = io.BytesIO(read_bytes(path))
    shape, fortran, dtype = _read_array_header(content, path)
    if len(shape) != 2 or min(shape) < 0 or dtype.kind not in "iubf":
        raise _no_table(dtype, shape, path)
    if not math.prod(shape) and max(shape) > LARGEST_EMPTY:
        raise DataError(f"an array of shape {shape} holds no sample at all.", path=path)
    rest = content.read()
    size = math.prod(shape) * dtype.itemsize
    if len(rest) != size:
        raise DataError(
            f"an array of shape {shape} has {size} bytes, but {len(rest)} follow the header. "
            "Is the file cut short?",
            path=path,
        )
    values = np.frombuffer(rest, dtype).reshape(shape, order="F" if fortran else "C")
    found = array_states(values)
    if found is None:
        raise _no_table(dtype, shape, path)
    whole, spins = found
    problem = range_problem(whole)
    if problem:
        raise DataError(problem, path=path)
    return whole, spins


def _no_table(dtype: np.dtype[Any], shape: tuple[int, ...], path: PathLike) -> DataError:
    return DataError(
        "a sample table is a two-dimensional array of whole numbers (samples x variables); this "
        f"file holds {dtype} of shape {shape}. "
        f"Try values.{'astype(int)' if len(shape) == 2 else 'reshape(len(values), -1)'} "
        "before saving.",
        path=path,
    )


def array_states(values: NDArray[Any]) -> tuple[NDArray[np.integer[Any]], bool] | None:
    """Numbers as states, and whether they were spins; None where one is not whole.

    Where -1 and 1 are the only values they are spins, and become the states 0 and 1; beside a 0, -1
    is a missing value.  NaN is missing too, and never a spin.  Whole numbers keep their type.
    """
    if values.dtype.kind == "f":
        whole = whole_numbers(values.astype(np.float64, copy=False))
        if whole is None:
            return None
        known = ~np.isnan(values)
        if not are_spins(whole if known.all() else whole[known]):
            return whole, False
        return np.where(known, (whole + 1) // 2, MISSING), True
    if values.dtype.kind == "b":
        return values.astype(np.uint8), False
    if values.dtype.kind not in "iu":
        return None
    return ((values > 0).astype(np.uint8), True) if are_spins(values) else (values, False)


def are_spins(values: NDArray[np.integer[Any]]) -> bool:
    """Whether -1 and 1 are the only values, and -1 is among them."""
    if not values.size or values.dtype.kind != "i" or values.min() != -1 or values.max() > 1:
        return False
    return bool(values.all())


def _read_array_header(
    content: io.BytesIO, path: PathLike
) -> tuple[tuple[int, ...], bool, np.dtype[np.int64]]:
    """Shape, whether columns lie end to end, and type of the numbers; nothing is allocated."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(content)
            if version == (1, 0):
                return np.lib.format.read_array_header_1_0(content)
            return np.lib.format.read_array_header_2_0(content)
    except Exception as error:  # numpy's reader raises a dozen kinds on damaged headers
        raise DataError(f"not a readable npy file: {error}.", path=path) from error


def _for_array(table: SampleTable, path: PathLike) -> NDArray[np.integer[Any]]:
    """The numbers that an npy file holds, where -1 can be a spin or a missing value, not both."""
    lost = (table.values == MISSING).any() if table.spins else are_spins(table.values)
    if lost:
        raise DataError(
            "missing values beside spins, or beside 1 alone, would not be read back from an npy "
            "file as they are. Try csv.",
            path=path,
        )
    return 2 * table.values - 1 if table.spins else table.values


def _write_digits(path: PathLike, table: SampleTable) -> None:
    values = table.values
    if table.spins or (values.size and not 0 <= values.min() <= values.max() <= 9):
        raise DataError(
            "digits can only hold states 0 to 9, nothing missing and no spins. Try csv.", path=path
        )
    lines = np.full((len(values), values.shape[1] + 1), ord("\n"), dtype=np.uint8)
    lines[:, :-1] = values + ord("0")
    with write_binary(path) as stream:
        stream.write(lines.tobytes())


def _write_cells(path: PathLike, table: SampleTable, separator: str) -> None:
    texts = {state: str(state) for state in np.unique(table.values).tolist()}
    if table.spins:
        texts |= {0: "-1"}
    texts[MISSING] = "NA"
    problem = header_problem(table.names, separator) if table.names is not None else None
    if problem:
        raise DataError(problem, path=path)
    with write_text(path) as stream:
        if table.names is not None and separator == ",":
            csv.writer(stream, lineterminator="\n").writerow(table.names)
        elif table.names is not None:
            stream.write(separator.join(table.names) + "\n")
        for row in table.values.tolist():
            stream.write(separator.join([texts[state] for state in row]) + "\n")


# Parquet files: one variable a column; only whole numbers, null is missing.


def _parquet_chunks(path: PathLike, rows: int, columns: Columns | None) -> Iterator[SampleTable]:
    """Names and values, at most `rows` rows at a time; at least one chunk comes."""
    with _open_parquet(path) as file:
        yield from _readable(_batches(file, path, rows, columns), path)


def _readable(chunks: Iterator[SampleTable], path: PathLike) -> Iterator[SampleTable]:
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


def _batches(
    file: Any, path: PathLike, rows: int, columns: Columns | None
) -> Iterator[SampleTable]:
    header = [str(name) for name in file.schema_arrow.names]
    picked = [header[i] for i in choose(columns, header, len(header), path, 1)]
    names, nothing = tuple(picked), np.zeros((0, len(picked)), dtype=np.int64)
    empty, signs = True, Signs(path)
    for batch in file.iter_batches(batch_size=rows, columns=picked):
        empty = False
        values = np.stack(
            [_column_states(batch.column(name), name, path) for name in picked], axis=1
        )
        yield SampleTable(names, signs.resolve(values), signs.down)
    if empty:
        yield SampleTable(names, nothing)


def _open_parquet(path: PathLike) -> Any:
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


def _column_states(column: Any, name: str, path: PathLike) -> NDArray[np.int64]:
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

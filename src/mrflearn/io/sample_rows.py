"""Lines of a sample table as matrices, a chunk at a time: cells (csv or white space) and digits.

Cells are states (0, 1, 2, ...) or, all through a file, spins: -1 and 1 are the states 0 and 1.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.files import PathLike

Columns: TypeAlias = Sequence[str | int]
Lines: TypeAlias = Iterator[tuple[int, str]]
States: TypeAlias = NDArray[np.int64]

MISSING = -1
MISSING_TEXTS = ("", "NA", "NaN", "nan")
LARGEST_STATE = 2**31 - 1
DOWN = -(2**62)  # a cell that says -1, before it is known to be a spin


@dataclass(frozen=True, eq=False)
class SampleTable:
    """Samples in rows, variables in columns; -1 is a missing value.

    With `spins`, states 0 and 1 stand for -1 and 1, and are written so; estimators that are given
    the table see them so too.  Values are kept in the narrowest signed type that holds them: one
    byte a state, where there are at most 128.  `states`: how many there can be, where known.
    """

    names: tuple[str, ...] | None
    values: NDArray[np.integer[Any]]
    spins: bool = False
    states: int | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.dtype.kind not in "iub":
            raise DataError(
                f"a sample table is a matrix of whole numbers (samples x variables), not "
                f"{self.values.dtype} of shape {self.values.shape}."
            )
        problem = range_problem(self.values)
        if problem:
            raise DataError(problem)
        largest = int(self.values.max(initial=0))
        narrow = next(
            kind for kind in (np.int8, np.int16, np.int32) if largest <= np.iinfo(kind).max
        )
        object.__setattr__(self, "values", self.values.astype(narrow, copy=False))
        if self.names is not None and len(self.names) != self.values.shape[1]:
            raise DataError(
                f"{len(self.names)} names for a sample table of {self.values.shape[1]} columns."
            )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names, where estimators look for them."""
        return self.names

    def __array__(self, *_: object, **__: object) -> NDArray[Any]:
        """The samples as the file has them: states, or spins with NaN where one is missing."""
        if not self.spins:
            return self.values
        known = self.values != MISSING
        spins = 2 * self.values - 1
        return spins if known.all() else np.where(known, spins, np.nan)


def range_problem(values: NDArray[np.integer[Any]]) -> str | None:
    """What is wrong with a table of states; None where nothing is."""
    if not values.size or (values.min() >= MISSING and values.max() <= LARGEST_STATE):
        return None
    wrong = values.min() if values.min() < MISSING else values.max()
    return f"a value is {wrong}; states go from 0 to {LARGEST_STATE}, and -1 is missing."


@final
@dataclass
class Signs:
    """What the cells of a file were so far: spins, or states that no spin can be."""

    path: PathLike
    down: bool = False
    states: bool = False

    def resolve(self, values: States, lines: Sequence[int] | None = None) -> States:
        """The values with 0 for `DOWN`; an error where a file has spins and other states."""
        down = values == DOWN
        other = (values == 0) | (values > 1)
        self.down |= bool(down.any())
        self.states |= bool(other.any())
        if self.down and self.states:
            row = int((down if down.any() else other).any(axis=1).argmax())
            raise DataError(
                "-1 stands beside other states than 1. Spins are -1 and 1 alone; a value that is "
                "not known is written NA (null in parquet).",
                path=self.path,
                line=None if lines is None else lines[row],
            )
        values[down] = 0
        return values


def cell_chunks(
    lines: Lines, path: PathLike, rows: int, columns: Columns | None, *, separator: str | None
) -> Iterator[SampleTable]:
    """Names and values of lines of separated cells; the first line may be a header."""
    numbered: Iterator[tuple[int, list[str]]] = (
        (number, _cells(line, path, number, separator)) for number, line in lines
    )
    start, first = next(numbered)
    named = columns is not None and any(isinstance(column, str) for column in columns)
    width = len(first)
    picked = choose(columns, first, width, path, start)
    names = None
    if named or _is_header([first[i] for i in picked], path, start):
        names = tuple(first[i].strip() for i in picked)
        _check_names(names, path, start)
    else:
        numbered = chain([(start, first)], numbered)
    signs = Signs(path)
    chunk = list(islice(numbered, rows))
    while True:
        values = signs.resolve(_states(chunk, width, picked, path), [line for line, _ in chunk])
        yield SampleTable(names, values, signs.down)
        chunk = list(islice(numbered, rows))
        if not chunk:
            return


def digit_chunks(
    lines: Lines, path: PathLike, rows: int, columns: Columns | None
) -> Iterator[SampleTable]:
    """Values of lines that have one character a variable."""
    width = 0
    while chunk := [(number, line.strip()) for number, line in islice(lines, rows)]:
        width = width or len(chunk[0][1])
        picked = choose(columns, None, width, path, chunk[0][0])
        for number, line in chunk:
            if len(line) != width or not (line.isascii() and line.isdigit()):
                raise DataError(_digits_problem(line, width), path=path, line=number)
        joined = "".join([line for _, line in chunk]).encode()
        values = np.frombuffer(joined, dtype=np.uint8).reshape(-1, width) - ord("0")
        yield SampleTable(None, values[:, picked].astype(np.int64))


def choose(
    columns: Columns | None,
    header: Sequence[str] | None,
    width: int,
    path: PathLike,
    line: int,
) -> list[int]:
    """The numbers of the picked columns; all of them where `columns` is None."""
    if columns is None:
        return list(range(width))
    if not columns:
        raise DataError("no columns are picked.", path=path)
    names = [name.strip() for name in header or ()]
    picked = []
    for column in columns:
        if isinstance(column, str) and column in names:
            picked.append(names.index(column))
        elif not isinstance(column, str) and 0 <= column < width:
            picked.append(column)
        else:
            known = f"; the first line has {', '.join(names[:20])}" if names else ""
            raise DataError(
                f"there is no column {column!r} among {width} (counted from 0){known}.",
                path=path,
                line=line,
            )
    return picked


def header_problem(names: Sequence[str], separator: str) -> str | None:
    """What keeps a header from being read back as these very names; None where nothing does."""
    for name in names:
        broken = name != name.strip() or "\n" in name or "\r" in name or name[:1] == "\ufeff"
        if broken or (separator == " " and (not name or len(name.split()) > 1)):
            return f"the column name {name!r} cannot be written in this format. Try another name."
    if len(set(names)) < len(names):
        return "two columns have the same name."
    if names[:1] and names[0].startswith("#"):
        return "a first column name with # would be read back as a remark. Try another name."
    if len(names) == 1 and ";" in names[0]:
        return "the semicolon in the column name would be read back as a border. Try another name."
    if any(map(_is_number, names)) or all(name in MISSING_TEXTS for name in names):
        return "column names that are numbers would be read back as a row. Try x1, x2, ..."
    return None


def _cells(line: str, path: PathLike, number: int, separator: str | None) -> list[str]:
    if separator is None or '"' not in line:
        return line.split(separator)
    try:
        read = csv.reader([line], delimiter=separator, strict=True, skipinitialspace=True)
        return next(read)
    except csv.Error as error:
        raise DataError(f"quotes do not close: {error}.", path=path, line=number) from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_header(cells: Sequence[str], path: PathLike, line: int) -> bool:
    said = [cell for cell in cells if cell.strip() not in MISSING_TEXTS]
    words = [cell for cell in said if not _is_number(cell)]
    if words and len(words) < len(said):
        raise DataError(
            f"the first line mixes numbers with {words[0][:40]!r}: it is neither a header nor a "
            "row of states. Pick columns if this one is not a variable.",
            path=path,
            line=line,
        )
    return bool(words)


def _check_names(names: Sequence[str], path: PathLike, line: int) -> None:
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataError(f"two columns are named {twice[:40]!r}.", path=path, line=line)


def _states(
    chunk: Sequence[tuple[int, list[str]]], width: int, picked: list[int], path: PathLike
) -> NDArray[np.int64]:
    for number, row in chunk:
        if len(row) != width:
            raise DataError(
                f"{len(row)} cells, but the first line has {width}. Is the line cut off? "
                "A value that is not known is written NA.",
                path=path,
                line=number,
            )
    rows: Iterable[Sequence[str]] = (row for _, row in chunk)
    if picked != list(range(width)):
        rows = [[row[i] for i in picked] for row in rows]
    cells = list(chain.from_iterable(rows))
    # Few texts differ: each is read once, and the rest is looking up.
    states = {text: _state(text) for text in set(cells)}
    if None in states.values():
        wrong = next(i for i, cell in enumerate(cells) if states[cell] is None)
        number = chunk[wrong // len(picked)][0]
        raise DataError(_state_problem(cells[wrong]), path=path, line=number)
    flat = np.fromiter(map(states.__getitem__, cells), np.int64, len(cells))
    return flat.reshape(len(chunk), len(picked))


def _state(text: str) -> int | None:
    stripped = text.strip()
    if stripped in MISSING_TEXTS:
        return MISSING
    # Programs that have no missing integers write 3.0 for 3, and numpy.savetxt 3.000e+00.
    number = float(stripped) if _is_number(stripped) and "_" not in stripped else math.nan
    if not number.is_integer() or not -1 <= number <= LARGEST_STATE:
        return None
    return DOWN if number == -1 else int(number)


def _state_problem(text: str) -> str:
    return (
        f"cannot read {text[:40]!r} as a state: a whole number from 0 (or -1 and 1 all through, "
        "for spins), NA or nothing. If this column is not a variable, pick the others by "
        "columns=..."
    )


def whole_numbers(values: NDArray[np.float64]) -> States | None:
    """Floating-point numbers as states, NaN as missing; None where one is not whole."""
    known = np.where(np.isnan(values), MISSING, values)
    if not bool((known == np.floor(known)).all() and (np.abs(known) <= LARGEST_STATE).all()):
        return None
    return known.astype(np.int64)


def _digits_problem(line: str, width: int) -> str:
    if len(line) != width:
        return f"{len(line)} characters, but the first line has {width}."
    wrong = next(letter for letter in line if not (letter.isascii() and letter.isdigit()))
    return f"{wrong!r} is not a digit. If cells are set apart, say format='csv' or 'text'."

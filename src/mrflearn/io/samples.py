"""Integer sample tables: one sample a row, one variable a column, states counted from 0.

Five formats: `csv` (commas or semicolons, header optional), `text` (the same with white space),
`digits` (one character a variable, nothing between), `npy` and `parquet` (read only).  A missing
value is -1 in the record and in npy files of whole numbers, NaN in those of floats, `NA` or an
empty cell in csv, `NA` in text, null in parquet; digits cannot hold one.  Spins, -1 and 1 all
through a file, are read as the states 0 and 1.  Columns of words (csv with a header, text, parquet)
have the words as labels of their states.
"""

from __future__ import annotations

import csv
import io
import math
import sys
import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.answers import (
    DOWN,
    LARGEST_STATE,
    MISSING,
    MISSING_TEXTS,
    Column,
    ColumnKinds,
    Labels,
    common_labels,
    labelled,
    translated,
    whole_numbers,
    worded,
)
from mrflearn.io.files import (
    Lines,
    PathLike,
    ending,
    located,
    read_bytes,
    to_number,
    write_binary,
    write_text,
)
from mrflearn.io.parquet import arrow_columns, parquet_columns

Format = Literal["auto", "csv", "text", "digits", "npy", "parquet"]
Columns: TypeAlias = Sequence[str | int]
States: TypeAlias = NDArray[np.integer[Any]]

CHUNK_ROWS = 1 << 16
CHUNK_CHARACTERS = 1 << 23  # of the lines of one chunk: a row may have 100,000 variables
LARGEST_EMPTY = 1 << 20  # rows of no columns, or columns of no rows: a file of any size can say so


@dataclass(frozen=True, eq=False)
class SampleTable:
    """Samples in rows, variables in columns; -1 is a missing value.

    With `spins`, states 0 and 1 stand for -1 and 1, and are written so; estimators that are given
    the table see them so too.  Values are kept in the narrowest signed type that holds them: one
    byte a state, where there are at most 128.  `molecule`: that of an alignment, whose letters the
    states number.  `labels`: what the states of each column stand for, where they are no numbers.
    """

    names: tuple[str, ...] | None
    values: NDArray[np.integer[Any]]
    spins: bool = False
    molecule: str | None = None
    labels: Labels | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.dtype.kind not in "iub":
            raise DataError(_not_a_table(self.values))
        least = int(self.values.min(initial=0))
        largest = int(self.values.max(initial=0))
        if least < MISSING or largest > LARGEST_STATE:
            wrong = least if least < MISSING else largest
            raise DataError(
                f"a value is {wrong}; states go from 0 to {LARGEST_STATE}, and -1 is missing."
            )
        narrow = np.min_scalar_type(-1 - largest)  # the signed type that holds both
        object.__setattr__(self, "values", self.values.astype(narrow, copy=False))
        width = self.values.shape[1]
        if self.names is not None and len(self.names) != width:
            raise DataError(f"{len(self.names)} names for a sample table of {width} columns.")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names, where estimators look for them."""
        return self.names

    def __array__(self, *_: object, **__: object) -> NDArray[Any]:
        """The samples as the file has them: states, labels, or spins with NaN for missing ones."""
        if self.labels is not None:
            pairs = zip(self.values.T, self.labels, strict=True)
            columns = [
                states.astype(object) if own is None else labelled(states.astype(np.int64), own)
                for states, own in pairs
            ]
            return np.stack(columns, axis=1) if columns else self.values.astype(object)
        if not self.spins:
            return self.values
        known = self.values != MISSING
        spins = 2 * self.values - 1
        return spins if known.all() else np.where(known, spins, np.nan)


def _not_a_table(values: NDArray[Any]) -> str:
    remedy = "astype(int)" if values.ndim == 2 else "reshape(len(values), -1)"
    return (
        "a sample table is a matrix of whole numbers (samples x variables), not "
        f"{values.dtype} of shape {values.shape}. Try values.{remedy}."
    )


def read_samples(
    path: PathLike,
    format: Format = "auto",  # noqa: A002 - the word everybody tries first
    columns: Columns | None = None,
) -> SampleTable:
    """All samples of a file; `columns` picks some by name or by number from 0, in that order.

    `auto` goes by the file's name (.csv, .npy, .digits, .parquet) and else by its first line.
    Columns that are not picked may hold anything.
    """
    chosen = _by_name(path, format)
    rows = sys.maxsize if chosen == "npy" else CHUNK_ROWS  # an array is in memory already
    chunks = list(read_sample_chunks(path, rows, format=chosen, columns=columns))
    if len(chunks) == 1:
        return chunks[0]
    labels = common_labels([chunk.labels for chunk in chunks])
    values = np.concatenate([_relabelled(chunk, labels) for chunk in chunks])
    return SampleTable(chunks[0].names, values, any(chunk.spins for chunk in chunks), labels=labels)


def _relabelled(chunk: SampleTable, labels: Labels | None) -> States:
    """The states of a chunk under the labels of the whole file."""
    if labels is None:
        return chunk.values
    values = chunk.values.astype(np.int64)
    for column, own in enumerate(labels):
        if own is not None:
            given = None if chunk.labels is None else chunk.labels[column]
            values[:, column] = translated(values[:, column], given, own)
    return values


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
    chosen = _by_name(path, format)
    if chosen == "npy":
        with located(path):
            values, spins = _read_array(read_bytes(path))
            picked = _choose(columns, None, values.shape[1])
            for start in range(0, max(len(values), 1), rows):
                yield SampleTable(None, values[start : start + rows][:, picked], spins)
    elif chosen == "parquet":
        with located(path):
            pick = partial(_choose, columns)
            kinds = None
            for names, read in parquet_columns(path, rows, pick):
                kinds = kinds or ColumnKinds(len(names))
                yield _of_columns(names, read, kinds)
    else:
        with Lines(path) as lines:
            yield from _text_chunks(lines, rows, chosen, columns)


def write_samples(
    path: PathLike,
    table: SampleTable,
    format: Format = "auto",  # noqa: A002
) -> None:
    """Writes a table; `auto` goes by the name: .csv, .npy, .digits, else text.

    Names go to csv and text.
    """
    chosen = _by_name(path, format)
    if chosen == "npy":
        with write_binary(path) as stream:
            np.lib.format.write_array(stream, _for_array(table), allow_pickle=False)
    elif chosen == "digits":
        with write_binary(path) as stream:
            stream.write(_digits(table))
    elif chosen == "parquet":
        raise DataError("parquet files are read, not written; try .csv or .npy.", path=path)
    else:
        _write_cells(path, table, chosen)


def _by_name(path: PathLike, given: Format) -> Format:
    if given != "auto":
        return given
    suffix = ending(path)
    if suffix == ".npz":
        raise DataError("an npz file holds several arrays. Save one of them by np.save.", path=path)
    endings: tuple[Format, ...] = ("npy", "csv", "digits", "parquet")
    return next((name for name in endings if suffix == f".{name}"), "auto")


def _by_line(line: str) -> Format:
    if "," in line or ";" in line:
        return "csv"
    return "text" if len(line.split()) > 1 else "digits" if line.strip().isdigit() else "csv"


def _choose(columns: Columns | None, header: Sequence[str] | None, width: int) -> list[int]:
    """The numbers of the picked columns; all of them where `columns` is None."""
    if columns is None:
        return list(range(width))
    if not columns:
        raise DataError("no columns are picked.")
    names = [name.strip() for name in header or ()]
    places: dict[str | int, int] = {i: i for i in range(width)}
    for place, name in enumerate(names):
        places.setdefault(name, place)
    for column in columns:
        if column not in places:
            known = f"; the first line has {', '.join(names[:20])}" if names else ""
            raise DataError(f"there is no column {column!r} among {width} (counted from 0){known}.")
    return [places[column] for column in columns]


def column_order(learned: Sequence[str] | None, seen: Sequence[str] | None) -> list[int] | None:
    """The columns of a table in the order in which a field learned their names; None: as they are.

    Where either has no names, or but the numbers 0, 1, ... that pandas gives, columns go by place;
    names that are not the same are refused.
    """
    if learned is None or seen is None:
        return None
    learned, seen = list(learned), list(seen)
    if learned == seen:
        return None
    places = {name: place for place, name in enumerate(seen)}
    if sorted(learned) == sorted(seen) and len(places) == len(seen):
        return [places[name] for name in learned]
    if any(names == [*map(str, range(len(names)))] for names in (learned, seen)):
        return None
    unknown = next((name for name in seen if name not in learned), None)
    lacking = next((name for name in learned if name not in places), None)
    problem = "" if unknown is None else f"column {unknown!r} is not among those learned from"
    problem += "; " if problem and lacking is not None else ""
    problem += "" if lacking is None else f"column {lacking!r}, which was learned from, is not here"
    raise DataError(
        f"{problem or 'two columns have one name'}. Names must be the same, in any order (of a "
        "larger file choose some by columns=A,B); tables without names go by place."
    )


# Text: cells set apart by commas, semicolons or white space, or digits with nothing between.


def _text_chunks(
    lines: Lines, rows: int, chosen: Format, columns: Columns | None
) -> Iterator[SampleTable]:
    filled = filter(str.strip, lines)
    # numpy.savetxt and others put remarks above the rows.
    first = next((line for line in filled if not line.lstrip().startswith("#")), None)
    if first is None:
        raise DataError("holds no samples: every line is blank, or a remark.", path=lines.path)
    chosen = _by_line(first) if chosen == "auto" else chosen
    rows = max(1, min(rows, CHUNK_CHARACTERS // len(first)))
    if chosen == "digits":
        width = len(first.strip())
        picked = _choose(columns, None, width)
        stripped = ((lines.number, line.strip()) for line in chain([first], filled))
        while chunk := list(islice(stripped, rows)):
            yield SampleTable(None, _digit_states(chunk, width)[:, picked])
        return
    separator = _separator(first, chosen)
    cells = _cells(first, separator)
    picked = _choose(columns, cells, len(cells))
    names = _names([cells[i] for i in picked], columns)
    above = [(lines.number, first)] if names is None else []
    numbered = chain(above, ((lines.number, line) for line in filled))
    kinds = ColumnKinds(len(picked))
    table = list(islice(numbered, rows))
    while True:
        lines_read = [line for line, _ in table]
        digits = _single_digits(table, len(cells), separator)
        if digits is not None:
            states: NDArray[np.signedinteger[Any]] = digits[:, picked]
            named: Labels = (None,) * len(picked)
        else:
            split = [(number, _cells(line, separator)) for number, line in table]
            states, named = _stacked(_states(split, len(cells), picked, names))
        values, spins, labels = kinds.resolve(names, states, named, lines_read)
        yield SampleTable(names, values, spins, labels=labels)
        table = list(islice(numbered, rows))
        if not table:
            return


def _separator(line: str, chosen: Format) -> str | None:
    if chosen == "text":
        return None
    # Some countries' programs write semicolons in csv files.
    return ";" if ";" in line and "," not in line else ","


def _cells(line: str, separator: str | None) -> list[str]:
    if separator is None or '"' not in line:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator, strict=True, skipinitialspace=True))
    except csv.Error as error:
        raise DataError(f"quotes do not close: {error}.") from error


def _single_digits(
    chunk: Sequence[tuple[int, str]], width: int, separator: str | None
) -> NDArray[np.int8] | None:
    """The states of lines such as `0,1,1`, which are read as bytes; None where any is not so."""
    size = 2 * width - 1
    if not chunk or any(len(line) != size or not line.isascii() for _, line in chunk):
        return None
    table = np.frombuffer("".join([line for _, line in chunk]).encode(), np.uint8)
    table = table.reshape(len(chunk), size)
    digits = table[:, ::2] - np.uint8(ord("0"))  # below it, it is large
    if digits.max() > 9 or bool((table[:, 1::2] != ord(separator or " ")).any()):
        return None
    return digits.view(np.int8)


def _stacked(columns: Sequence[Column]) -> tuple[NDArray[np.signedinteger[Any]], Labels]:
    """The states of all columns, rows x columns, and their labels."""
    values = np.stack([column.states for column in columns], axis=1)
    return values, tuple(column.labels for column in columns)


def _names(cells: Sequence[str], columns: Columns | None) -> tuple[str, ...] | None:
    """The cells of the first line as names; None where it is a row of states."""
    said = [cell for cell in cells if cell.strip() not in MISSING_TEXTS]
    words = [cell for cell in said if math.isnan(to_number(cell))]
    if not any(isinstance(column, str) for column in columns or ()):
        if words and len(words) < len(said):
            raise DataError(
                f"the first line mixes numbers with {words[0][:40]!r}: it is neither a header nor "
                "a row of states. Pick columns if this one is not a variable."
            )
        if not words:
            return None
    names = tuple(cell.strip() for cell in cells)
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise DataError(f"two columns are named {name[:40]!r}.")
    return names


def _states(
    chunk: Sequence[tuple[int, list[str]]],
    width: int,
    picked: list[int],
    names: tuple[str, ...] | None,
) -> list[Column]:
    for number, row in chunk:
        if len(row) != width:
            raise DataError(
                f"{len(row)} cells, but the first line has {width}. Is the line cut off? "
                "A missing value is written NA.",
                line=number,
            )
    rows: Iterable[Sequence[str]] = (row for _, row in chunk)
    if picked != list(range(width)):
        rows = [[row[i] for i in picked] for row in rows]
    cells = list(chain.from_iterable(rows))
    # Few texts differ: each is read once, and the rest is looking up.
    states = {text: _state(text) for text in set(cells)}
    words = {text for text, state in states.items() if state is None}
    wrong = next((i for i, cell in enumerate(cells) if cell in words and not _is_word(cell)), None)
    if wrong is not None:
        raise DataError(
            f"cannot read {cells[wrong][:40]!r} as a state: a whole number from 0 (or only -1 and "
            "1, for spins), a word, NA or nothing. If this column is not a variable, pick the "
            "others by columns=...",
            line=chunk[wrong // len(picked)][0],
        )
    known = {text: MISSING if state is None else state for text, state in states.items()}
    narrow = np.min_scalar_type(min(DOWN, -1 - max(known.values(), default=0)))
    flat = np.fromiter(map(known.__getitem__, cells), narrow, len(cells))
    columns = [Column(own, None) for own in flat.reshape(len(chunk), len(picked)).T]
    for place in range(len(picked)) if words else ():
        own = cells[place :: len(picked)]
        if not words.isdisjoint(own):
            try:
                columns[place] = worded(own, str(place) if names is None else names[place])
            except DataError as error:
                kinds = [
                    (i, cell in words) for i, cell in enumerate(own) if states[cell] != MISSING
                ]
                odd = next((i for i, word in kinds if word != kinds[0][1]), kinds[0][0])
                raise DataError(error.problem, line=chunk[odd][0]) from error
    return columns


def _is_word(text: str) -> bool:
    return math.isnan(to_number(text.strip()))


def _state(text: str) -> int | None:
    stripped = text.strip()
    if stripped in MISSING_TEXTS:
        return MISSING
    # Programs that have no missing integers write 3.0 for 3, and numpy.savetxt 3.000e+00.
    number = to_number(stripped)
    if not number.is_integer() or not -1 <= number <= LARGEST_STATE:
        return None
    return DOWN if number == -1 else int(number)


def _digit_states(chunk: Sequence[tuple[int, str]], width: int) -> States:
    for number, line in chunk:
        if len(line) != width:
            problem = f"{len(line)} characters, but the first line has {width}."
            raise DataError(problem, line=number)
        if not (line.isascii() and line.isdigit()):
            wrong = line.strip("0123456789")[0]
            problem = f"{wrong!r} is not a digit. If cells are separated: format='csv' or 'text'."
            raise DataError(problem, line=number)
    joined = "".join([line for _, line in chunk]).encode()
    return np.frombuffer(joined, np.uint8).reshape(-1, width) - ord("0")


def _check_plain(table: SampleTable, what: str) -> None:
    for own in table.labels or ():
        if own is not None and not isinstance(own[0], bool):
            raise DataError(f"{what} holds numbers, not answers such as {own[0]!r}. Try .csv.")


def _digits(table: SampleTable) -> bytes:
    _check_plain(table, "a file of digits")
    values = table.values
    if table.spins or (values.size and not 0 <= values.min() <= values.max() <= 9):
        raise DataError("digits hold only states 0 to 9, nothing missing and no spins. Try csv.")
    lines = np.full((len(values), values.shape[1] + 1), ord("\n"), dtype=np.uint8)
    lines[:, :-1] = values + ord("0")
    return lines.tobytes()


def _write_cells(path: PathLike, table: SampleTable, chosen: Format) -> None:
    separator = "," if chosen == "csv" else " "
    texts = {state: str(state) for state in np.unique(table.values).tolist()}
    texts |= {0: "-1"} if table.spins else {}
    texts[MISSING] = "NA"
    columns = [texts] * table.values.shape[1]
    for place, own in enumerate(table.labels or ()):
        if own is not None:
            labels = [_cell(str(label), chosen) for label in own]
            columns[place] = dict(enumerate(labels)) | {MISSING: "NA"}
    with write_text(path) as stream:
        if table.names is not None:
            stream.write(_header(table.names, chosen) + "\n")
        for row in table.values.tolist():
            cells = [own[state] for own, state in zip(columns, row, strict=True)]
            stream.write(separator.join(cells) + "\n")


def _cell(label: str, chosen: Format) -> str:
    """A label as it is written in a cell."""
    if chosen != "csv":
        if len(label.split()) != 1:
            raise DataError(
                f"the answer {label[:40]!r} has blanks, which set cells apart. Try .csv."
            )
        return label
    with io.StringIO() as cells:
        csv.writer(cells, lineterminator="").writerow([label])
        return cells.getvalue()


def _header(names: tuple[str, ...], chosen: Format) -> str:
    """A line that will be read back as these very names."""
    line = " ".join(names)
    if chosen == "csv":
        with io.StringIO() as cells:
            csv.writer(cells, lineterminator="").writerow(names)
            line = cells.getvalue()
    try:
        reading = chosen if chosen == "csv" else _by_line(line)
        same = _names(_cells(line, _separator(line, reading)), None) == names
    except DataError:
        same = False
    if not same or "\n" in line or line.startswith(("#", "\ufeff")):
        raise DataError(
            f"the column names {line[:40]!r} would be read back as other names, a row of numbers "
            "or a comment. Try other names: x1, x2, ..."
        )
    return line


# Arrays of numpy.


def _read_array(content: bytes) -> tuple[States, bool]:
    """The states of an npy file, and whether they were spins."""
    try:
        with warnings.catch_warnings(action="ignore"):
            stream = io.BytesIO(content)
            layout = np.lib.format
            first = layout.read_magic(stream) == (1, 0)
            read = layout.read_array_header_1_0 if first else layout.read_array_header_2_0
            shape, fortran, dtype = read(stream)
        if min(shape, default=0) < 0:
            raise ValueError(f"its shape is {shape}")
        values = np.frombuffer(content, dtype, offset=stream.tell())
        values = values.reshape(shape, order="F" if fortran else "C")
    except Exception as error:  # numpy's reader raises a dozen kinds on damaged files
        problem = f"not a readable npy file: {error}. Is it cut short, or does it hold objects?"
        raise DataError(problem) from error
    if not values.size and max(values.shape) > LARGEST_EMPTY:
        raise DataError(f"an array of shape {values.shape} holds no sample at all.")
    found = array_states(values) if values.ndim == 2 else None
    if found is None:
        raise DataError(_not_a_table(values))
    return found


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


def _for_array(table: SampleTable) -> States:
    """The numbers that an npy file holds, where -1 can be a spin or a missing value, not both."""
    _check_plain(table, "an npy file")
    if (table.values == MISSING).any() if table.spins else are_spins(table.values):
        raise DataError(
            "-1 would stand for a missing value and for a spin in an npy file, which could not be "
            "read back. Try csv."
        )
    return 2 * table.values - 1 if table.spins else table.values


# Tables of pyarrow: one variable a column; null is missing.


def arrow_samples(rows: Any) -> SampleTable:
    """The samples of a table of pyarrow."""
    names = tuple(rows.schema.names)
    return _of_columns(names, arrow_columns(rows), ColumnKinds(len(names)))


def _of_columns(
    names: tuple[str, ...], columns: Sequence[Column], kinds: ColumnKinds
) -> SampleTable:
    """The samples of columns; `kinds` are those of earlier rows."""
    values, spins, labels = kinds.resolve(names, *_stacked(columns))
    return SampleTable(names, values, spins, labels=labels)

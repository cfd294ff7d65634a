"""The codes under which the states of a sample table stand in a file: 1 and 2, or 1 to 5.

Fields count states from 0.  A column that never shows 0, or less than half of the numbers up to its
largest (0, 10, 20), is recoded to the codes it does show, in ascending order, and answers come back
in these codes.  Any other column is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.samples import MISSING

Table = NDArray[np.integer[Any]]
NAMED = 8  # codes or columns that a message lists


@final
@dataclass(frozen=True)
class StateCodes:
    """State s of column c stands as `codes[c][s]`; None where states are counted from 0.

    `sizes` are the numbers of states.
    """

    codes: tuple[tuple[int, ...] | None, ...]
    sizes: tuple[int, ...]

    @classmethod
    def seen(cls, table: Table) -> StateCodes:
        """The codes that the columns of a table show; -1 is a missing value.

        Two states are the least, and a constant column is left as it is.
        """
        least, most = observed_range(table)
        codes: list[tuple[int, ...] | None] = [None] * len(least)
        for column in np.flatnonzero((most > 1) & (most > least)):
            shown = _distinct(table[:, column])
            if least[column] > 0 or 2 * len(shown) <= most[column]:
                codes[column] = tuple(shown.tolist())
        sizes = (
            max(2, int(top) + 1) if own is None else len(own)
            for own, top in zip(codes, most, strict=True)
        )
        return cls(tuple(codes), tuple(sizes))

    @classmethod
    def fitting(cls, table: Table, sizes: Sequence[int]) -> StateCodes:
        """The codes of a table whose columns have so many states, counted from 0 if they can be."""
        shown, most = cls.seen(table), observed_range(table)[1]
        codes = (
            own if own is not None and top >= size and len(own) == size else None
            for own, top, size in zip(shown.codes, most, sizes, strict=True)
        )
        return cls(tuple(codes), tuple(sizes))

    @property
    def recoded(self) -> list[int]:
        """The columns that are not counted from 0."""
        return [column for column, own in enumerate(self.codes) if own is not None]

    def encode(self, table: Table, names: Sequence[str] | None = None) -> Table:
        """The states of rows that hold codes; an error names the first code that is not known."""
        if not self.recoded or table.ndim != 2 or table.shape[1] != len(self.codes):
            return table
        states = table.copy()
        for column in self.recoded:
            own, values = np.asarray(self.codes[column]), table[:, column]
            place = np.searchsorted(own, values).clip(max=len(own) - 1)
            unknown = (own[place] != values) & (values != MISSING)
            if unknown.any():
                row = int(unknown.argmax())
                raise DataError(
                    f"{place_of(row, column, names)}: {values[row]} is not a state of this "
                    f"column, whose codes are {_listed(own.tolist())}."
                )
            states[:, column] = np.where(values == MISSING, MISSING, place)
        return states

    def decode(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of states in the codes of each column."""
        table = states.copy()
        for column in self.recoded:
            own = np.asarray([MISSING, *(self.codes[column] or ())])
            table[:, column] = own[states[:, column] + 1]
        return table

    def remarks(self, names: Sequence[str] | None = None) -> Iterator[str]:
        """What the owner of a table should know: which columns were recoded."""
        called = list(map(str, range(len(self.codes)))) if names is None else list(names)
        columns_of: dict[tuple[int, ...], list[str]] = {}
        for column in self.recoded:
            columns_of.setdefault(self.codes[column] or (), []).append(called[column])
        for codes, columns in columns_of.items():
            yield (
                f"column{'s' * (len(columns) > 1)} {_listed(columns)}: states are not counted from "
                f"0, so the codes {_listed(codes)} stand for {len(codes)} states; answers come "
                "back in these codes"
            )


def column_name(column: int, names: Sequence[str] | None) -> str:
    """What a column is called in messages: its name, or its number from 0."""
    return str(column) if names is None else repr(names[column])


def place_of(row: int, column: int, names: Sequence[str] | None) -> str:
    """Where an entry of a sample table stands."""
    return f"sample row {row} (counted from 0), column {column_name(column, names)}"


def observed_range(table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The least and the largest state of each column; -1 for a column without any."""
    if not len(table):
        none = np.full(table.shape[1], MISSING)
        return none, none
    most = table.max(axis=0).astype(np.int64)
    if table.dtype.kind == "u" or table.min(initial=0) >= 0:
        return table.min(axis=0).astype(np.int64), most
    least = np.min(table, axis=0, where=table >= 0, initial=np.iinfo(table.dtype).max)
    return np.where(most < 0, MISSING, least).astype(np.int64), most


def gaps(table: Table) -> dict[int, list[int]]:
    """The columns of which some state below the largest never occurs, and the first such states."""
    found = {}
    for column in np.flatnonzero(observed_range(table)[1] > 1).tolist():
        present = _distinct(table[:, column])
        if 1 < len(present) <= present[-1]:
            few = np.arange(min(len(present) + NAMED + 1, int(present[-1])))
            found[column] = np.setdiff1d(few, present).tolist()
    return found


def _distinct(values: Table) -> Table:
    """The observed states of one column, ascending."""
    seen = np.unique(values)
    return seen[seen >= 0] if seen.dtype.kind == "i" else seen


def _listed(entries: Sequence[object]) -> str:
    more = f" and {len(entries) - NAMED} more" if len(entries) > NAMED else ""
    return ", ".join(map(str, entries[:NAMED])) + more

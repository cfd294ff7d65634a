"""The codes under which the states of a sample table stand in a file: 1 and 2, or 1 to 5.

Fields count states from 0.  A column that never shows 0, or less than half of the numbers up to its
largest (0, 10, 20), is recoded to the codes it does show, in ascending order, and answers come back
in these codes.  So do the labels of columns of words.  Any other column is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.answers import MISSING, Label, Labels, labelled, translated

Table = NDArray[np.integer[Any]]
NAMED = 8  # codes or columns that a message lists


@final
@dataclass(frozen=True)
class StateCodes:
    """State s of column c stands as `codes[c][s]`; None where states are counted from 0.

    `sizes` are the numbers of states.
    """

    codes: Labels
    sizes: tuple[int, ...]

    @classmethod
    def seen(cls, table: Table, labels: Labels | None = None) -> StateCodes:
        """The codes that the columns of a table show, or their labels; -1 is a missing value.

        Two states are the least, and a constant column is left as it is.
        """
        least, most = observed_range(table)
        codes: list[tuple[Label, ...] | None] = [None] * len(least)
        for column, own in enumerate(labels or ()):
            if own is not None:
                codes[column] = _padded(own, max(2, len(own)))
        for column in np.flatnonzero((most > 1) & (most > least)).tolist():
            if codes[column] is not None:
                continue
            shown = _distinct(table[:, column])
            if least[column] > 0 or 2 * len(shown) <= most[column]:
                codes[column] = tuple(shown.tolist())
        sizes = (
            max(2, int(top) + 1) if own is None else len(own)
            for own, top in zip(codes, most, strict=True)
        )
        return cls(tuple(codes), tuple(sizes))

    @classmethod
    def fitting(
        cls, table: Table, sizes: Sequence[int], labels: Labels | None = None
    ) -> StateCodes:
        """The codes of a table whose columns have so many states, counted from 0 if they can be."""
        shown, most = cls.seen(table), observed_range(table)[1]
        codes = (
            own if own is not None and top >= size and len(own) == size else None
            for own, top, size in zip(shown.codes, most, sizes, strict=True)
        )
        return cls(tuple(codes), tuple(sizes)).named(labels)

    def named(self, labels: Labels | None) -> StateCodes:
        """The same with the labels of the columns that have any."""
        if labels is None:
            return self
        codes = list(self.codes)
        for column, (own, size) in enumerate(zip(labels, self.sizes, strict=True)):
            if own is not None:
                codes[column] = _padded(own, size)
        return StateCodes(tuple(codes), self.sizes)

    @property
    def recoded(self) -> list[int]:
        """The columns that are not counted from 0."""
        return [column for column, own in enumerate(self.codes) if own is not None]

    @property
    def spin_columns(self) -> list[int]:
        """The columns in which -1 is a state."""
        return [column for column in self.recoded if MISSING in (self.codes[column] or ())]

    def encode(
        self, table: Table, names: Sequence[str] | None = None, labels: Labels | None = None
    ) -> Table:
        """The states of rows that hold codes; an error names the first code that is not known.

        `labels` are those of the rows, where their columns have any.
        """
        if table.ndim != 2 or table.shape[1] != len(self.codes):
            return table
        given = labels or (None,) * len(self.codes)
        pairs = enumerate(zip(self.codes, given, strict=True))
        known = [(c, own, said) for c, (own, said) in pairs if (own, said) != (None, None)]
        states = table.astype(np.int64) if known else table
        for column, own, said in known:
            if own is None:
                own = tuple(range(self.sizes[column]))
            values = table[:, column]
            found = translated(values, said, own)
            if (found < MISSING).any():
                row = int((found < MISSING).argmax())
                answer = values[row] if said is None else said[values[row]]
                raise DataError(
                    f"{place_of(row, column, names)}: {answer} is not a state of this "
                    f"column, whose codes are {_listed(list(own))}."
                )
            states[:, column] = found
        return states

    def decode(self, states: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of states in the codes of each column: objects where some are words."""
        named = [self.codes[column] or () for column in self.recoded]
        kinds = {type(label) for own in named for label in own}
        truths = kinds == {bool} and len(named) == len(self.codes)
        if kinds <= {int} or truths:
            table = states.astype(bool) if truths else states.copy()
        else:
            table = states.astype(object)
        for column, own in zip(self.recoded, named, strict=True):
            if table.dtype.kind == "O":
                table[:, column] = labelled(states[:, column], own)
            elif not truths:
                table[:, column] = np.array([*own, MISSING])[states[:, column]]
        return table

    def label(self, column: int, state: int) -> Label:
        """What a state of a column stands for."""
        own = self.codes[column]
        return state if own is None else own[state]

    def remarks(self, names: Sequence[str] | None = None) -> Iterator[str]:
        """What the owner of a table should know: which columns were recoded."""
        called = list(map(str, range(len(self.codes)))) if names is None else list(names)
        columns_of: dict[tuple[Label, ...], list[str]] = {}
        for column in self.recoded:
            own = self.codes[column] or ()
            if type(own[0]) is int and own[0] >= 0:  # words and spins explain themselves
                columns_of.setdefault(own, []).append(called[column])
        for codes, columns in columns_of.items():
            yield (
                f"column{'s' * (len(columns) > 1)} {_listed(columns)}: states are not counted from "
                f"0, so the codes {_listed(codes)} stand for {len(codes)} states; answers come "
                "back in these codes"
            )


def _padded(labels: tuple[Label, ...], size: int) -> tuple[Label, ...]:
    """Labels of so many states: those that were never seen have names too."""
    if len(labels) > size:
        raise DataError(f"{size} states are too few for the answers {_listed(labels)}.")
    others = ["other", *(f"other {k}" for k in range(2, size))]
    return (*labels, *others[: size - len(labels)])


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

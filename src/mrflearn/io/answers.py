"""Answers as people give them, yes and no, TRUE and FALSE, words and categories, as states.

A column that is not of whole numbers gets *labels*: the label of state s is `labels[s]`.  Truth
values are False and True, spins beside columns of other kinds -1 and 1; categories keep the order
they have, words that are a known pair (no and yes) theirs, and others are sorted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.files import to_number

Label: TypeAlias = int | float | bool | str
Labels: TypeAlias = tuple[tuple[Label, ...] | None, ...]

MISSING = -1
LARGEST_STATE = 2**31 - 1
MISSING_TEXTS = ("", "NA", "N/A", "<NA>", "NaN", "nan", "NULL", "null")
MOST_WORDS = 100  # different answers of one column; with more it is a name, a date or a remark
SPINS = (-1, 1)
DOWN = -2  # a cell of a file that says -1, before it is known to be a spin
ORDERED_PAIRS = (
    ("no", "yes"),
    ("n", "y"),
    ("false", "true"),
    ("f", "t"),
    ("off", "on"),
    ("absent", "present"),
    ("negative", "positive"),
    ("disagree", "agree"),
    ("incorrect", "correct"),
    ("low", "high"),
)


def whole_numbers(values: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Floating-point numbers as states, NaN as missing; None where one is not whole."""
    known = np.where(np.isnan(values), MISSING, values)
    if not bool((known == np.floor(known)).all() and (np.abs(known) <= LARGEST_STATE).all()):
        return None
    return known.astype(np.int64)


class Column(NamedTuple):
    """One variable of a table: its states (-1: missing), and their labels if it has any."""

    states: NDArray[np.signedinteger[Any]]
    labels: tuple[Label, ...] | None


def in_order(words: Iterable[str]) -> tuple[str, ...]:
    """Different answers in the order in which their states are numbered."""
    listed = sorted(set(words))
    folded = {word.casefold(): word for word in listed}
    for pair in ORDERED_PAIRS:
        if len(listed) == 2 and set(folded) == set(pair):
            return tuple(folded[word] for word in pair)
    numbers = [to_number(word) for word in listed]
    if not any(map(math.isnan, numbers)):
        return tuple(word for _, word in sorted(zip(numbers, listed, strict=True)))
    return tuple(listed)


def worded(cells: Sequence[str], name: str = "") -> Column:
    """A column of texts, of which some are no numbers."""
    texts = [cell.strip() for cell in cells]
    said = {text for text in texts if text not in MISSING_TEXTS}
    numbers = [text for text in said if not math.isnan(to_number(text))]
    where = f"column {name!r}" if name else "a column"
    if numbers and len(numbers) < len(said):
        word = min(said.difference(numbers))
        raise DataError(
            f"{where} has numbers such as {min(numbers)!r} and words such as {word[:40]!r}. A "
            "missing value is written NA, or nothing; else write every answer as a word, or every "
            "one as a number."
        )
    if len(said) > MOST_WORDS:
        raise DataError(
            f"{where} has {len(said):,} different answers in words, such as {min(said)[:40]!r}: "
            "is it a name, a date or a remark? Pick the columns that are variables."
        )
    labels = in_order(said)
    return Column(_places(texts, labels), labels)


def _places(values: Sequence[Any], labels: Sequence[Label]) -> NDArray[np.int64]:
    """The state of each value; -1 for what is no label."""
    state = {label: place for place, label in enumerate(labels)}
    found = (state.get(value, MISSING) for value in values)
    return np.fromiter(found, np.int64, len(values))


def column_of(
    values: NDArray[Any], name: str, categories: Sequence[Any] | None = None, *, spins: bool = False
) -> Column:
    """One column of a data frame; with `spins`, -1 is a spin whatever the other values are.

    Missing are None, NaN, pandas' NA, and -1 beside whole numbers that are no spins.
    """
    if values.dtype.kind == "b":
        return Column(values.astype(np.int64), (False, True))
    if values.dtype.kind in "iuf":
        return _of_numbers(values.astype(np.float64), name, spins=spins)
    entries = [_plain(value) for value in values.tolist()]
    kinds = {type(entry) for entry in entries} - {type(None)}
    if kinds == {bool}:
        return Column(_places(entries, (False, True)), (False, True))
    if kinds == {str}:
        texts: list[str] = ["" if entry is None else entry.strip() for entry in entries]
        if categories is None:
            return worded(texts, name)
        seen = set(texts)
        labels = tuple(own for own in (str(each).strip() for each in categories) if own in seen)
        return Column(_places(texts, labels), labels)
    if kinds <= {int, float, bool}:
        figures = [math.nan if entry is None else float(entry) for entry in entries]
        return _of_numbers(np.array(figures, dtype=np.float64), name, spins=spins)
    if kinds <= {int, float, bool, str}:
        return worded(["" if entry is None else str(entry) for entry in entries], name)
    other = next(type(entry).__name__ for entry in entries if type(entry) in kinds - {str})
    raise TypeError(
        f"column {name!r} holds a {other}: an argument must be a string or a number, an answer is "
        "a word, a truth value or a whole number."
    )


def _plain(value: Any) -> Any:
    """Python's own value of a scalar; None where it is missing."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    return None if isinstance(value, str) and value.strip() in MISSING_TEXTS else value


def _of_numbers(figures: NDArray[np.float64], name: str, *, spins: bool) -> Column:
    known = ~np.isnan(figures)
    seen = set(np.unique(figures[known])[:3].tolist())
    if not bool((figures[known] == np.floor(figures[known])).all()):
        wrong = figures[known][figures[known] != np.floor(figures[known])][0]
        raise DataError(
            f"column {name!r} holds {wrong:g}: states must be whole numbers, and other numbers "
            "need classes first, such as low, middle and high."
        )
    if seen == set(SPINS) or (spins and seen <= set(SPINS)):
        states = np.where(known, (np.where(known, figures, 1) + 1) // 2, MISSING)
        return Column(states.astype(np.int64), SPINS)
    return Column(np.where(known, figures, MISSING).astype(np.int64), None)


class ColumnKinds:
    """What the columns of a file were so far: spins, or states that no spin can be."""

    def __init__(self, width: int) -> None:
        self.down = np.zeros(width, dtype=bool)
        self.states = np.zeros(width, dtype=bool)
        self.numbers = np.zeros(width, dtype=bool)
        self.words = np.zeros(width, dtype=bool)
        self.given_as_spins = False

    def resolve(
        self,
        names: tuple[str, ...] | None,
        values: NDArray[np.signedinteger[Any]],
        labels: Labels,
        lines: Sequence[int] | None = None,
    ) -> tuple[NDArray[np.signedinteger[Any]], bool, Labels | None]:
        """States, whether all are spins, and labels; an error where a column has several kinds.

        Values (rows x columns) are changed in place.
        """
        down = values == DOWN
        worded = np.array([own is not None for own in labels])
        other = (values == 0) | (values > 1) | worded
        self._tell_apart(names, values, labels, worded, lines)
        self.down |= down.any(axis=0)
        self.states |= other.any(axis=0)
        mixed = bool(self.down.any() and self.states.any())
        if (self.down & self.states).any() or (mixed and self.given_as_spins):
            row = int((down if down.any() else other).any(axis=1).argmax())
            raise DataError(
                "-1 stands beside other states than 1. Spins are -1 and 1 alone; a missing value "
                "is written NA (null in parquet).",
                line=None if lines is None else lines[row],
            )
        values[down] = 0
        self.given_as_spins = bool(self.down.any()) and not mixed
        if mixed:
            pairs = zip(self.down, labels, strict=True)
            labels = tuple(SPINS if own else given for own, given in pairs)
        plain = all(own is None for own in labels)
        return values, self.given_as_spins, None if plain else labels

    def _tell_apart(
        self,
        names: tuple[str, ...] | None,
        values: NDArray[np.signedinteger[Any]],
        labels: Labels,
        worded: NDArray[np.bool_],
        lines: Sequence[int] | None,
    ) -> None:
        """Raises `DataError` where a column of numbers goes on in words, or the other way round."""
        seen = (values != MISSING).any(axis=0)
        self.numbers |= seen & ~worded
        self.words |= seen & worded
        mixed = self.numbers & self.words & seen
        if mixed.any():
            place = int(mixed.argmax())
            row = int((values[:, place] != MISSING).argmax())
            state, own = values[row, place], labels[place]
            raise DataError(
                f"column {place if names is None else names[place]} has numbers in some rows "
                f"and words in others; here it has {state if own is None else own[state]!r}.",
                line=None if lines is None else lines[row],
            )


def columns_of(table: Any) -> list[tuple[str, NDArray[Any], Sequence[Any] | None]] | None:
    """Names, values and categories of the columns of a data frame; None for what is none.

    Frames of pandas and polars, tables of Arrow, and what else gives columns by name.
    """
    names = frame_names(table)
    if names is None or isinstance(table, np.ndarray):
        return None
    found = []
    for place, name in enumerate(names):
        if hasattr(table, "iloc"):
            column = table.iloc[:, place]
        elif hasattr(table, "column_names"):  # of Arrow
            column = table.column(place)
        elif hasattr(table, "get_column"):  # of polars
            column = table.get_column(name)
        else:
            return None
        values = np.asarray(column.to_numpy())
        found.append((name, values, _categories(column)))
    return found


def _categories(column: Any) -> Sequence[Any] | None:
    """The categories of a column of such, in their order."""
    kind = getattr(column, "dtype", None)
    if type(kind).__name__ not in ("CategoricalDtype", "Enum"):
        return None
    listed = list(kind.categories)  # type: ignore[union-attr]
    return listed if all(isinstance(each, str) for each in listed) else None


def frame_names(table: object) -> list[str] | None:
    """The names of the columns of a data frame; None for what has none."""
    names: Any = getattr(table, "column_names", None)  # Arrow's `columns` are the columns
    names = getattr(table, "columns", None) if names is None else names
    return None if names is None else [str(name) for name in names]


def common_labels(parts: Sequence[Labels | None]) -> Labels | None:
    """The labels that the columns of all parts of a file have together."""
    known = [own for own in parts if own is not None]
    if not known:
        return None
    common: list[tuple[Label, ...] | None] = []
    for seen in zip(*known, strict=True):
        every = [label for own in seen if own is not None for label in own]
        words = [label for label in every if isinstance(label, str)]
        truths = any(isinstance(label, bool) for label in every)
        others = (False, True) if truths else SPINS if every else None
        common.append(in_order(words) if words else others)
    return tuple(common)


def translated(
    states: NDArray[np.integer[Any]], labels: Sequence[Label] | None, own: Sequence[Label]
) -> NDArray[np.int64]:
    """States with `labels` (None: numbers) as those of a column with `own`; -2 where unknown.

    A label is found as it is written, or else whatever the case of its letters.
    """
    truths = [(place, label) for place, label in enumerate(own) if isinstance(label, bool)]
    numbered = {str(int(label)): place for place, label in truths}
    exact = numbered | {_text(label): place for place, label in reversed([*enumerate(own)])}
    loose = {text.casefold(): place for text, place in exact.items()}
    loose = loose if len(loose) == len(exact) else {}

    def place_of(label: Label) -> int:
        text = str(int(label)) if isinstance(label, bool) and "0" in exact else _text(label)
        return exact.get(text, loose.get(text.casefold(), MISSING - 1))

    if labels is not None:
        table = np.array([place_of(label) for label in labels] + [MISSING], dtype=np.int64)
        return np.asarray(table[states])
    seen, inverse = np.unique(states, return_inverse=True)
    spins = MISSING in own  # there, -1 is a label
    places = [MISSING if s == MISSING and not spins else place_of(int(s)) for s in seen]
    return np.array(places, dtype=np.int64)[inverse].reshape(states.shape)


def _text(label: Label) -> str:
    """How a label is written: 2.0 as 2."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def labelled(states: NDArray[np.int64], labels: Sequence[Label]) -> NDArray[Any]:
    """The labels of states, as objects; None where one is missing."""
    table = np.empty(len(labels) + 1, dtype=object)
    table[:-1] = list(labels)
    table[-1] = None
    return np.asarray(table[states])

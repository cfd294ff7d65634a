"""Items as python-crfsuite takes them, read into numbered attributes with values.

An item is what is known of one token:

- a list, tuple or set of names: each has the value 1;
- a dict from name to a number or bool (its value), to a string (`{"w": "dog"}` is the name
  `w:dog`), to a list, tuple or set of strings (one name each), to a dict again (`{"a": {"b": 2}}`
  is `a:b` with value 2), or to a one-dimensional numpy array: a dense block, a value a column.

Values of a name that comes twice add up.  A name made by `mrflearn.edge` belongs to the transition
into the token, and has weights for pairs of labels.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, islice, repeat
from typing import Any, final

import numpy as np

from mrflearn.errors import DataError

SEPARATOR = ":"
UNKNOWN = -1
LARGEST = float(np.finfo(np.float32).max)  # values are kept in single precision
_MANY = (list, tuple, set, frozenset)


@final
class Numbering(dict[Any, int]):
    """Names numbered by first appearance; once closed, a new name is `UNKNOWN`."""

    def __init__(self, names: Iterable[str] = (), *, closed: bool = False) -> None:
        super().__init__((name, number) for number, name in enumerate(names))
        self.closed = closed

    def __missing__(self, name: Any) -> int:
        if not isinstance(name, str):
            raise DataError(_not_a_name(name))
        if self.closed:
            return UNKNOWN
        number = self[name] = len(self)
        return number


@final
class Items:
    """Flat arrays to which items are added one by one; values are kept only where some is not 1."""

    def __init__(self, numbering: Numbering) -> None:
        self.numbering = numbering
        self.numbers = array("i")
        self.values: array[float] | None = None
        self.ends = array("q")
        self.blocks: dict[str, list[tuple[int, np.ndarray]]] = {}

    def add_names(self, sequence: Sequence[Sequence[str]]) -> None:
        """Takes in a whole sequence of lists of names, without a step of Python a token."""
        first = len(self.numbers)
        self._add_names(chain.from_iterable(sequence))
        self.ends.extend(islice(accumulate(map(len, sequence), initial=first), 1, None))

    def add(self, item: Any) -> None:
        """Takes in one token."""
        if isinstance(item, dict):
            self._add_mapping("", item)
        elif isinstance(item, _MANY):
            self._add_names(item)
        elif isinstance(item, np.ndarray):
            self._add_block("", item)
        elif isinstance(item, Mapping):
            self._add_mapping("", item)
        else:
            raise DataError(
                f"an item is a dict, a list of names or a numpy array, not {_kind(item)}. "
                "Is X a list of sequences, each a list of items?"
            )
        self.ends.append(len(self.numbers))

    def _add_names(self, names: Iterable[Any]) -> None:
        # Looked up in C: these lines are most of the time of reading features.
        try:
            if self.numbering.closed:
                found = list(map(self.numbering.get, names, repeat(UNKNOWN)))
            else:
                found = list(map(self.numbering.__getitem__, names))
        except TypeError as error:  # unhashable
            raise DataError(f"names of attributes are strings ({error}).") from error
        self.numbers.fromlist(found)
        self._fill()

    def _add_mapping(self, prefix: str, item: Mapping[Any, Any]) -> None:
        number = self.numbering.__getitem__
        for name, value in item.items():
            if type(value) is str:
                self.numbers.append(number(f"{prefix}{_text(name)}{SEPARATOR}{value}"))
                self._fill()
            elif isinstance(value, _MANY):
                self._add_names(f"{prefix}{_text(name)}{SEPARATOR}{_text(part)}" for part in value)
            elif isinstance(value, Mapping):
                self._add_mapping(f"{prefix}{_text(name)}{SEPARATOR}", value)
            elif isinstance(value, np.ndarray) and value.ndim:
                self._add_block(prefix + _text(name), value)
            elif isinstance(value, bytes):
                self.numbers.append(number(f"{prefix}{_text(name)}{SEPARATOR}{_text(value)}"))
                self._fill()
            else:
                self._add_number(number(prefix + _text(name)), name, value)

    def _add_number(self, number: int, name: Any, value: Any) -> None:
        try:
            value = float(value)
        except OverflowError:  # a whole number beyond all floating-point ones
            value = np.inf
        except (TypeError, ValueError):
            raise DataError(
                f"attribute {name!r} is {_kind(value)}; a value is a number, a string, a list of "
                "strings, a dict, or a numpy array. Leave the attribute out where it is unknown."
            ) from None
        if not -LARGEST <= value <= LARGEST:
            raise DataError(
                f"attribute {name!r} has the value {value}; values must be finite, and no larger "
                f"than {LARGEST:.1e}."
            )
        self.numbers.append(number)
        if value != 1.0 and self.values is None:
            self.values = array("f", [1.0]) * (len(self.numbers) - 1)
        if self.values is not None:
            self.values.append(value)

    def _add_block(self, name: str, values: np.ndarray) -> None:
        if values.ndim != 1 or values.dtype.kind not in "fiub":
            raise DataError(
                f"dense block {name!r} has shape {values.shape} and type {values.dtype}; it must "
                "be one row of numbers for each token."
            )
        rows = self.blocks.setdefault(name, [])
        if rows and len(rows[0][1]) != len(values):
            raise DataError(
                f"dense block {name!r} has {len(values)} columns, {len(rows[0][1])} before."
            )
        if not (np.abs(values) <= LARGEST).all():
            raise DataError(
                f"dense block {name!r} holds a value that is not finite, or above {LARGEST:.1e}."
            )
        rows.append((len(self.ends), values))

    def _fill(self) -> None:
        if self.values is not None:
            self.values.extend([1.0] * (len(self.numbers) - len(self.values)))


def _text(name: Any) -> str:
    if isinstance(name, str):
        return name
    if isinstance(name, bytes):
        return name.decode("utf-8")
    raise DataError(_not_a_name(name))


def _not_a_name(name: Any) -> str:
    return f"{name!r} is {_kind(name)}; names of attributes are strings. Try str(...) around it."


def _kind(value: Any) -> str:
    kind = type(value).__name__
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"

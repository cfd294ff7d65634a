"""Items compiled to sparse features.

An item is what is known of one token:

- a list, tuple or set of names: each has the value 1;
- a dict from name to a number or bool (its value), to a string (`{"w": "dog"}` is the name
  `w:dog`), to a list, tuple or set of strings (one name each), to a dict again (`{"a": {"b": 2}}`
  is `a:b` with value 2), or to a one-dimensional numpy array: a dense block, a value a column.

Values of a name that comes twice add up.  A name made by `mrflearn.edge` belongs to the transition
into the token, and has weights for pairs of labels.

Letters in shapes: b: sequences; k: tokens, all sequences end to end; z: attributes of all tokens;
d: dense columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice, repeat
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float32, Int32, Int64
from torch import Tensor

from mrflearn.errors import DataError

# Items as python-crfsuite takes them, read into numbered attributes with values.


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
class _Entries(dict[tuple[Any, Any], int]):
    """Entries (name, value) of dicts numbered by first appearance, each read once.

    An entry stands for attribute `attributes[number]` with the value `amounts[number]`.  Where
    names are closed, new attributes and values of 0 say nothing: they are `UNKNOWN`.
    """

    def __init__(self, numbering: Numbering) -> None:
        super().__init__()
        self.numbering = numbering
        self.attributes = array("i")
        self.amounts = array("f")

    def __missing__(self, entry: tuple[Any, Any]) -> int:
        name, value = entry
        if type(value) is str and type(name) is str:  # nearly always
            attribute, value = self.numbering[f"{name}{SEPARATOR}{value}"], 1.0
        elif isinstance(value, str | bytes):
            attribute, value = self.numbering[f"{_text(name)}{SEPARATOR}{_text(value)}"], 1.0
        elif isinstance(value, tuple | frozenset):
            raise DataError("an entry with several names")
        else:
            attribute, value = self.numbering[_text(name)], _number(name, value)
        if self.numbering.closed and (attribute == UNKNOWN or value == 0):
            attribute, value = UNKNOWN, 1.0
        number = self[entry] = len(self)
        self.attributes.append(attribute)
        self.amounts.append(value)
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
        self._entries = _Entries(numbering)

    def add_dicts(self, sequence: Sequence[dict[Any, Any]]) -> bool:
        """Takes in a whole sequence of dicts without a step of Python a token, if they allow it.

        They do where every value is a string or a number.
        """
        sizes = list(map(len, sequence))
        entries = chain.from_iterable(map(dict.items, sequence))
        try:
            found = np.fromiter(map(self._entries.__getitem__, entries), np.int64, sum(sizes))
        except (TypeError, DataError):  # not hashable, or wrong: one by one, to find the place
            return False
        first, values = len(self.numbers), np.ones(0, np.float32)
        if len(found):
            table = np.frombuffer(self._entries.attributes, np.int32)
            self.numbers.frombytes(table[found].tobytes())
            values = np.frombuffer(self._entries.amounts, np.float32)[found]
        if self.values is None and (values != 1.0).any():
            self.values = array("f", [1.0]) * first
        if self.values is not None:
            self.values.frombytes(values.tobytes())
        self.ends.extend(islice(accumulate(sizes, initial=first), 1, None))
        return True

    def add_names(self, sequence: Sequence[Sequence[str]]) -> None:
        """Takes in a whole sequence of lists of names, without a step of Python a token."""
        first = len(self.numbers)
        self._add_names(chain.from_iterable(sequence))
        self.ends.extend(islice(accumulate(map(len, sequence), initial=first), 1, None))

    def add(self, item: Any) -> None:
        """Takes in one token."""
        if isinstance(item, Mapping):
            self._add_mapping("", item)
        elif isinstance(item, _MANY):
            self._add_names(item)
        elif isinstance(item, np.ndarray):
            self._add_block("", item)
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
            if isinstance(value, str | bytes):
                self.numbers.append(number(f"{prefix}{_text(name)}{SEPARATOR}{_text(value)}"))
                self._fill()
            elif isinstance(value, _MANY):
                self._add_names(f"{prefix}{_text(name)}{SEPARATOR}{_text(part)}" for part in value)
            elif isinstance(value, Mapping):
                self._add_mapping(f"{prefix}{_text(name)}{SEPARATOR}", value)
            elif isinstance(value, np.ndarray) and value.ndim:
                self._add_block(prefix + _text(name), value)
            else:
                self._add_number(number(prefix + _text(name)), name, value)

    def _add_number(self, number: int, name: Any, value: Any) -> None:
        value = _number(name, value)
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


def _number(name: Any, value: Any) -> float:
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond all floating-point ones
        number = np.inf
    except (TypeError, ValueError):
        raise DataError(
            f"attribute {name!r} is {_kind(value)}; a value is a number, a string, a list of "
            "strings, a dict, or a numpy array. Leave the attribute out where it is unknown."
        ) from None
    if not -LARGEST <= number <= LARGEST:
        raise DataError(
            f"attribute {name!r} has the value {number}; values must be finite, and no larger "
            f"than {LARGEST:.1e}."
        )
    return number


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


# Sequences of items as flat tensors: features leave Python once, and serve many fits.


KINDS = {"i": torch.int32, "q": torch.int64, "f": torch.float32}


@dataclass(frozen=True, eq=False)
class CompiledFeatures:
    """The attributes of every token by number, and their values (None: all are 1).

    `names` are the attributes and `columns` the dense ones, in the order of their numbers.
    """

    names: Numbering
    columns: tuple[str, ...]
    lengths: Int64[Tensor, " b"]
    ends: Int64[Tensor, " k"]
    attributes: Int32[Tensor, " z"]
    values: Float32[Tensor, " z"] | None
    dense: Float32[Tensor, "k d"] | None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def tokens(self) -> int:
        return len(self.ends)

    @property
    def nbytes(self) -> int:
        """How much memory the tensors take."""
        held = (self.lengths, self.ends, self.attributes, self.values, self.dense)
        return sum(tensor.nbytes for tensor in held if tensor is not None)

    @property
    def owner(self) -> Int32[Tensor, " z"]:
        """The token of each attribute."""
        counts = self.ends.diff(prepend=self.ends.new_zeros(1))
        return torch.arange(self.tokens, dtype=torch.int32).repeat_interleave(counts)

    def taken(self, tokens: Int64[Tensor, " n"]) -> CompiledFeatures:
        """These tokens in this order, as one sequence."""
        counts = self.ends.diff(prepend=self.ends.new_zeros(1))
        begin, size = (self.ends - counts)[tokens], counts[tokens]
        ends = size.cumsum(0)
        shift = (begin - (ends - size)).repeat_interleave(size)
        source = torch.arange(len(shift)) + shift
        return replace(
            self,
            lengths=torch.tensor([len(tokens)]),
            ends=ends,
            attributes=self.attributes[source],
            values=None if self.values is None else self.values[source],
            dense=None if self.dense is None else self.dense[tokens],
        )

    def split(self, sizes: Sequence[int]) -> Iterator[CompiledFeatures]:
        """Runs of so many sequences each."""
        begin = low = 0
        for lengths in self.lengths.split(list(sizes)):
            stop = begin + int(lengths.sum())
            high = int(self.ends[stop - 1]) if stop else 0
            yield replace(
                self,
                lengths=lengths,
                ends=self.ends[begin:stop] - low,
                attributes=self.attributes[low:high],
                values=None if self.values is None else self.values[low:high],
                dense=None if self.dense is None else self.dense[begin:stop],
            )
            begin, low = stop, high

    def renumbered(self, number: Int64[Tensor, " a"], names: Numbering) -> CompiledFeatures:
        """The same tokens with attribute i called number[i]; `UNKNOWN` ones are dropped."""
        renamed = number.int()[self.attributes]
        kept = renamed != UNKNOWN
        counts = torch.zeros(self.tokens + 1, dtype=torch.int64)
        counts[1:] = torch.bincount(self.owner[kept], minlength=self.tokens)
        return replace(
            self,
            names=names,
            ends=counts.cumsum(0)[1:],
            attributes=renamed[kept],
            values=None if self.values is None else self.values[kept],
        )


def compile_features(
    sequences: Iterable[Iterable[Any]],
    names: Numbering | None = None,
    columns: Sequence[str] | None = None,
) -> CompiledFeatures:
    """The features of sequences of items, which may come from a generator.

    With closed `names` (and the dense `columns` that go with them) new attributes are dropped.
    """
    own = names is None
    names = Numbering() if names is None else names
    items, lengths = Items(names), []
    for number, sequence in enumerate(sequences):
        before = len(items.ends)
        _add_sequence(items, sequence, number)
        lengths.append(len(items.ends) - before)
    names.closed = names.closed or own  # whoever shares these names need not copy them
    block_columns, dense = _dense(items, columns)
    attributes = as_tensor(items.numbers)
    values = None if items.values is None else as_tensor(items.values)
    compiled = CompiledFeatures(
        names,
        block_columns,
        torch.tensor(lengths, dtype=torch.int64),
        as_tensor(items.ends),
        attributes,
        values,
        dense,
    )
    if names.closed and bool((attributes == UNKNOWN).any()):
        return compiled.renumbered(torch.arange(-1, len(names)).roll(-1), names)
    return compiled


def as_tensor(numbers: array[Any]) -> Tensor:
    """The same memory as a tensor."""
    if not numbers:  # torch.frombuffer refuses to be empty
        return torch.from_numpy(np.array(numbers))
    return torch.frombuffer(numbers, dtype=KINDS[numbers.typecode])


def _add_sequence(items: Items, sequence: Iterable[Any], number: int) -> None:
    if isinstance(sequence, str | bytes | dict):
        raise DataError(
            f"sequence {number} is a {type(sequence).__name__}: X is a list of sequences, each a "
            "list of items. For one sequence write [sequence]."
        )
    first = len(items.ends)
    try:
        tokens = iter(sequence)
    except TypeError:
        raise DataError(
            f"sequence {number} is a {type(sequence).__name__}: X is a list of lists of items."
        ) from None
    try:
        if isinstance(sequence, list):
            kinds = set(map(type, sequence))
            if kinds == {list}:
                items.add_names(sequence)
                return
            if kinds == {dict} and items.add_dicts(sequence):
                return
        for item in tokens:
            items.add(item)
    except DataError as error:
        place = f"sequence {number}, token {len(items.ends) - first}"
        raise DataError(f"{place}: {error.problem}") from None


def _dense(items: Items, wanted: Sequence[str] | None) -> tuple[tuple[str, ...], Tensor | None]:
    """The dense columns and a row of them for each token (zeros where a block is absent)."""
    found = {
        name: [f"{name}[{i}]" for i in range(len(rows[0][1]))]
        for name, rows in items.blocks.items()
    }
    columns = tuple(chain.from_iterable(found.values())) if wanted is None else tuple(wanted)
    if not columns:
        return columns, None
    place = {column: i for i, column in enumerate(columns)}
    table = np.zeros((len(items.ends), len(columns)), dtype=np.float32)
    for name, rows in items.blocks.items():
        _check_columns(name, found[name], place)
        if found[name][0] in place:
            tokens = [token for token, _ in rows]
            at = [place[column] for column in found[name]]
            table[np.ix_(tokens, at)] = np.stack([values for _, values in rows])
    return columns, torch.from_numpy(table)


def _check_columns(name: str, found: list[str], place: dict[str, int]) -> None:
    known = sum(column.rpartition("[")[0] == name for column in place)
    if known and known != len(found):
        raise DataError(
            f"dense block {name!r} has {len(found)} columns; in training it had {known}."
        )

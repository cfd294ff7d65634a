"""Sequences of items, and their labels, compiled to flat tensors.

An item is what is known of one token:

- a list, tuple or set of names: each has the value 1;
- a dict from name to a number or bool (its value), to a string (`{"w": "dog"}` is the name
  `w:dog`), to a list, tuple or set of strings (one name each), to a dict again (`{"a": {"b": 2}}`
  is `a:b` with value 2), or to a one-dimensional numpy array: a dense block, a value a column.

Values of a name that comes twice add up.  A name made by `mrflearn.edge` belongs to the transition
into the token, and has weights for pairs of labels.  A label is a string, None where it is unknown,
or a set of strings where it is one of several.

Letters in shapes: b: sequences; k: tokens, all sequences end to end; z: attributes of all tokens;
d: dense columns; m: tokens whose label is not known for certain; s: labels.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, repeat
from typing import Any, Literal, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int32, Int64
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mrflearn.errors import DataError, warn_user

# Items as python-crfsuite takes them, read into numbered attributes with values.


SEPARATOR = ":"
UNKNOWN = -1
LARGEST = float(np.finfo(np.float32).max)  # values are kept in single precision
MOST_ENTRIES = 1 << 20  # that are kept
# Sequences read at once, and tokens that a set of names needs to be read together.
AT_ONCE, MANY_ALIKE = 32, 16
_MANY = (list, tuple, set, frozenset)
# The numbers and values of attributes, and how many of them each token has.
Part = tuple["array[int]", NDArray[np.float32] | None, list[int]]


class Numbering(dict[Any, int]):
    """Names numbered by first appearance; once closed, a new name is `UNKNOWN`."""

    def __init__(self, names: Iterable[str] = (), *, closed: bool = False) -> None:
        super().__init__((name, number) for number, name in enumerate(names))
        self.closed = closed
        self.values_of: dict[Any, _Reading] = {}  # what closed names were seen with

    def __missing__(self, name: Any) -> int:
        if not isinstance(name, str):
            raise DataError(_not_a_name(name))
        if self.closed:
            return UNKNOWN
        number = self[name] = len(self)
        return number

    def __getstate__(self) -> dict[str, Any]:
        return {"closed": self.closed, "values_of": {}}


@final
class Unnamed(Numbering):
    """So many attributes, for who knows them by their numbers: names need not travel."""

    def __init__(self, count: int) -> None:
        super().__init__(closed=True)
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __reduce__(self) -> tuple[type[Unnamed], tuple[int]]:
        return Unnamed, (self.count,)


class _Reading(dict[Any, complex]):
    """What entries of dicts say, each read once: attribute 3 with the value 0.5 is 3 + 0.5i."""

    def __init__(self, read: Callable[[Any], complex]) -> None:
        super().__init__()
        self.read = read

    def __missing__(self, entry: Any) -> complex:
        if len(self) >= MOST_ENTRIES:
            self.clear()
        found = self[entry] = self.read(entry)
        return found


def _read(numbering: Numbering, name: Any, value: Any) -> complex:
    """Where names are closed, new attributes and values of 0 say nothing: they are `UNKNOWN`."""
    if type(value) is str and type(name) is str:  # nearly always
        attribute, value = numbering[f"{name}{SEPARATOR}{value}"], 1.0
    elif isinstance(value, tuple | frozenset):
        raise DataError("an entry with several names")
    else:
        ((text, value),) = _flat({name: value})
        attribute = numbering[text]
    if numbering.closed and (attribute == UNKNOWN or value == 0):
        return complex(UNKNOWN, 1)
    return complex(attribute, value)


@final
class Items:
    """Flat arrays to which sequences are added; values are kept only where some is not 1."""

    def __init__(self, numbering: Numbering) -> None:
        self.numbering = numbering
        self.numbers = array("i")
        self.values: array[float] | None = None
        self.sizes = array("q")
        self.blocks: dict[str, list[tuple[int, np.ndarray]]] = {}
        self._entries = _Reading(lambda entry: _read(numbering, *entry))

    def add(self, sequence: Iterable[Any], number: int) -> int:
        """Takes in the tokens of a sequence, and counts them; its number is for error messages.

        Dicts of strings and numbers, and collections of names, are read without a step of Python
        a token; what that stumbles over is read one by one, to find the place.
        """
        tokens = None
        with suppress(TypeError):
            tokens = None if isinstance(sequence, str | bytes | dict) else iter(sequence)
        if tokens is None:
            raise DataError(
                f"sequence {number} is {_kind(sequence)}: X is a list of sequences, each a list of "
                "items. For one sequence write [sequence]."
            )
        part = None
        if isinstance(sequence, list | tuple):
            kinds = set(map(type, sequence))
            with suppress(TypeError, DataError):  # TypeError: an entry is not hashable
                if kinds == {dict}:
                    part = self._of_dicts(sequence)
                elif kinds and kinds <= {*_MANY}:
                    part = self._of_names(sequence)
        return self._append(*(part or self._one_by_one(tokens, number)))

    def add_known(self, sequences: Sequence[Any]) -> array[int] | None:
        """Takes in sequences of dicts by closed names, tokens with the same names together.

        Their lengths; None where they must be read one by one.
        """
        flat = set(map(type, sequences)) == {list}
        tokens = list(chain.from_iterable(sequences)) if flat else []
        alike: dict[tuple[Any, ...], list[int]] = {}
        if set(map(type, tokens)) == {dict}:
            for place, names in enumerate(map(tuple, tokens)):
                alike.setdefault(names, []).append(place)
        if not alike or MANY_ALIKE * len(alike) > len(tokens):
            return None
        sizes = np.fromiter(map(len, tokens), np.int64, len(tokens))
        begins = sizes.cumsum() - sizes
        found, known = np.empty(sizes.sum(), np.complex128), self.numbering.values_of
        with suppress(TypeError, DataError):
            for names, places in alike.items():
                own = map(dict.values, map(tokens.__getitem__, places))
                values, first = list(chain.from_iterable(own)), begins[places]
                for k, name in enumerate(names):
                    if name not in known:
                        known[name] = _Reading(partial(_read, self.numbering, name))
                    column = map(known[name].__getitem__, values[k :: len(names)])
                    found[first + k] = np.fromiter(column, np.complex128, len(places))
            self._append(*_parted(found), sizes.tolist())
            return array("q", map(len, sequences))
        return None

    def _of_dicts(self, sequence: Sequence[dict[Any, Any]]) -> Part:
        sizes = list(map(len, sequence))
        entries = chain.from_iterable(map(dict.items, sequence))
        found = np.fromiter(map(self._entries.__getitem__, entries), np.complex128, sum(sizes))
        return *_parted(found), sizes

    def _of_names(self, sequence: Sequence[Collection[str]]) -> Part:
        sizes, names = list(map(len, sequence)), chain.from_iterable(sequence)
        if self.numbering.closed:
            found = list(map(self.numbering.get, names, repeat(UNKNOWN)))
        else:
            found = list(map(self.numbering.__getitem__, names))
        return array("i", found), None, sizes  # quicker than an array of numpy

    def _one_by_one(self, tokens: Iterator[Any], number: int) -> Part:
        numbers, values, sizes = list[int](), list[float](), list[int]()
        for item in tokens:
            before = len(numbers)
            try:
                for name, value in _flat(item):
                    if isinstance(value, np.ndarray):
                        self._add_block(name, value, len(self.sizes) + len(sizes))
                    else:
                        numbers.append(self.numbering[name])
                        values.append(value)
            except DataError as error:
                place = f"sequence {number}, token {len(sizes)}"
                raise DataError(f"{place}: {error.problem}") from None
            sizes.append(len(numbers) - before)
        return array("i", numbers), np.array(values, np.float32), sizes

    def _append(
        self, numbers: array[int], values: NDArray[np.float32] | None, sizes: list[int]
    ) -> int:
        if self.values is None and values is not None and (values != 1.0).any():
            self.values = array("f", [1.0]) * len(self.numbers)
        if self.values is not None:
            values = np.ones(len(numbers), np.float32) if values is None else values
            self.values.frombytes(values.tobytes())
        self.numbers.extend(numbers)
        self.sizes.extend(sizes)
        return len(sizes)

    def _add_block(self, name: str, values: np.ndarray, token: int) -> None:
        block = f"dense block {name!r}"
        if values.ndim != 1 or values.dtype.kind not in "fiub":
            raise DataError(
                f"{block} is {values.dtype} of shape {values.shape}; a token has a row of numbers."
            )
        rows = self.blocks.setdefault(name, [])
        if rows and len(rows[0][1]) != len(values):
            raise DataError(f"{block} has {len(values)} columns, {len(rows[0][1])} before.")
        if not (np.abs(values) <= LARGEST).all():
            raise DataError(f"{block} holds a value that is not finite, or above {LARGEST:.1e}.")
        rows.append((token, values))


def _parted(found: NDArray[np.complex128]) -> tuple[array[int], NDArray[np.float32]]:
    return array("i", found.real.astype("i").tobytes()), found.imag.astype("f")


def _flat(item: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The names of an item, each with its number or its dense block."""
    if isinstance(item, np.ndarray):
        yield "", item
    elif isinstance(item, _MANY):
        for name in item:
            if not isinstance(name, str):
                raise DataError(_not_a_name(name))
            yield name, 1.0
    elif not isinstance(item, Mapping):
        raise DataError(
            f"an item is a dict, a list of names or a numpy array, not {_kind(item)}. "
            "Is X a list of sequences, each a list of items?"
        )
    else:
        for key, value in item.items():
            name = prefix + _text(key)
            if isinstance(value, str | bytes):
                yield f"{name}{SEPARATOR}{_text(value)}", 1.0
            elif isinstance(value, _MANY):
                yield from ((f"{name}{SEPARATOR}{_text(part)}", 1.0) for part in value)
            elif isinstance(value, Mapping):
                yield from _flat(value, f"{name}{SEPARATOR}")
            elif isinstance(value, np.ndarray) and value.ndim:
                yield name, value
            else:
                yield name, _number(key, value)


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
            f"attribute {name!r} is {number}; values are finite, at most {LARGEST:.1e}."
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
        place, owner = attributes_of(self, tokens)
        ends = torch.bincount(owner, minlength=len(tokens)).cumsum(0)
        return self._part(place, tokens, lengths=torch.tensor([len(tokens)]), ends=ends)

    def split(self, sizes: Sequence[int]) -> Iterator[CompiledFeatures]:
        """Runs of so many sequences each."""
        begin = low = 0
        for lengths in self.lengths.split(list(sizes)):
            stop = begin + int(lengths.sum())
            high = int(self.ends[stop - 1]) if stop else 0
            ends = self.ends[begin:stop] - low
            yield self._part(slice(low, high), slice(begin, stop), lengths=lengths, ends=ends)
            begin, low = stop, high

    def renumbered(self, number: Int64[Tensor, " a"], names: Numbering) -> CompiledFeatures:
        """The same tokens with attribute i called number[i]; `UNKNOWN` ones are dropped."""
        renamed = number.int()[self.attributes]
        kept = renamed != UNKNOWN
        ends = torch.bincount(self.owner[kept], minlength=self.tokens).cumsum(0)
        return replace(self, attributes=renamed)._part(kept, slice(None), names=names, ends=ends)

    def _part(
        self, place: Tensor | slice, tokens: Tensor | slice, **changed: Any
    ) -> CompiledFeatures:
        """The same with the attributes at these places, and the dense columns of these tokens."""
        attributes = self.attributes[place]
        values = None if self.values is None else self.values[place]
        dense = None if self.dense is None else self.dense[tokens]
        return replace(self, attributes=attributes, values=values, dense=dense, **changed)


def attributes_of(
    features: CompiledFeatures, rows: Int64[Tensor, " f"]
) -> tuple[Int64[Tensor, " z"], Int64[Tensor, " z"]]:
    """For the attributes of these rows, one after the other: where they stand, and whose they are.

    The first answer counts the places of `features.attributes`, the second those of `rows`.
    """
    ends = features.ends[rows]
    begins = torch.where(rows > 0, features.ends[(rows - 1).clamp(min=0)], 0)
    size = ends - begins
    owner = torch.arange(len(rows)).repeat_interleave(size)
    shift = begins - (size.cumsum(0) - size)
    return torch.arange(len(owner)) + shift[owner], owner


def compile_features(
    sequences: Iterable[Iterable[Any]],
    names: Numbering | None = None,
    columns: Sequence[str] | None = None,
) -> CompiledFeatures:
    """The features of sequences of items, which may come from a generator.

    With closed `names` (and the dense `columns` that go with them) new attributes are dropped.
    """
    names = Numbering() if names is None else names
    items = Items(names)
    lengths, given = array("q"), iter(sequences)
    while some := list(islice(given, AT_ONCE)):
        known = items.add_known(some) if names.closed else None
        lengths.extend(known or (items.add(own, k) for k, own in enumerate(some, len(lengths))))
    names.closed = True  # whoever shares these names need not copy them
    block_columns, dense = _dense(items, columns)
    compiled = CompiledFeatures(
        names,
        block_columns,
        _as_tensor(lengths),
        _as_tensor(items.sizes).cumsum(0),
        _as_tensor(items.numbers),
        None if items.values is None else _as_tensor(items.values),
        dense,
    )
    if bool((compiled.attributes == UNKNOWN).any()):
        return compiled.renumbered(torch.arange(-1, len(names)).roll(-1), names)
    return compiled


def _as_tensor(numbers: array[Any]) -> Tensor:
    """The same memory as a tensor."""
    return torch.from_numpy(np.asarray(numbers))


def _dense(items: Items, wanted: Sequence[str] | None) -> tuple[tuple[str, ...], Tensor | None]:
    """The dense columns and a row of them for each token (zeros where a block is absent)."""
    sizes = {name: len(rows[0][1]) for name, rows in items.blocks.items()}
    found = (f"{name}[{i}]" for name, size in sizes.items() for i in range(size))
    columns = tuple(found if wanted is None else wanted)
    if not columns:
        return columns, None
    table = np.zeros((len(items.sizes), len(columns)), dtype=np.float32)
    for name, size in sizes.items():
        at = [place for place, column in enumerate(columns) if column.rpartition("[")[0] == name]
        if at and len(at) != size:
            raise DataError(
                f"dense block {name!r} has {size} columns; in training it had {len(at)}."
            )
        tokens, values = zip(*items.blocks[name], strict=True)
        table[np.ix_(tokens, at)] = np.stack(values)[:, : len(at)]
    return columns, torch.from_numpy(table)


# Labels of sequences by number: known, unknown (None), or one of several (a set).


Label = str | None | Iterable[str]


@dataclass(frozen=True, eq=False)
class CompiledLabels:
    """The label of every token (`UNKNOWN` where uncertain), and what uncertain ones may be."""

    names: Numbering
    states: Int64[Tensor, " k"]
    uncertain: Int64[Tensor, " m"]
    allowed: Bool[Tensor, "m s"]

    def allowed_states(self) -> Bool[Tensor, "k s"]:
        """Which labels each token may have."""
        known = torch.nn.functional.one_hot(self.states.clamp(min=0), len(self.names)).bool()
        return known.index_copy(0, self.uncertain, self.allowed)

    def taken(self, tokens: Int64[Tensor, " n"]) -> CompiledLabels:
        """Those of these tokens, in this order."""
        place = torch.full_like(self.states, UNKNOWN)
        place[self.uncertain] = torch.arange(len(self.uncertain))
        chosen = place[tokens]
        unsure = (chosen != UNKNOWN).nonzero().squeeze(1)
        allowed = self.allowed[chosen[unsure]]
        return CompiledLabels(self.names, self.states[tokens], unsure, allowed)

    def unknown(self) -> Bool[Tensor, " k"]:
        """The tokens of whose label nothing is known."""
        found = torch.zeros(len(self.states), dtype=torch.bool)
        found[self.uncertain[self.allowed.all(dim=1)]] = True
        return found


def warn_of_single_label(names: Collection[str]) -> None:
    """Warns where there is nothing to choose from: every answer will be the one label."""
    if len(names) == 1:
        warn_user(
            f"y has one label only, {next(iter(names))!r}: every prediction will be this one. "
            "Are they the labels that were meant?"
        )


def compile_labels(
    sequences: Iterable[Iterable[Label]], lengths: Int64[Tensor, " b"], names: Numbering
) -> CompiledLabels:
    """The labels of sequences of these lengths; a closed numbering refuses new names."""
    given = list(sequences)
    states = array("q")
    sets: dict[int, list[int] | slice] = {}
    if len(given) != len(lengths):
        raise DataError(f"X has {len(lengths)} sequences and y has {len(given)}.")
    for number, (labels, length) in enumerate(zip(given, lengths.tolist(), strict=True)):
        first = len(states)
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise DataError(
                f"the labels of sequence {number} are {labels!r}: y is a list of lists of labels."
            )
        for token, label in enumerate(labels):
            if type(label) is str and label in names:
                states.append(names[label])
                continue
            try:
                members = _members(label, names)
            except DataError as error:
                place = f"sequence {number}, token {token}"
                raise DataError(f"{place}: {error.problem}") from None
            if members is None or len(members) > 1:
                sets[len(states)] = slice(None) if members is None else members
                members = [UNKNOWN]
            states.append(members[0])
        if len(states) - first != length:
            found = len(states) - first
            raise DataError(f"sequence {number} has {length} items and {found} labels.")
    allowed = torch.zeros(len(sets), len(names), dtype=torch.bool)
    for row, known in enumerate(sets.values()):
        allowed[row, known] = True
    uncertain = torch.tensor(list(sets), dtype=torch.int64)
    return CompiledLabels(names, _as_tensor(states), uncertain, allowed)


def _members(label: Any, names: Numbering) -> list[int] | None:
    """The numbers of the labels that a token may have; None: any."""
    if label is None:
        return None
    members = list(label) if isinstance(label, _MANY) else [label]
    if not members:
        raise DataError("an empty set of labels; None means unknown.")
    for name in members:
        if not isinstance(name, str):
            raise DataError(
                f"label {name!r} is {_kind(name)}; labels are strings, None (unknown) or sets of "
                "strings. Try str(...) around it."
            )
        if names[str(name)] == UNKNOWN:
            known = ", ".join(sorted(names)[:12])
            raise DataError(f"label '{name}' was not seen in training ({known}).")
    return [names[str(name)] for name in members]


# How much each sequence counts: its own weight times the mean weight of its labels.


def sequence_weights(
    lengths: Int64[Tensor, " b"],
    labels: CompiledLabels,
    class_weight: Mapping[str, float] | Literal["balanced"] | None,
    sample_weight: ArrayLike | None,
) -> Float[Tensor, " b"] | None:
    """The weight of each sequence; None: all count once.

    `"balanced"` weighs a label by tokens / (labels * tokens of that label), as scikit-learn does.
    A label that a mapping does not name weighs 1, and so does an uncertain one.
    """
    own = None if sample_weight is None else torch.tensor(np.asarray(sample_weight, np.float64))
    if own is not None and (own.shape != lengths.shape or not bool((own >= 0).all())):
        raise DataError(
            f"sample_weight: one number of at least 0 for each of the {len(lengths)} sequences."
        )
    if class_weight is None:
        return own
    by_token = _label_weights(labels, class_weight)[labels.states]
    by_token = by_token.where(labels.states != UNKNOWN, 1.0)
    owner = torch.arange(len(lengths)).repeat_interleave(lengths)
    total = torch.zeros(len(lengths), dtype=torch.float64).index_add_(0, owner, by_token)
    mean = total / lengths.clamp(min=1)
    return mean if own is None else mean * own


def _label_weights(
    labels: CompiledLabels, class_weight: Mapping[str, float] | Literal["balanced"]
) -> Float[Tensor, " s"]:
    if class_weight == "balanced":
        known = labels.states[labels.states != UNKNOWN]
        counts = torch.bincount(known, minlength=len(labels.names)).double()
        return len(known) / (len(labels.names) * counts.clamp(min=1))
    if not isinstance(class_weight, Mapping):
        raise DataError(f"class_weight is a dict or 'balanced', not {class_weight!r}.")
    unknown = [name for name in class_weight if name not in labels.names]
    if unknown:
        names = ", ".join(sorted(labels.names)[:12])
        raise DataError(f"class_weight names '{unknown[0]}', but the labels are {names}.")
    weights = [float(class_weight.get(name, 1.0)) for name in labels.names]
    return torch.tensor(weights, dtype=torch.float64)

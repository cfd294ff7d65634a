"""Sequences of items as flat tensors: features leave Python once, and serve many fits.

Letters in shapes: b: sequences; k: tokens, all sequences end to end; z: attributes of all tokens;
d: dense columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int32, Int64
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.features import UNKNOWN, Items, Numbering

KINDS = {"i": torch.int32, "q": torch.int64, "f": torch.float32}


@dataclass(frozen=True, eq=False)
class CompiledFeatures:
    """The attributes of every token by number, and their values (None: all are 1).

    `names` are the attributes and `columns` the dense ones, in the order of their numbers.
    """

    names: Numbering
    columns: tuple[str, ...]
    lengths: Int64[Tensor, "b"]
    ends: Int64[Tensor, "k"]
    attributes: Int32[Tensor, "z"]
    values: Float32[Tensor, "z"] | None
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
    def owner(self) -> Int32[Tensor, "z"]:
        """The token of each attribute."""
        counts = self.ends.diff(prepend=self.ends.new_zeros(1))
        return torch.arange(self.tokens, dtype=torch.int32).repeat_interleave(counts)

    def taken(self, tokens: Int64[Tensor, "n"]) -> CompiledFeatures:
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

    def part(self, first: int, end: int) -> CompiledFeatures:
        """The sequences from `first` up to `end` alone."""
        begin, stop = (int(self.lengths[:number].sum()) for number in (first, end))
        low, high = (int(self.ends[token - 1]) if token else 0 for token in (begin, stop))
        return replace(
            self,
            lengths=self.lengths[first:end],
            ends=self.ends[begin:stop] - low,
            attributes=self.attributes[low:high],
            values=None if self.values is None else self.values[low:high],
            dense=None if self.dense is None else self.dense[begin:stop],
        )

    def renumbered(self, number: Int64[Tensor, "a"], names: Numbering) -> CompiledFeatures:
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
        if type(sequence) is list and set(map(type, sequence)) == {list}:
            items.add_names(sequence)
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

"""Samples of the variables of a field, and counts of joint states of its cliques.

Samples are best held by column, one byte a state, so that the codes of a few cliques at a time are
made and counted within the processor's cache: about two nanoseconds per clique and sample.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.io.files import PathLike
from mrflearn.io.samples import CHUNK_ROWS, Columns, SampleTable, column_order, read_sample_chunks
from mrflearn.io.state_codes import StateCodes, place_of

BLOCK = 1 << 17  # codes held at once
SOON = 256  # rows that show most joint states that are shown at all
NARROW = 256  # joint states that one byte can number
LEAVE_OUT = (
    "Missing values are for training by the estimators 'lap' and 'pl' alone; leave such rows out "
    "here."
)
EXPECT_MISSING = (
    "Give missing=True: the estimator 'lap' then learns from files in which values are missing."
)


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of states, each with the number of times (or the weight) it was seen; None: once each.

    Where values are `missing`, the largest number of the states' type stands for them.
    """

    states: Int[Tensor, "n v"]
    weights: Float[Tensor, " n"] | None = None
    missing: bool = False

    @classmethod
    def of(
        cls,
        rows: NDArray[np.integer] | Int[Tensor, "n v"],
        weights: Float[Tensor, " n"] | None = None,
        device: torch.device | str = "cpu",
    ) -> Samples:
        """A table of states, -1 where a value is missing, held by column and by the byte."""
        table = torch.as_tensor(rows)
        narrow = torch.uint8 if not table.numel() or int(table.max()) < 255 else torch.int32
        columns = torch.empty(table.shape[1], table.shape[0], dtype=narrow)
        columns.copy_(table.T)  # -1 becomes 255 in bytes
        missing = bool(table.numel()) and int(table.min()) < 0
        if missing and narrow == torch.int32:
            columns[columns < 0] = torch.iinfo(narrow).max
        return cls(columns.to(device).T, weights, missing)

    @classmethod
    def distinct(
        cls, states: Int[Tensor, "n v"], weights: Float[Tensor, " n"] | None = None
    ) -> Samples:
        """The distinct rows, sorted, each with its summed weight (default: 1 a row)."""
        weights = cls(states, weights).row_weights
        if not len(states):
            return cls(states, weights)
        rows, where = torch.unique(states, dim=0, return_inverse=True)
        total = torch.zeros(len(rows), dtype=weights.dtype, device=weights.device)
        return cls(rows, total.index_add(0, where, weights))

    def __len__(self) -> int:
        return len(self.states)

    @property
    def row_weights(self) -> Float[Tensor, " n"]:
        """The weight of each row."""
        if self.weights is not None:
            return self.weights
        return torch.ones(len(self), dtype=torch.float64, device=self.states.device)

    @property
    def total(self) -> float:
        """The weight of all rows together."""
        return float(len(self) if self.weights is None else self.weights.sum())

    def observed(self) -> Bool[Tensor, "n v"]:
        """Which values are there."""
        if not self.missing:
            return torch.ones_like(self.states, dtype=torch.bool)
        return self.states.ne(torch.iinfo(self.states.dtype).max)

    def complete(self) -> Samples:
        """The rows in which no value is missing."""
        if not self.missing:
            return self
        rows = self.observed().all(dim=1)
        weights = None if self.weights is None else self.weights[rows]
        return Samples(self.states.T[:, rows].T, weights)

    def chunks(self, rows: int) -> Iterator[Samples]:
        """The same samples, at most `rows` rows at a time."""
        for start in range(0, len(self.states), rows):
            here = slice(start, start + rows)
            weights = None if self.weights is None else self.weights[here]
            yield Samples(self.states[here], weights, self.missing)

    def count(self, scope: Int[Tensor, "q n"], sizes: Sequence[int]) -> Float[Tensor, "x q"]:
        """The weight of every joint state of every scope, the last variable changing fastest.

        The variable -1 is always in state 0.  Where values are missing, each variable has one more
        state, its last: "not seen".
        """
        if self.missing:
            sizes = [size + 1 for size in sizes]
        cells = prod(sizes)
        counts = torch.zeros(len(scope), cells, dtype=torch.float64, device=scope.device)
        together = max(1, BLOCK // max(1, len(self)))
        for first in range(0, len(scope), together):
            part = scope[first : first + together]
            start = torch.arange(len(part), device=scope.device).unsqueeze(1) * cells
            for chunk in self.chunks(BLOCK):
                code = chunk._codes(part, sizes).add_(start).view(-1)
                weight = chunk.weights
                if weight is not None:
                    weight = weight.expand(len(part), -1).reshape(-1)
                found = torch.bincount(code, weight, minlength=len(part) * cells)
                counts[first : first + together] += found.view(len(part), cells)
        return counts.T.contiguous()

    def count_known(self, scope: Int[Tensor, "q n"], sizes: Sequence[int]) -> Float[Tensor, "x q"]:
        """The same of the rows in which all variables of a scope were seen."""
        counts = self.count(scope, sizes)
        if not self.missing:
            return counts
        table = counts.view(*(size + 1 for size in sizes), -1)
        return table[tuple(slice(size) for size in sizes)].reshape(-1, counts.shape[1])

    def support(self, scope: Int[Tensor, "q n"], sizes: Sequence[int]) -> Float[Tensor, "q x"]:
        """Counts of the joint states of each scope, up to the row where none is 0 any more."""
        found = torch.zeros(len(scope), prod(sizes), dtype=torch.float64, device=scope.device)
        left = torch.arange(len(scope), device=scope.device)
        for chunk in self.chunks(SOON):
            found[left] += chunk.count_known(scope[left], sizes).T
            left = left[(found[left] == 0).any(dim=1)]
            if not len(left):
                break
        return found

    def _codes(self, scope: Int[Tensor, "q n"], sizes: Sequence[int]) -> Int[Tensor, "q n"]:
        """The number of the joint state of every scope in every sample."""
        states, absent = self.states.T, scope < 0
        scope, padded = scope.clamp_min(0), absent.any(dim=0).tolist()
        code = torch.zeros(len(scope), len(self), dtype=torch.int64, device=scope.device)
        place = 0
        while place < len(sizes):
            # Variables are first joined by the byte: that is eight times less to read and write.
            run, cells = None, 1
            while place < len(sizes) and (run is None or cells * sizes[place] <= NARROW):
                column = states.index_select(0, scope[:, place])
                if padded[place]:
                    column.masked_fill_(absent[:, place, None], 0)
                if self.missing:
                    column.masked_fill_(column == torch.iinfo(column.dtype).max, sizes[place] - 1)
                run = column if run is None else run.mul_(sizes[place]).add_(column)
                cells *= sizes[place]
                place += 1
            code = code.mul_(cells).add_(run) if run is not None else code
        return code


@dataclass(frozen=True, eq=False)
class CliqueCounts:
    """How often each factor's variables were seen in each joint state, and rows per component."""

    counts: tuple[Float[Tensor, " f *shape"], ...]
    weights: Float[Tensor, " c"]


def clique_counts(
    scopes: Sequence[Int[Tensor, "f a"]], shapes: Sequence[tuple[int, ...]], samples: Samples
) -> CliqueCounts:
    """Weighted histograms over every scope."""
    counts = (
        samples.count(scope, shape).T.reshape(len(scope), *shape)
        for scope, shape in zip(scopes, shapes, strict=True)
    )
    weights = samples.row_weights.double().sum().view(1)
    return CliqueCounts(tuple(counts), weights)


def check_states(
    states: Int[Tensor, "n v"],
    sizes: Int[Tensor, " v"],
    *,
    missing_allowed: bool = False,
    remedy: str = LEAVE_OUT,
    names: Sequence[str] | None = None,
) -> None:
    """Raises `DataError` naming row and column of the first entry that is no state.

    `remedy`: what to do where values are missing, and none may be.
    """
    if states.ndim != 2 or states.shape[1] != len(sizes):
        raise DataError(
            f"samples have the shape {tuple(states.shape)}; this field has {len(sizes)} variables, "
            "one per column. Is the table transposed, or the graph of another size?"
        )
    if not len(states):
        raise DataError("there are no samples; at least one row is needed.")
    lowest = -1 if missing_allowed else 0
    if int(states.min()) >= lowest and bool((states.amax(dim=0) < sizes).all()):
        return  # the usual case, found without a table of the size of the samples
    row, column = ((states < lowest) | (states >= sizes)).nonzero()[0].tolist()
    value = int(states[row, column])
    place = place_of(row, column, names)
    if value == -1:
        raise DataError(f"{place}: a value is missing (NaN, NA or -1). {remedy}")
    hint = "Are these spins of -1 and +1? Write them as 0 and 1."
    if value >= 0:
        hint = (
            "Give more `states`; or, where the table counts from 1, none: then each column's own "
            "codes are its states."
        )
    raise DataError(
        f"{place}: {value} is not a state; they run from 0 to {int(sizes[column]) - 1}. {hint}"
    )


# Samples that lie in many files, counted wherever an executor runs: histograms add up.


Scope = tuple[Int[Tensor, "q n"], Sequence[int]]  # variables of q cliques, and their state counts


@dataclass(frozen=True, eq=False)
class CountShard:
    """The task of one worker: read a file of samples a chunk at a time, and count.

    `columns` are those that are variables, `codes` those of states that are not counted from 0;
    a file with `names` in another order has its columns put in this one.
    Where values are `missing`, each variable has one more state, its last: "not seen".
    """

    scopes: Sequence[Scope]
    states: Int[Tensor, " v"]
    missing: bool = False
    columns: Columns | None = None
    codes: StateCodes | None = None
    names: Sequence[str] | None = None

    def __call__(self, rows: PathLike | SampleTable) -> list[Float[Tensor, "x q"]]:
        """For each scope the weight of every joint state of every clique; of a file, or of rows."""
        total: list[Tensor] | None = None
        for samples in self._samples(rows):
            counts = [samples.count(scope, sizes) for scope, sizes in self.scopes]
            pairs = zip(total or counts, counts, strict=True)
            total = counts if total is None else [one + other for one, other in pairs]
        if total is None:
            raise DataError("holds no samples; at least one row is needed.", path=_path(rows))
        return total

    def _samples(self, given: PathLike | SampleTable) -> Iterator[Samples]:
        path = _path(given)
        with closing(sample_chunks(given, self.columns)) as chunks:
            for chunk in filter(len, chunks):
                try:
                    order = column_order(self.names, chunk.names)
                    values = chunk.values if order is None else chunk.values[:, order]
                    labels = chunk.labels
                    if labels is not None and order is not None:
                        labels = tuple(labels[i] for i in order)
                    if self.codes is not None:
                        values = self.codes.encode(values, self.names, labels)
                    rows = torch.as_tensor(values)
                    check_states(
                        rows, self.states, missing_allowed=self.missing, remedy=EXPECT_MISSING
                    )
                except DataError as error:
                    raise DataError(error.problem, path=path) from error
                yield replace(Samples.of(rows), missing=self.missing)


def sample_chunks(rows: PathLike | SampleTable, columns: Columns | None) -> Generator[SampleTable]:
    """The rows of a file a chunk at a time, or a table as it is."""
    if isinstance(rows, SampleTable):
        yield rows
    else:
        with closing(read_sample_chunks(rows, columns=columns)) as chunks:
            yield from chunks


@dataclass(frozen=True)
class FirstRows:
    """The task of one worker: the first chunk of a file, or the first rows of a table."""

    columns: Columns | None

    def __call__(self, rows: PathLike | SampleTable) -> SampleTable:
        with closing(sample_chunks(rows, self.columns)) as chunks:
            first = next(chunks)
        own = first.values[:CHUNK_ROWS]
        return first if len(own) == len(first) else replace(first, values=own.copy())


def as_table(rows: Any) -> PathLike | SampleTable:
    """Rows that an executor holds, as `CountShard` takes them: a file, a table, or an array."""
    if isinstance(rows, str | os.PathLike | SampleTable):
        return rows
    return SampleTable(None, np.asarray(rows))


def _path(rows: PathLike | SampleTable) -> PathLike | None:
    """Where rows come from, if from a file."""
    return None if isinstance(rows, SampleTable) else rows

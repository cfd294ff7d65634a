"""Clique histograms of samples that lie in many files, counted wherever an executor runs.

Rows are partitioned: each shard is counted by itself, and histograms add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.execution.executor import Executor
from mrflearn.features.observations import Columns, check_states, neighbourhood_counts
from mrflearn.io.files import PathLike
from mrflearn.io.sample_rows import Columns as Names
from mrflearn.io.samples import read_sample_chunks
from mrflearn.io.state_codes import StateCodes

Scope = tuple[Int[Tensor, "q n"], Sequence[int]]  # variables of q cliques, and their state counts


@dataclass(frozen=True, eq=False)
class Histograms:
    """For each scope the weight of every joint state of every clique; and of all rows together.

    Where values are `missing`, each variable has one more state, its last: "not seen".
    """

    counts: tuple[Float[Tensor, "x q"], ...]
    total: float
    missing: bool = False

    def __add__(self, other: Histograms) -> Histograms:
        """What both saw."""
        if self.missing != other.missing:
            raise DataError("one shard was counted with missing values and another without.")
        both = zip(self.counts, other.counts, strict=True)
        return Histograms(tuple(a + b for a, b in both), self.total + other.total, self.missing)


@dataclass(frozen=True, eq=False)
class CountShard:
    """The task of one worker: read a file of samples a chunk at a time, and count."""

    scopes: Sequence[Scope]
    states: Int[Tensor, " v"]
    missing: bool = False
    names: Names | None = None
    codes: StateCodes | None = None  # of states that are not counted from 0

    def __call__(self, path: PathLike) -> Histograms:
        total: Histograms | None = None
        for chunk in read_sample_chunks(path, columns=self.names):
            if not len(chunk):
                continue
            try:
                values = chunk.values if self.codes is None else self.codes.encode(chunk.values)
                rows = torch.as_tensor(values)
                check_states(rows, self.states, missing_allowed=self.missing)
            except DataError as error:
                raise DataError(error.problem, path=path) from error
            columns = replace(Columns.of(rows), missing=self.missing)
            found = self._count(columns)
            total = found if total is None else total + found
        if total is None:
            raise DataError("holds no samples; at least one row is needed.", path=path)
        return total

    def _count(self, columns: Columns) -> Histograms:
        counts = tuple(neighbourhood_counts(scope, sizes, columns) for scope, sizes in self.scopes)
        return Histograms(counts, columns.total, columns.missing)


def count_shards(task: CountShard, paths: Sequence[PathLike], executor: Executor) -> Histograms:
    """The histograms over all rows of all files."""
    return executor.total(task, paths)

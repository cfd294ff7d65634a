"""Clique histograms of samples that lie in many files, counted wherever an executor runs.

Rows are partitioned: each shard is counted by itself, and histograms add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.observations import Samples, check_states
from mrflearn.io.files import PathLike
from mrflearn.io.samples import Columns, read_sample_chunks
from mrflearn.io.state_codes import StateCodes

Scope = tuple[Int[Tensor, "q n"], Sequence[int]]  # variables of q cliques, and their state counts


@dataclass(frozen=True, eq=False)
class CountShard:
    """The task of one worker: read a file of samples a chunk at a time, and count.

    `columns` are those that are variables, `codes` those of states that are not counted from 0.
    Where values are `missing`, each variable has one more state, its last: "not seen".
    """

    scopes: Sequence[Scope]
    states: Int[Tensor, " v"]
    missing: bool = False
    columns: Columns | None = None
    codes: StateCodes | None = None

    def __call__(self, path: PathLike) -> list[Float[Tensor, "x q"]]:
        """For each scope the weight of every joint state of every clique."""
        total: list[Tensor] | None = None
        for samples in self._samples(path):
            counts = [samples.count(scope, sizes) for scope, sizes in self.scopes]
            pairs = zip(total or counts, counts, strict=True)
            total = counts if total is None else [one + other for one, other in pairs]
        if total is None:
            raise DataError("holds no samples; at least one row is needed.", path=path)
        return total

    def _samples(self, path: PathLike) -> Iterator[Samples]:
        with closing(read_sample_chunks(path, columns=self.columns)) as chunks:
            for chunk in filter(len, chunks):
                try:
                    values = chunk.values if self.codes is None else self.codes.encode(chunk.values)
                    rows = torch.as_tensor(values)
                    check_states(rows, self.states, missing_allowed=self.missing)
                except DataError as error:
                    raise DataError(error.problem, path=path) from error
                yield replace(Samples.of(rows), missing=self.missing)

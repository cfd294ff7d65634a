"""A field from samples in many files, counted and solved wherever an executor runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.field_inputs import Table
from mrflearn.estimators.field_training import FieldTraining, Fitted
from mrflearn.execution.executor import Executor
from mrflearn.features.neighbourhood_counts import Columns
from mrflearn.features.observations import CliqueCounts
from mrflearn.features.shards import CountShard, Histograms, Scope, count_shards
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.io.files import PathLike
from mrflearn.io.samples import SampleTable, read_sample_chunks
from mrflearn.io.state_codes import StateCodes
from mrflearn.training.lap import Block, SolveBlock, blocks_of, lap
from mrflearn.training.local import LocalSolution


@dataclass(frozen=True)
class Shards:
    """Files of samples, the columns that are variables, and whether values may be missing.

    `codes` are those of the states, where they are not counted from 0.
    """

    paths: Sequence[PathLike]
    columns: Sequence[str | int] | None = None
    missing: bool = False
    codes: StateCodes | None = None

    def count(self, scopes: Sequence[Scope], graph: FactorGraph, executor: Executor) -> Histograms:
        """How often each joint state of each scope stands in all files together."""
        task = CountShard(scopes, graph.states, self.missing, self.columns, self.codes)
        return count_shards(task, self.paths, executor)


def first_table(
    paths: Sequence[PathLike], columns: Sequence[str | int] | None = None
) -> SampleTable:
    """The first rows of the first file, which show the columns and, mostly, the states."""
    if not paths:
        raise DataError("no files of samples were given.")
    with closing(read_sample_chunks(paths[0], columns=columns)) as tables:
        return next(tables)


def learn_from_shards(
    training: FieldTraining,
    graph: FactorGraph,
    shards: Shards,
    executor: Executor,
    first: Table,
) -> Fitted:
    """The field that all rows of all files together give; no row travels, only histograms do.

    `first` are the rows that were looked at for the columns: the search for "ml" and "bp" takes its
    coordinates from them.
    """
    if training.estimator == "lap":
        return _by_neighbourhoods(training, graph, shards, executor)
    if shards.missing:
        raise DataError(
            f"missing values in many files can only be learned from by 'lap', not by "
            f"'{training.estimator}'; in one file by 'pl' too."
        )
    if training.estimator not in ("ml", "bp", "pw"):
        raise SettingsError(
            f"estimator '{training.estimator}' needs whole rows, which shards do not hand out; "
            "give it samples in one file, or use 'lap', 'ml', 'bp' or 'pw'."
        )
    shapes = [graph.shape(g) if len(g) else (1,) * g.arity for g in graph.groups]
    scopes = [(g.scope, shape) for g, shape in zip(graph.groups, shapes, strict=True)]
    seen = shards.count(scopes, graph, executor)
    counts = tuple(
        table.T.reshape(len(group), *shape)
        for table, group, shape in zip(seen.counts, graph.groups, shapes, strict=True)
    )
    total = torch.tensor([seen.total], dtype=torch.float64)
    some = Columns.of(first.astype(np.int64)) if len(first) else None
    return training.from_clique_counts(graph, CliqueCounts(counts, total), some)


def _by_neighbourhoods(
    training: FieldTraining, graph: FactorGraph, shards: Shards, executor: Executor
) -> Fitted:
    """Counts of a block are added up and solved where they are: its parameters alone come home."""
    problems = training.local_problems(graph, missing=shards.missing)
    blocks = blocks_of(problems, missing=shards.missing)
    task = SolveBlock(training.local_solver(), missing=shards.missing)

    def solved(_: Callable[..., Any], blocks: Iterable[Block]) -> Iterable[LocalSolution]:
        held = list(blocks)
        scopes = [(block.problems.scope, block.problems.shape.sizes) for block in held]
        count = CountShard(scopes, graph.states, shards.missing, shards.columns, shards.codes)
        return executor.map_totals(CountParts(count), shards.paths, SolveCounted(held, task))

    return lap(graph, blocks, task, solved, training.checkpoint, training.resume)


@dataclass(frozen=True, eq=False)
class CountParts:
    """The histograms of one file, block by block."""

    count: CountShard

    def __call__(self, path: PathLike) -> tuple[Tensor, ...]:
        return self.count(path).counts


@dataclass(frozen=True, eq=False)
class SolveCounted:
    """The solution of the block of a given number, from what all files together have seen."""

    blocks: Sequence[Block]
    solve: SolveBlock

    def __call__(self, summed: tuple[int, Tensor]) -> LocalSolution:
        number, counts = summed
        return self.solve(replace(self.blocks[number], counts=counts))

"""A field from samples in many files, counted and solved wherever an executor runs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mrflearn.data.files import PathLike
from mrflearn.data.samples import read_sample_chunks
from mrflearn.errors import DataError
from mrflearn.estimators.field_training import FieldTraining, Fitted
from mrflearn.execution.executor import Executor
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.neighbourhood import neighbourhoods
from mrflearn.statistics.observations import CliqueCounts
from mrflearn.statistics.shards import CountShard, Histograms, Scope
from mrflearn.training.lap import LocalSolver, SolveBlock, blocks_of, lap


def first_rows(paths: Sequence[PathLike]) -> Tensor:
    """The first rows of the first file, which show the columns and, mostly, the states."""
    if not paths:
        raise DataError("no files of samples were given.")
    return torch.as_tensor(next(iter(read_sample_chunks(paths[0]))).values)


def learn_from_shards(
    training: FieldTraining,
    graph: FactorGraph,
    paths: Sequence[PathLike],
    executor: Executor,
    *,
    missing: bool = False,
) -> Fitted:
    """The field that all rows of all files together give; no row travels, only histograms do."""
    if training.estimator == "lap":
        return _by_neighbourhoods(training, graph, paths, executor, missing)
    if missing:
        raise DataError(
            f"missing values can only be learned from by 'lap', not by '{training.estimator}'."
        )
    held = [group for group in graph.groups if len(group)]
    seen = _count([(g.scope, graph.shape(g)) for g in held], graph, paths, executor, False)
    tables = iter(seen.counts)
    counts = tuple(
        next(tables).T.reshape(len(group), *graph.shape(group))
        if len(group)
        else torch.zeros((0,) + (1,) * group.arity, dtype=torch.float64)
        for group in graph.groups
    )
    total = torch.tensor([seen.total], dtype=torch.float64)
    return training.from_clique_counts(graph, CliqueCounts(counts, total))


def _by_neighbourhoods(
    training: FieldTraining,
    graph: FactorGraph,
    paths: Sequence[PathLike],
    executor: Executor,
    missing: bool,
) -> Fitted:
    problems = neighbourhoods(graph, training.auxiliary)
    seen = _count([(h.scope, h.shape.sizes) for h in problems], graph, paths, executor, missing)
    solver = LocalSolver(training.l2, training.l1, training.tolerance, training.max_iterations)
    blocks = blocks_of(problems, seen.counts, missing=missing)
    return lap(graph, blocks, SolveBlock(solver, missing=missing), executor.map)


def _count(
    scopes: Sequence[Scope],
    graph: FactorGraph,
    paths: Sequence[PathLike],
    executor: Executor,
    missing: bool,
) -> Histograms:
    return executor.total(CountShard(scopes, graph.states, missing), paths)

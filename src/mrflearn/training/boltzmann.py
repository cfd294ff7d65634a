"""Boltzmann learning: a field of any graph by persistent contrastive divergence.

Steps are taken in coordinates in which the curvature is about one, ever shorter, and the answer is
the mean of the last half of the iterates [Younes 1999; Polyak & Juditsky 1992].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mrflearn.features.observations import CliqueCounts, Samples
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.models.tabular import TabularModel
from mrflearn.objectives.base import Vector
from mrflearn.objectives.contrastive import GibbsChains, PersistentContrast
from mrflearn.objectives.problem import Diagonal, Scaling
from mrflearn.training.loop import minimise
from mrflearn.training.outcome import Outcome
from mrflearn.training.sgd import SGD

CHAINS, SWEEPS = 1000, 5  # and sweeps of each between two steps
# Such a share of the way to the optimum is gone at a time, and a tenth as much at the end.
RATE, DECAY = 0.2, 9.0
DRAWN = 10_000  # rows of independent variables
UNSEEN = 1e-3  # added to the share of every state, whose log may else be infinite


def learn(
    graph: FactorGraph,
    counts: CliqueCounts,
    at: tuple[Vector, Scaling] | None,
    *,
    last: Vector | None = None,
    l2: float,
    iterations: int,
    seed: int,
    **saved: Any,
) -> Outcome[TabularModel]:
    """The field whose clique counts these are; `at`: where to begin, and coordinates there.

    None begins at independent variables, or at the `last` parameters, in units of each feature's
    standard deviation.
    """
    weight = float(counts.weights.sum())
    data = [table / weight for table in counts.counts]
    start = _independent(graph, data)
    objective = PersistentContrast(
        start, data, CHAINS, sweeps=SWEEPS, weight=weight, l2=l2, seed=seed
    )
    begin = objective.start if last is None else last.to(objective.start)
    vector, scaling = at or (begin, _deviations(start, data, weight))
    decay, half = DECAY / max(iterations, 1), 1 + iterations // 2
    return minimise(
        objective,
        SGD(rate=RATE, epochs=iterations, decay=decay, average_from=half),
        start=vector,
        scaling=scaling,
        **saved,
    )


def independent_rows(graph: FactorGraph, counts: CliqueCounts, seed: int) -> tuple[Vector, Samples]:
    """The parameters of independent variables with these counts, and rows drawn from them."""
    weight = float(counts.weights.sum())
    model = _independent(graph, [table / weight for table in counts.counts])
    generator = torch.Generator(graph.device).manual_seed(seed)
    rows = GibbsChains(graph).begin(model.potentials(), DRAWN, generator)
    vector = torch.cat([own.flatten() for own in model.values])
    return vector, Samples.of(rows, device=rows.device)


def _independent(graph: FactorGraph, data: list[Tensor]) -> TabularModel:
    """The field of independent variables with these frequencies, where it has their tables."""
    values = list(TabularModel.zeros(graph).values)
    for place, (group, table) in enumerate(zip(graph.groups, data, strict=True)):
        if group.arity == 1 and len(group):
            scores = (table + UNSEEN).log().to(values[place])
            odds = scores[:, 1:] - scores[:, :1]
            total = torch.zeros_like(values[place]).index_add_(0, group.table, odds)
            values[place] = total / group.table.bincount(minlength=len(total)).unsqueeze(1)
    return TabularModel(graph, tuple(values))


def _deviations(model: TabularModel, data: list[Tensor], weight: float) -> Diagonal:
    """Coordinates that suit the variances of the features in the data."""
    parts = []
    for value, group, table in zip(model.values, model.graph.groups, data, strict=True):
        free = table[(slice(None), *[slice(1, None)] * group.arity)]
        share = torch.zeros_like(value).index_add_(0, group.table, (free * (1 - free)).to(value))
        parts.append((weight * share + 1).rsqrt().flatten())
    return Diagonal(torch.cat(parts))

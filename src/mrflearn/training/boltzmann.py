"""Boltzmann learning: a field of any graph by persistent contrastive divergence.

Steps are taken in coordinates in which the curvature is about one, ever shorter, and the answer is
the mean of the last half of the iterates [Younes 1999; Polyak & Juditsky 1992].
"""

from __future__ import annotations

from typing import Any

from mrflearn.features.observations import CliqueCounts
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.models.tabular import TabularModel
from mrflearn.objectives.base import Vector
from mrflearn.objectives.contrastive import PersistentContrast
from mrflearn.objectives.problem import Scaling
from mrflearn.training.loop import minimise
from mrflearn.training.outcome import Outcome
from mrflearn.training.sgd import SGD

CHAINS, SWEEPS = 1000, 5  # and sweeps of each between two steps
# Such a share of the way to the optimum is gone at a time, and a tenth as much at the end.
RATE, DECAY = 0.2, 9.0


def learn(
    graph: FactorGraph,
    counts: CliqueCounts,
    start: Vector | None,
    scaling: Scaling | None,
    *,
    l2: float,
    iterations: int,
    seed: int,
    **saved: Any,
) -> Outcome[TabularModel]:
    """The field whose clique counts these are, from a start and in coordinates that suit it."""
    weight = float(counts.weights.sum())
    data = [table / weight for table in counts.counts]
    model = TabularModel.zeros(graph)
    objective = PersistentContrast(
        model, data, CHAINS, sweeps=SWEEPS, weight=weight, l2=l2, seed=seed
    )
    decay, half = DECAY / max(iterations, 1), 1 + iterations // 2
    return minimise(
        objective,
        SGD(rate=RATE, epochs=iterations, decay=decay, average_from=half),
        start=start,
        scaling=scaling,
        **saved,
    )

"""Fields, samples of them, and what an estimator makes of the samples."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from mrflearn import MarkovField
from mrflearn.graph.builders import graph_from_text
from mrflearn.graph.gauges import random_ising, reference_gauge
from mrflearn.inference.sampling import Drawing
from mrflearn.models.tabular import TabularModel

GRAPHS = {"figure 2": "grid:4x4", "figure 3": "cube:4x4x4", "figure 4": "chimera:3,3,3"}
ESTIMATORS: dict[str, dict[str, str]] = {
    "ML": {"estimator": "ml"},
    "LAP_E": {"estimator": "lap", "auxiliary": "exact"},
    "LAP_D": {"estimator": "lap", "auxiliary": "dense"},
    "LAP_P": {"estimator": "lap", "auxiliary": "pairwise"},
    "PL": {"estimator": "pl"},
    "consensus": {"estimator": "consensus"},
}
DIGITS = 5  # of parameters in rows


@dataclass(frozen=True)
class Setting:
    """How fields are drawn, and the L2 of every estimator: so small that estimates just exist."""

    spins: bool  # parameters uniform on spins, a field for each run; else in the 0/1 gauge, one
    l2: float


SETTINGS = {"0/1": Setting(spins=False, l2=0.1), "spins": Setting(spins=True, l2=0.001)}


def true_field(graph: str, spins: bool, seed: int) -> TabularModel:
    """Parameters uniform in [-1, 1], of spins or in the gauge that vanishes at state 0."""
    empty = TabularModel.zeros(graph_from_text(graph))
    if spins:
        ising = reference_gauge(random_ising(empty.graph, scale=1.0, seed=seed))
        return TabularModel(empty.graph, tuple(_free(table.dense()) for table in ising.tables))
    generator = torch.Generator().manual_seed(seed)
    return TabularModel(
        empty.graph,
        tuple(
            2 * torch.rand(v.shape, generator=generator, dtype=v.dtype) - 1 for v in empty.values
        ),
    )


def _free(table: torch.Tensor) -> torch.Tensor:
    """The entries without the reference state, the only ones that are not 0."""
    return table[(slice(None), *[slice(1, None)] * (table.ndim - 1))]


@lru_cache(maxsize=1)
def drawn(graph: str, spins: bool, samples: int, run: int) -> tuple[np.ndarray, list[float]]:
    """Exact samples, and the parameters of the field they come from."""
    field = true_field(graph, spins, run if spins else 0)
    rows = Drawing()(field.potentials(), samples, seed=1_000 * run + 1).samples
    return rows.numpy().astype(np.uint8), _flat(field)


def accuracy(point: dict[str, Any]) -> dict[str, Any]:
    """The parameters an estimator finds, beside the true ones."""
    setting, graph = SETTINGS[point["setting"]], GRAPHS[point["figure"]]
    rows, truth = drawn(graph, setting.spins, point["samples"], point["run"])
    values, seconds = estimate(graph, rows, ESTIMATORS[point["name"]], setting.l2)
    # The true parameters once for all estimators.
    return {"seconds": seconds, "values": values} | ({"truth": truth} if _first(point) else {})


def _first(point: dict[str, Any]) -> bool:
    return bool(point["name"] == next(iter(ESTIMATORS)))


def estimate(
    graph: str, rows: np.ndarray, settings: dict[str, str], l2: float
) -> tuple[list[float], float]:
    """The learned parameters, end to end, and the processor's seconds it took."""
    began = time.process_time()  # other work on the machine does not count
    model = MarkovField(graph, l2=l2, **settings).fit(rows)  # type: ignore[arg-type]
    return _flat(model.model_), time.process_time() - began


def _flat(model: TabularModel) -> list[float]:
    values = torch.cat([value.reshape(-1) for value in model.values])
    return [round(value, DIGITS) for value in values.tolist()]


def scaling(side: int, samples: int, name: str) -> dict[str, Any]:
    """Seconds of LAP on a square grid, from correlated random bits: the least of several fits."""
    cliques, data = 3 * side * side - 2 * side, correlated_bits(side, samples)
    graph, repeats = f"grid:{side}x{side}", 1 + min(39, 200_000 // cliques)
    every = [estimate(graph, data, ESTIMATORS[name], 0.1)[1] for _ in range(repeats)]
    return {"seconds": min(every), "first": every[0]}  # the first also finds out about shapes


def correlated_bits(side: int, samples: int) -> np.ndarray:
    """Rows of bits, each of which leans on the one before it."""
    generator = np.random.default_rng(side)
    data = generator.integers(0, 2, (samples, side * side), dtype=np.uint8)
    noise = generator.integers(0, 4, (samples, side * side - 1), dtype=np.uint8)
    data[:, 1:] &= data[:, :-1] | (noise > 0)
    return data

"""How probable a field finds rows it has not seen, by the best method its graph allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.annealed import AnnealedImportance
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.objectives.pseudolikelihood import log_conditionals

Method = Literal["exact", "ais"]
EXACT, ANNEALED = JunctionTree(), AnnealedImportance()
GATHERED = 1 << 25  # numbers gathered at once for conditional scores; bounds memory only


@dataclass(frozen=True)
class HeldOut:
    """Nats a row: the log-likelihood, its pseudolikelihood, and what the figures are worth.

    `standard_error` is that of the mean over rows; `partition_error` that of log Z where it was
    estimated by annealed importance sampling, 0 where it is exact.  The estimate rests on
    `effective_chains` (in the worst component); it is `reliable` unless these are too few.
    """

    rows: int
    log_likelihood: float
    standard_error: float
    pseudolikelihood: float
    method: Method
    partition_error: float = 0.0
    effective_chains: float | None = None
    reliable: bool = True


def held_out(potentials: Potentials, rows: Int[Tensor, "n v"], *, seed: int = 0) -> HeldOut:
    """The means over rows; log Z by junction tree where the width allows, else by annealing."""
    if not len(rows):
        raise DataError("there are no rows to evaluate on.")
    method: Method = "exact" if EXACT.refuses(potentials.graph) is None else "ais"
    error, effective, reliable = 0.0, None, True
    if method == "exact":
        log_partition = EXACT(potentials).log_partition
    else:
        generator = torch.Generator(device=rows.device).manual_seed(seed)
        estimate = ANNEALED.estimate(potentials, generator)
        log_partition, error = estimate.log_partition, float(estimate.standard_error.norm())
        effective = float(estimate.effective_chains.min())
        reliable = bool(estimate.reliable.all())
    values = (potentials.score(rows) - log_partition).sum(dim=-1).double()
    spread = float(values.std()) if len(values) > 1 else 0.0
    return HeldOut(
        rows=len(rows),
        log_likelihood=float(values.mean()),
        standard_error=spread / len(values) ** 0.5,
        pseudolikelihood=_pseudolikelihood(potentials, rows),
        method=method,
        partition_error=error,
        effective_chains=effective,
        reliable=reliable,
    )


def _pseudolikelihood(potentials: Potentials, rows: Int[Tensor, "n v"]) -> float:
    graph = potentials.graph
    widest = max((len(group) for group in graph.groups), default=1)
    chunk = max(1, GATHERED // max(1, widest * int(graph.states.max())))
    parts = [log_conditionals(potentials, part).double().sum() for part in rows.split(chunk)]
    return float(torch.stack(parts).sum()) / len(rows)

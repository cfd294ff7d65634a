"""How well a field fits rows it has not seen: their likelihood, and frequencies of their states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.observations import Samples
from mrflearn.graph.neighbourhood import lone_cliques
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.annealed import AnnealedImportance
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.sampling import Drawing
from mrflearn.objectives.pseudolikelihood import log_conditionals

Array = NDArray[np.float64]
Method = Literal["exact", "ais"]
EXACT, ANNEALED = JunctionTree(), AnnealedImportance()


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

    def figures(self) -> dict[str, Any]:
        """What was measured, by name; log-probabilities in nats."""
        return {
            "samples": self.rows,
            "log_likelihood_per_sample": self.log_likelihood,
            "standard_error": self.standard_error,
            "method": self.method,
            "log_partition_error": self.partition_error,
            "effective_chains": self.effective_chains,
            "reliable": self.reliable,
            "log_pseudolikelihood_per_sample": self.pseudolikelihood,
        }


def held_out(potentials: Potentials, rows: Int[Tensor, "n v"], *, seed: int = 0) -> HeldOut:
    """The means over rows; log Z by junction tree where the width allows, else by annealing."""
    if not len(rows):
        raise DataError("there are no rows to evaluate on.")
    method: Method = "exact" if EXACT.refuses(potentials.graph) is None else "ais"
    error, effective, reliable = 0.0, None, True
    if method == "exact":
        log_partition = EXACT(potentials).log_partition
    else:
        estimate = ANNEALED.estimate(potentials, seed=seed)
        log_partition, error = estimate.log_partition, float(estimate.standard_error.norm())
        effective = float(estimate.effective_chains.min())
        reliable = bool(estimate.reliable.all())
    values = (potentials.score(rows) - log_partition).sum(dim=-1).double()
    spread = float(values.std()) if len(values) > 1 else 0.0
    return HeldOut(
        rows=len(rows),
        log_likelihood=float(values.mean()),
        standard_error=spread / len(values) ** 0.5,
        pseudolikelihood=float(log_conditionals(potentials, rows).double().sum()) / len(rows),
        method=method,
        partition_error=error,
        effective_chains=effective,
        reliable=reliable,
    )


@dataclass(frozen=True, eq=False)
class Match:
    """Frequencies of all joint states of all factors of one arity, in the data and in the field."""

    data: Array
    field: Array

    @property
    def largest_error(self) -> float:
        return float(np.abs(self.data - self.field).max()) if self.data.size else 0.0

    @property
    def correlation(self) -> float:
        """Pearson's; NaN where either side does not vary."""
        if self.data.size < 2 or self.data.std() == 0 or self.field.std() == 0:
            return float("nan")
        return float(np.corrcoef(self.data, self.field)[0, 1])


@dataclass(frozen=True, eq=False)
class MomentsMatch:
    """The match of single variables and of edges, and how the field's side was found."""

    single: Match
    pairs: Match
    kind: Literal["exact", "sampled"]

    def figures(self) -> dict[str, Any]:
        """What was compared, by name."""
        return {
            "moments": self.kind,
            "largest_state_error": self.single.largest_error,
            "largest_pair_error": self.pairs.largest_error,
            "pair_correlation": self.pairs.correlation,
        }


def moments_match(
    potentials: Potentials, rows: Int[Tensor, "n v"], *, samples: int = 2000, seed: int = 0
) -> MomentsMatch:
    """Exact where the width allows, else from so many samples of the field."""
    graph, seen = potentials.graph, _frequencies(potentials, rows)
    kind: Literal["exact", "sampled"] = "exact" if EXACT.refuses(graph) is None else "sampled"
    if kind == "exact":
        expected = list(EXACT(potentials).factors)
    else:
        expected = _frequencies(potentials, Drawing()(potentials, samples, seed=seed).samples)

    def flat(tables: list[Tensor], arity: int) -> Array:
        pairs = zip(graph.groups, tables, strict=True)
        parts = [own.detach().cpu().double().flatten() for g, own in pairs if g.arity == arity]
        return torch.cat([torch.zeros(0, dtype=torch.float64), *parts]).numpy()

    single, pairs = (Match(flat(seen, arity), flat(expected, arity)) for arity in (1, 2))
    return MomentsMatch(single, pairs, kind)


def _frequencies(potentials: Potentials, rows: Int[Tensor, "n v"]) -> list[Tensor]:
    samples = Samples.of(rows, device=rows.device)
    return [
        samples.count(group.scope, group.shape.sizes).T / len(rows)
        for group in lone_cliques(potentials.graph)
    ]

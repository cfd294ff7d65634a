"""Whether a field has the frequencies that data have: of states, and of pairs of states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.features.observations import Samples, clique_counts
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.sampling import Drawing

Array = NDArray[np.float64]


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


def moments_match(
    potentials: Potentials, rows: Int[Tensor, "n v"], *, samples: int = 2000, seed: int = 0
) -> MomentsMatch:
    """Exact where the width allows, else from so many samples of the field."""
    exact = JunctionTree()
    seen = _frequencies(potentials, rows)
    if exact.refuses(potentials.graph) is None:
        beliefs = exact(potentials)
        return _match(potentials, seen, [table.double() for table in beliefs.factors], "exact")
    drawn = Drawing()(potentials, samples, seed=seed).samples
    return _match(potentials, seen, _frequencies(potentials, drawn), "sampled")


def _frequencies(potentials: Potentials, rows: Int[Tensor, "n v"]) -> list[Tensor]:
    graph = potentials.graph
    scopes = [group.scope for group in graph.groups]
    shapes = [graph.shape(group) if len(group) else (1,) * group.arity for group in graph.groups]
    weights = torch.ones(len(rows), dtype=torch.float64, device=rows.device)
    counted = clique_counts(scopes, shapes, Samples(rows, weights), rows=4096)
    return [table / len(rows) for table in counted.counts]


def _match(
    potentials: Potentials,
    seen: list[Tensor],
    expected: list[Tensor],
    kind: Literal["exact", "sampled"],
) -> MomentsMatch:
    def of(arity: int) -> Match:
        places = [i for i, g in enumerate(potentials.graph.groups) if g.arity == arity and len(g)]
        return Match(*(_flat([side[i] for i in places]) for side in (seen, expected)))

    return MomentsMatch(of(1), of(2), kind)


def _flat(tables: list[Tensor]) -> Array:
    parts = [np.asarray(table.detach().cpu(), dtype=np.float64).ravel() for table in tables]
    return np.concatenate(parts) if parts else np.zeros(0)

"""What every fitted field can be asked, whatever it was learned by: functions of its potentials."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.features.observations import check_states
from mrflearn.graph.gauges import zero_sum_gauge
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.annealed import AnnealedImportance
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.objectives.pseudolikelihood import log_conditionals

Method = Literal["exact", "ais", "pl"]
PartitionMethod = Literal["auto", "exact", "ais"]
# Numbers gathered at once for conditional scores (factors x states a row); bounds memory only.
GATHERED = 1 << 25


class FieldSamples(NamedTuple):
    """Rows as those a field was learned from (states, codes or spins), and how they were made."""

    samples: NDArray[np.int64]
    method: str


class LogPartition(NamedTuple):
    """log Z in nats, whether that is exact, and its standard error (0 where it is)."""

    value: float
    kind: Literal["exact", "approximation"]
    standard_error: float = 0.0


def log_likelihoods(
    potentials: Potentials, rows: Tensor, method: Method, seed: int
) -> NDArray[np.float64]:
    """The log-probability of each row, in nats, by the method that `MarkovField` describes."""
    check_states(rows, potentials.graph.states)
    if method == "pl":
        return _pseudolikelihoods(potentials, rows)
    if method not in ("exact", "ais"):
        raise SettingsError(f"method {method!r} is not one of 'exact', 'ais', 'pl'.")
    total = log_partition(potentials, method, seed).value
    scores = potentials.score(rows).sum(-1)
    return np.asarray(scores.cpu(), dtype=np.float64) - total


def log_partition(potentials: Potentials, method: PartitionMethod, seed: int) -> LogPartition:
    """log Z of all components together, by junction tree or annealed importance sampling."""
    exact = JunctionTree()
    if method == "auto":
        method = "exact" if exact.refuses(potentials.graph) is None else "ais"
    if method == "exact":
        return LogPartition(float(exact(potentials).log_partition.sum()), "exact")
    if method != "ais":
        raise SettingsError(f"method {method!r} is not one of 'auto', 'exact', 'ais'.")
    generator = torch.Generator(device=potentials.graph.device).manual_seed(seed)
    found = AnnealedImportance().estimate(potentials, generator)
    error = float(found.standard_error.square().sum().sqrt())
    return LogPartition(float(found.log_partition.sum()), "approximation", error)


def gauge_constant(potentials: Potentials) -> float:
    """What log Z gains in the zero-sum gauge: the two differ by one number for every assignment."""
    row = torch.zeros(1, potentials.graph.variables, dtype=torch.int64)
    row = row.to(potentials.graph.device)
    return float((zero_sum_gauge(potentials).score(row) - potentials.score(row)).sum())


def tables_of(potentials: Potentials, arity: int) -> list[NDArray[np.float64]]:
    """Zero-sum scores of all factors of that arity, an array for each group that has any."""
    gauged = zero_sum_gauge(potentials)
    return [
        np.asarray(gauged.factor_scores(i).detach().cpu(), dtype=np.float64)
        for i, group in enumerate(gauged.graph.groups)
        if group.arity == arity and len(group)
    ]


def zero_sum_tables(potentials: Potentials, arity: int) -> NDArray[np.float64]:
    """Zero-sum scores of all factors of that arity; one number each where there are two states.

    Tables of unequal shapes come as an array of objects.
    """
    tables = tables_of(potentials, arity)
    if not tables:
        return np.zeros(0)
    if len({table.shape[1:] for table in tables}) > 1:
        entries = [table for group in tables for table in group]
        if arity == 1:  # in the order of the variables, not of their numbers of states
            groups = [group.scope[:, 0] for group in potentials.graph.groups if group.arity == 1]
            entries = [entries[k] for k in torch.cat(groups).argsort(stable=True).tolist()]
        listed = np.empty(len(entries), dtype=object)
        listed[:] = entries
        return listed
    stacked = np.concatenate(tables)
    if stacked.shape[1:] != (2,) * arity:
        return stacked
    return stacked.reshape(len(stacked), -1)[:, -1]  # state 1 of every variable


def pairs(potentials: Potentials) -> NDArray[np.int64]:
    """The two variables of each edge."""
    groups = [g for g in potentials.graph.groups if g.arity == 2]
    scopes = [group.scope.cpu().numpy() for group in groups]
    return np.concatenate(scopes) if scopes else np.zeros((0, 2), dtype=np.int64)


def _pseudolikelihoods(potentials: Potentials, rows: Tensor) -> NDArray[np.float64]:
    graph = potentials.graph
    widest = max((len(group) for group in graph.groups), default=1)
    chunk = max(1, GATHERED // max(1, widest * int(graph.states.max())))
    values = torch.cat([log_conditionals(potentials, part) for part in rows.split(chunk)])
    return np.asarray(values.detach().cpu(), dtype=np.float64)

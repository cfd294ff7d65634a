"""What every fitted field can be asked, whatever it was learned by: functions of its potentials."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mrflearn.errors import GraphError, MrflearnError
from mrflearn.estimators.field_inputs import state_rows
from mrflearn.graph.gauges import zero_sum_gauge
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.annealed import AnnealedImportance
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.objectives.pseudolikelihood import log_conditionals
from mrflearn.statistics.observations import check_states

Method = Literal["exact", "ais", "pl"]
# Numbers gathered at once for conditional scores (factors x states a row); bounds memory only.
GATHERED = 1 << 25


def log_likelihoods(
    potentials: Potentials, X: ArrayLike, method: Method, seed: int, *, spins: bool
) -> NDArray[np.float64]:
    """The log-probability of each row, in nats, by the method that `MarkovField` describes."""
    rows = state_rows(X, potentials.graph.device, spins=spins)
    check_states(rows, potentials.graph.states)
    if method == "pl":
        return _pseudolikelihoods(potentials, rows)
    if method == "exact":
        log_partition = JunctionTree()(potentials).log_partition
    elif method == "ais":
        generator = torch.Generator(device=rows.device).manual_seed(seed)
        log_partition = AnnealedImportance().estimate(potentials, generator).log_partition
    else:
        raise MrflearnError(f"method {method!r} is not one of 'exact', 'ais', 'pl'.")
    return np.asarray((potentials.score(rows) - log_partition).sum(-1).cpu(), dtype=np.float64)


def zero_sum_tables(potentials: Potentials, arity: int) -> NDArray[np.float64]:
    """Zero-sum scores of all factors of that arity; one number each where there are two states."""
    gauged = zero_sum_gauge(potentials)
    tables = [
        gauged.factor_scores(i)
        for i, group in enumerate(gauged.graph.groups)
        if group.arity == arity
    ]
    if not tables:
        return np.zeros(0)
    if len({table.shape[1:] for table in tables}) > 1:
        raise GraphError("variables differ in their state counts; read `potentials_` instead.")
    stacked = np.asarray(torch.cat(tables).detach().cpu(), dtype=np.float64)
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

"""Networks of the UAI format to potentials and back."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.potentials import Potentials, dense_potentials
from mrflearn.io.uai import UaiNetwork

LARGEST_SCORE = 700.0  # exp of more, either way, leaves the range of ordinary float64 figures


def from_uai(network: UaiNetwork) -> Potentials:
    """The logarithms of a network's tables, zero as -inf, in float64.

    Factors without variables are constants: their product goes into the first other factor, or
    into a new one over variable 0 where there is none.
    """
    pairs = list(zip(network.scopes, network.tables, strict=True))
    factors = [(scope, _log(table)) for scope, table in pairs if scope]
    constant = sum((float(_log(table)) for scope, table in pairs if not scope), 0.0)
    if constant != 0.0:
        if not factors:
            factors = [((0,), _uniform(network))]
        scope, table = factors[0]
        factors[0] = (scope, table + constant)
    return dense_potentials(network.states, factors)


def to_uai(potentials: Potentials) -> UaiNetwork:
    """A MARKOV network of the same distribution and the same Z, one factor a factor.

    Tied tables are written out; a batch becomes one network.
    """
    graph = potentials.graph
    scopes: list[tuple[int, ...]] = []
    tables: list[np.ndarray] = []
    for index, group in enumerate(graph.groups):
        if not len(group):
            continue
        scores = potentials.factor_scores(index).detach().cpu().to(torch.float64)
        _check_range(group.name, scores)
        scopes.extend(tuple(scope) for scope in group.scope.tolist())
        tables.extend(scores.exp().numpy())
    return UaiNetwork("MARKOV", tuple(graph.states.tolist()), tuple(scopes), tuple(tables))


def _log(table: np.ndarray) -> Tensor:
    with np.errstate(divide="ignore"):
        return torch.from_numpy(np.asarray(np.log(table)))


def _uniform(network: UaiNetwork) -> Tensor:
    if not network.states:
        raise GraphError("a network without variables is only a number: there is nothing to infer.")
    return torch.zeros(network.states[0], dtype=torch.float64)


def _check_range(name: str, scores: Tensor) -> None:
    finite = scores[scores.isfinite()]
    largest = float(finite.abs().max()) if len(finite) else 0.0
    if scores.isnan().any() or (scores == math.inf).any() or largest > LARGEST_SCORE:
        raise GraphError(
            f"group '{name}': UAI files hold figures, not logarithms, and the exponential of a "
            f"score of {largest:.6g} nats in size (or of NaN) is out of range; the most is "
            f"{LARGEST_SCORE:g}. Subtract a constant from the table, or spread it over factors."
        )

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
    with np.errstate(divide="ignore"):
        logs = [torch.from_numpy(np.asarray(np.log(table))) for table in network.tables]
    pairs = list(zip(network.scopes, logs, strict=True))
    factors = [(scope, table) for scope, table in pairs if scope]
    constant = sum(float(table) for scope, table in pairs if not scope)
    if constant != 0.0:
        if not network.states:
            raise GraphError(
                "a network without variables is only a number: there is nothing to infer."
            )
        if not factors:
            factors = [((0,), torch.zeros(network.states[0], dtype=torch.float64))]
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


def _check_range(name: str, scores: Tensor) -> None:
    largest = float(scores.masked_fill(scores == -math.inf, 0.0).abs().max())
    if not largest <= LARGEST_SCORE:
        raise GraphError(
            f"group '{name}': UAI files hold exponentials, not logarithms, and that of a score of "
            f"{largest:.6g} nats in size is out of range; the most is {LARGEST_SCORE:g}. Subtract "
            "a constant from the table, or spread it over factors."
        )

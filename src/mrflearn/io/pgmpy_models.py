"""Models of pgmpy, which need not be installed to be read: whatever has its tables will do."""

from __future__ import annotations

from typing import Any

import numpy as np

from mrflearn.errors import DataError, MissingExtraError
from mrflearn.io.uai import UaiNetwork


def from_pgmpy(model: Any) -> UaiNetwork:
    """The network of a Bayesian network, a Markov network or a factor graph of pgmpy.

    It has `get_cpds()` or `get_factors()`, of tables with `variables`, `values` and `state_names`.
    """
    directed = hasattr(model, "get_cpds")
    tables = model.get_cpds() if directed else getattr(model, "get_factors", list)()
    if not tables:
        raise DataError(
            f"this {type(model).__name__} has no tables: neither get_cpds() nor get_factors() "
            "gives any."
        )
    labels = {
        str(name): tuple(map(str, own.state_names[name]))
        for own in tables
        for name in own.variables
    }
    order = [str(name) for name in getattr(model, "nodes", list)() if str(name) in labels]
    names = tuple(order or labels)
    number = {name: i for i, name in enumerate(names)}
    scopes, values = [], []
    for own in tables:
        scope = [number[str(name)] for name in own.variables]
        table = np.asarray(own.values, dtype=np.float64)
        if directed:  # theirs has the child first
            scope, table = [*scope[1:], scope[0]], np.moveaxis(table, 0, -1)
        scopes.append(tuple(scope))
        values.append(table)
    own_labels = tuple(labels[name] for name in names)
    states = tuple(map(len, own_labels))
    kind: Any = "BAYES" if directed else "MARKOV"
    return UaiNetwork(kind, states, tuple(scopes), tuple(values), names, own_labels)


def to_pgmpy(network: UaiNetwork) -> Any:
    """A `DiscreteBayesianNetwork` of a BAYES network, else a `DiscreteMarkovNetwork`."""
    try:
        from pgmpy import models
        from pgmpy.factors.discrete import DiscreteFactor, TabularCPD
    except ImportError as missing:
        raise MissingExtraError("pgmpy is needed: pip install pgmpy") from missing
    directed = network.kind == "BAYES"
    model: Any = models.DiscreteBayesianNetwork() if directed else models.DiscreteMarkovNetwork()
    model.add_nodes_from(map(network.name, range(len(network.states))))
    for scope, table in zip(network.scopes, network.tables, strict=True):
        own = [network.name(v) for v in scope]
        labels = {network.name(v): list(network.labels_of(v)) for v in scope}
        sizes = list(table.shape)
        if directed:
            model.add_edges_from((parent, own[-1]) for parent in own[:-1])
            columns = np.moveaxis(table, -1, 0).reshape(sizes[-1], -1)
            given = (own[:-1], sizes[:-1]) if own[1:] else (None, None)
            model.add_cpds(TabularCPD(own[-1], sizes[-1], columns, *given, state_names=labels))
        else:
            model.add_edges_from((a, b) for i, a in enumerate(own) for b in own[i + 1 :])
            model.add_factors(DiscreteFactor(own, sizes, table, state_names=labels))
    return model

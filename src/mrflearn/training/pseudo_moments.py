"""Pseudo-moment matching: an untied field in closed form, whose loopy beliefs are the data's.

[Sutton and McCallum 2009, eq. 13; Wainwright, Jaakkola and Willsky 2003]

    theta_a(y_a) = log p(y_a) - sum over s in a of log p(y_s)        theta_s(y_s) = log p(y_s)

with p the empirical marginals.  Uniform messages are then a fixed point of belief propagation whose
beliefs are those marginals: the Bethe likelihood at its greatest, without a single message.
"""

from __future__ import annotations

import time

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.observations import CliqueCounts
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.gauges import reference_gauge
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.models.tabular import TabularModel
from mrflearn.training.lap import insist_on_untied
from mrflearn.training.outcome import Outcome


def pseudo_moments(graph: FactorGraph, counts: CliqueCounts) -> Outcome[TabularModel]:
    """The field of eq. 13; its value is minus the Bethe log-likelihood of the counts."""
    insist_on_untied(graph)
    started = time.perf_counter()
    field = matched_potentials(graph, counts)
    value = 0.0
    for table, seen in zip(field.tables, counts.counts, strict=True):
        value -= float((table.dense() * seen).sum())
    return Outcome(
        model=TabularModel.from_potentials(reference_gauge(field)),
        value=value,
        iterations=0,
        evaluations=0,
        ending="value",
        reason="the moments were matched in closed form.",
        history=(),
        seconds=time.perf_counter() - started,
    )


def matched_potentials(graph: FactorGraph, counts: CliqueCounts) -> Potentials:
    """The tables of eq. 13; the first factor of a variable without its own holds that term."""
    single = _log_marginals(graph, counts)
    held = torch.zeros(graph.variables, dtype=torch.bool, device=graph.device)
    order = sorted(range(len(graph.groups)), key=lambda index: graph.groups[index].arity)
    tables: list[Tensor] = [torch.zeros(0)] * len(order)
    for index in order:
        group, seen = graph.groups[index], counts.counts[index]
        table = _log_share(group.name, seen)
        for axis in range(group.arity):
            members = group.scope[:, axis]
            first = ~held[members] & _first_times(members, graph.variables)
            held[members] = True
            # One copy of the variable's own term is taken off, or kept where it is needed.
            own = single[members, : seen.shape[axis + 1]] * (~first).unsqueeze(1)
            shape = [len(group), *[1] * group.arity]
            shape[axis + 1] = -1
            table = table - own.reshape(shape)
        tables[index] = table
    return Potentials(graph, tuple(DenseTable(table) for table in tables))


def _log_marginals(graph: FactorGraph, counts: CliqueCounts) -> Float[Tensor, "v s"]:
    """log p of the states of every variable, from any factor that it is in."""
    shape = graph.variables, graph.most_states
    single = torch.zeros(shape, dtype=torch.float64, device=graph.device)
    for group, seen in zip(graph.groups, counts.counts, strict=True):
        for axis in range(group.arity):
            others = [1 + k for k in range(group.arity) if k != axis]
            own = seen.sum(dim=others) if others else seen
            single[group.scope[:, axis], : own.shape[1]] = _log_share(group.name, own)
    return single


def _log_share(name: str, seen: Float[Tensor, " f *shape"]) -> Float[Tensor, " f *shape"]:
    if bool((seen <= 0).any()):
        factor = int((seen <= 0).flatten(1).any(dim=1).nonzero()[0])
        raise DataError(
            f"group '{name}', clique {factor}: some joint state was never seen, and its score "
            "would be -inf. Give more samples, or estimator='pw' with a penalty (l2=0.1)."
        )
    total = seen.flatten(1).sum(dim=1).reshape(-1, *[1] * (seen.ndim - 1))
    return (seen / total).log()


def _first_times(members: Tensor, variables: int) -> Tensor:
    """True where a variable is named for the first time."""
    order = torch.arange(len(members), device=members.device)
    place = torch.full((variables,), len(members), device=members.device)
    place.scatter_reduce_(0, members, order, "amin")
    return place[members] == order

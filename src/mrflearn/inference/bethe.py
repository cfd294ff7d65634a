"""What messages stand for: the Bethe (or tree-reweighted) log-partition, and marginals."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import Beliefs, Kind
from mrflearn.inference.fixed_point import Rest
from mrflearn.inference.message_field import Field
from mrflearn.inference.starting import impossible_components
from mrflearn.kernels.messages import joint


def beliefs_at(potentials: Potentials, field: Field, rest: Rest, kind: Kind) -> Beliefs:
    """The beliefs at the messages where passing came to rest.

    With Z_v and Z_f the sums of unnormalised beliefs, log Z = sum_f rho_f log Z_f +
    sum_v (1 - sum of rho around v) log Z_v; rho = 1 gives the Bethe value [Yedidia, Freeman and
    Weiss 2005].  Its gradient in the messages is zero at a fixed point, so the error of the value
    is of second order in the residual.
    """
    graph, wiring = potentials.graph, field.wiring
    total = wiring.padded(field.totals(rest.messages), -torch.inf)
    scores = {
        index: joint(table, inboxes)
        for index, table, inboxes in zip(
            wiring.senders, field.tables, field.inboxes(rest.messages), strict=True
        )
    }
    sums = {index: torch.logsumexp(score.flatten(0, -2), 0) for index, score in scores.items()}
    log_z = torch.logsumexp(total, 1)
    impossible = _impossible(graph, log_z, sums)
    if kind != "exact" and field.floor is not None and not bool(impossible.all()):
        # Messages may rest on cycles that no assignment satisfies.
        impossible |= impossible_components(potentials, total.argmax(1))
    log_partition = _value(field, log_z, sums).masked_fill(impossible, -torch.inf)
    variables = torch.softmax(total, 1)
    variables[impossible[graph.component]] = 0.0
    factors = []
    for index, group in enumerate(graph.groups):
        if index in scores:
            flat = torch.softmax(scores[index].flatten(0, -2), 0)
            belief = flat.reshape(scores[index].shape).movedim(-1, 0)
            belief[impossible[graph.component_of(group)]] = 0.0
        else:  # a unary factor, whose belief is its variable's; or a group without factors
            shape = potentials.tables[index].shape[1:]
            belief = variables.new_zeros(len(group), *shape)
            if len(group):
                belief = variables[group.scope[:, 0], : shape[0]]
        factors.append(belief)
    return Beliefs(
        log_partition,
        variables,
        tuple(factors),
        kind,
        sweeps=rest.sweeps,
        residual=rest.residual,
        converged=rest.converged,
    )


def _impossible(
    graph: FactorGraph, log_z: Float[Tensor, "v"], sums: dict[int, Float[Tensor, "f"]]
) -> Bool[Tensor, "c"]:
    """Which components have a variable or a factor left without any possible state."""
    impossible = torch.zeros(graph.components, dtype=torch.bool, device=graph.device)
    impossible[graph.component[log_z == -torch.inf]] = True
    for index, log_zf in sums.items():
        impossible[graph.component_of(graph.groups[index])[log_zf == -torch.inf]] = True
    return impossible


def _value(
    field: Field, log_z: Float[Tensor, "v"], sums: dict[int, Float[Tensor, "f"]]
) -> Float[Tensor, "c"]:
    """The log-partition by component, where every sum is finite."""
    graph = field.wiring.graph
    around = torch.ones_like(log_z)
    total = log_z.new_zeros(graph.components)
    ones = torch.ones_like(field.wiring.place, dtype=log_z.dtype)
    rhos = field.wiring.blocks.split(ones if field.appearance is None else field.appearance)
    for (index, log_zf), blocks in zip(sums.items(), rhos, strict=True):
        group, rho = graph.groups[index], blocks[0][0]
        total.index_add_(0, graph.component_of(group), rho * log_zf)
        for axis in range(group.arity):
            around.index_add_(0, group.scope[:, axis], -rho)
    # Where 1 - sum of rho is 0, log Z_v must not turn up as 0 times -inf.
    return total.index_add(0, graph.component, torch.where(around == 0, 0.0, around * log_z))

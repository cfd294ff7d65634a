"""Naive mean field: a local optimum of the lower bound on log Z by independent variables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.execution.resources import one_thread
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.beliefs import BeliefMethod, Beliefs
from mrflearn.inference.decoding import iterated_conditional_modes
from mrflearn.inference.sampling import Conditionals, feasible_states

START_CHAINS = 16  # that look for a possible state


@final
@dataclass(frozen=True)
class MeanField(BeliefMethod):
    """Coordinate ascent, one colour of variables at a time, from two starts; the better one counts.

    One start knows the unary factors only; the other is a locally best assignment, as sharp as can
    be, which is what strong couplings and impossible entries call for.  The value is a lower bound
    at every step; `converged` says that marginals moved by at most `tolerance` in the last sweep.
    """

    max_sweeps: int = 1000
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        BeliefPropagation(self.max_sweeps, self.tolerance)  # checks them

    @one_thread()
    def _beliefs(self, potentials: Potentials, warm: Tensor | None) -> Beliefs:  # noqa: ARG002
        potentials.check_numbers()
        field = Conditionals.of(potentials)
        runs = [self._ascend(field, start) for start in _starts(field)]
        better = runs[0].log_partition >= runs[1].log_partition
        return _chosen(potentials, better, runs)

    def _ascend(self, field: Conditionals, start: Float[Tensor, "v s"]) -> Beliefs:
        single, sweeps, residual = start, 0, torch.inf
        # Marginals cannot be known better than their rounding.
        near = max(self.tolerance, 16 * torch.finfo(start.dtype).eps)
        while sweeps < self.max_sweeps and residual > near:
            before, sweeps = single.clone(), sweeps + 1
            for colour in field.colours:
                scores = colour.expect(single).T
                dead = (scores == -torch.inf).all(dim=1, keepdim=True)
                fresh = torch.softmax(scores.masked_fill(dead, 0.0), dim=1)
                single[colour.variables] = torch.where(dead, single[colour.variables], fresh)
            residual = float((single - before).abs().max()) if len(single) else 0.0
        value = _value(field, single)
        return Beliefs(value, single, (), "lower bound", sweeps, residual, residual <= near)


def _value(field: Conditionals, single: Float[Tensor, "v s"]) -> Float[Tensor, " c"]:
    """Mean score plus entropy, by component: a lower bound whatever the marginals.

    [Wainwright and Jordan 2008, eq. 5.3]
    """
    total = single.new_zeros(field.graph.components)
    for colour in field.colours:
        # Each factor is seen from all its axes, and counts once.
        once = replace(colour, facets=tuple(own for own in colour.facets if own.axis == 0))
        own = single[colour.variables]
        scores = once.expect(single).T - torch.log(own)
        terms = torch.where(own == 0, 0.0, own * scores).sum(dim=1)
        total.index_add_(0, field.graph.component[colour.variables], terms)
    return total


def _starts(field: Conditionals) -> list[Float[Tensor, "v s"]]:
    """Marginals of the unary factors alone, and all mass on one locally best assignment."""
    bias, legal = field.bias, field.graph.legal()
    unary = torch.softmax(bias, dim=1).nan_to_num(nan=0.0)
    uniform = legal.to(bias.dtype) / legal.sum(dim=1, keepdim=True)
    unary = torch.where(unary.sum(dim=1, keepdim=True) > 0, unary, uniform)
    generator = torch.Generator(device=bias.device).manual_seed(0)
    try:
        states = feasible_states(field, START_CHAINS, generator)[:, 0]
    except InferenceError:  # then the value may well be -inf, which is a lower bound all the same
        states = bias.argmax(dim=1)
    states = iterated_conditional_modes(field, states)
    sharp = torch.zeros_like(bias).scatter_(1, states.unsqueeze(1), 1.0)
    return [unary, sharp]


def _chosen(potentials: Potentials, first: Tensor, runs: list[Beliefs]) -> Beliefs:
    """Of two runs the better one, component by component."""
    graph = potentials.graph
    value = torch.where(first, runs[0].log_partition, runs[1].log_partition)
    own = first[graph.component].unsqueeze(1)
    single = torch.where(own, runs[0].variables, runs[1].variables)
    single = single * (value > -torch.inf)[graph.component].unsqueeze(1)
    factors = []
    for group, table in zip(graph.groups, potentials.tables, strict=True):
        belief = single.new_ones(len(group), *[1] * group.arity)
        for axis, states in enumerate(table.shape[1:]):
            row = single[group.scope[:, axis], :states]
            shape = [-1, *[1] * axis, states, *[1] * (group.arity - axis - 1)]
            belief = belief * row.reshape(shape)
        factors.append(belief.reshape(len(group), *table.shape[1:]))
    sweeps, residual = (max(getattr(run, name) for run in runs) for name in ("sweeps", "residual"))
    ending = sweeps, residual, all(run.converged for run in runs)
    return Beliefs(value, single, tuple(factors), "lower bound", *ending)

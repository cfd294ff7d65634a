"""Naive mean field: a local optimum of the lower bound on log Z by independent variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.execution.threads import one_thread
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.belief_propagation import check_settings
from mrflearn.inference.beliefs import Beliefs, insist, with_gradient
from mrflearn.inference.decoding import iterated_conditional_modes
from mrflearn.inference.messages import Wiring
from mrflearn.inference.sampling import Conditionals, colouring, feasible_states
from mrflearn.kernels.messages import expect

START_CHAINS = 16  # that look for a possible state


@final
@dataclass(frozen=True)
class MeanField:
    """Coordinate ascent, one colour of variables at a time, from two starts; the better one counts.

    One start knows the unary factors only; the other is a locally best assignment, as sharp as can
    be, which is what strong couplings and impossible entries call for.  The value is a lower bound
    at every step; `converged` says that marginals moved by at most `tolerance` in the last sweep.
    """

    max_sweeps: int = 1000
    tolerance: float = 1e-9
    warm_starts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_settings(self.max_sweeps, self.tolerance, damping=0.0)

    def refuses(self, graph: FactorGraph) -> str | None:  # noqa: ARG002 - takes all
        return None

    def __call__(
        self,
        potentials: Potentials,
        warm: Tensor | None = None,  # noqa: ARG002 - nothing to start from
    ) -> Beliefs:
        insist(self, potentials.graph)
        potentials.check_numbers()
        with torch.no_grad(), one_thread():
            field = _Field.of(potentials)
            runs = [self._ascend(field, start) for start in _starts(potentials, field.bias)]
            better = runs[0].log_partition >= runs[1].log_partition
            beliefs = _chosen(potentials, better, runs)
        return with_gradient(potentials, beliefs)

    def _ascend(self, field: _Field, start: Float[Tensor, "v s"]) -> Beliefs:
        single, sweeps, residual = start, 0, torch.inf
        # Marginals cannot be known better than their rounding.
        near = max(self.tolerance, 16 * torch.finfo(start.dtype).eps)
        while sweeps < self.max_sweeps and residual > near:
            before, sweeps = single.clone(), sweeps + 1
            for variables, views in field.colours:
                scores = field.scores(single, views)[variables]
                dead = (scores == -torch.inf).all(dim=1, keepdim=True)
                fresh = torch.softmax(scores.masked_fill(dead, 0.0), dim=1)
                single[variables] = torch.where(dead, single[variables], fresh)
            residual = float((single - before).abs().max()) if len(single) else 0.0
        value = field.value(single)
        return Beliefs(value, single, (), "lower bound", sweeps, residual, residual <= near)


# Some factors of one group, seen from one axis: group, axis, and which of its factors.
_View = tuple[int, int, Int[Tensor, " k"]]


@dataclass(frozen=True, eq=False)
class _Field:
    """The tables, factors last, and by colour the factors that each variable has to ask."""

    graph: FactorGraph
    bias: Float[Tensor, "v s"]
    tables: dict[int, Float[Tensor, "*shape f"]]
    colours: list[tuple[Int[Tensor, " k"], list[_View]]]

    @classmethod
    def of(cls, potentials: Potentials) -> _Field:
        graph, wiring = potentials.graph, Wiring.of(potentials.graph)
        tables = dict(zip(wiring.senders, wiring.tables(potentials), strict=True))
        number, colours = graph.planned(colouring), []
        for colour in range(int(number.max()) + 1 if len(number) else 0):
            views = []
            for index in wiring.senders:
                around = number[graph.groups[index].scope] == colour
                views += [(index, j, a.nonzero().squeeze(1)) for j, a in enumerate(around.T)]
            colours.append(((number == colour).nonzero().squeeze(1), views))
        bias = wiring.padded(wiring.bias(potentials), -torch.inf)
        return cls(graph, bias, tables, colours)

    def scores(self, single: Float[Tensor, "v s"], views: list[_View]) -> Float[Tensor, "v s"]:
        """The mean score of every state of the variables that the views are about."""
        total = self.bias.clone()
        for index, axis, factors in views:
            table = self.tables[index][..., factors]
            scope = self.graph.groups[index].scope[factors]
            beliefs = [single[v, :n].T for v, n in zip(scope.T, table.shape, strict=False)]
            mean = expect(table, beliefs, axis).T
            total[:, : mean.shape[1]].index_add_(0, scope[:, axis], mean)
        return total

    def value(self, single: Float[Tensor, "v s"]) -> Float[Tensor, " c"]:
        """Mean score plus entropy, by component: a lower bound whatever the marginals.

        [Wainwright and Jordan 2008, eq. 5.3]
        """
        first = [
            (index, 0, torch.arange(table.shape[-1], device=table.device))
            for index, table in self.tables.items()
        ]
        scores = self.scores(single, first) - torch.log(single)
        terms = torch.where(single == 0, 0.0, single * scores).sum(dim=1)
        total = terms.new_zeros(self.graph.components)
        return total.index_add_(0, self.graph.component, terms)


def _starts(potentials: Potentials, bias: Float[Tensor, "v s"]) -> list[Float[Tensor, "v s"]]:
    """Marginals of the unary factors alone, and all mass on one locally best assignment."""
    legal = potentials.graph.legal()
    unary = torch.softmax(bias, dim=1).nan_to_num(nan=0.0)
    uniform = legal.to(bias.dtype) / legal.sum(dim=1, keepdim=True)
    unary = torch.where(unary.sum(dim=1, keepdim=True) > 0, unary, uniform)
    generator = torch.Generator(device=bias.device).manual_seed(0)
    try:
        states = feasible_states(potentials, Conditionals.of(potentials), START_CHAINS, generator)[
            :, 0
        ]
    except InferenceError:  # then the value may well be -inf, which is a lower bound all the same
        states = bias.argmax(dim=1)
    states = iterated_conditional_modes(potentials, states)
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
    return Beliefs(
        value,
        single,
        tuple(factors),
        "lower bound",
        sweeps=max(run.sweeps for run in runs),
        residual=max(run.residual for run in runs),
        converged=all(run.converged for run in runs),
    )

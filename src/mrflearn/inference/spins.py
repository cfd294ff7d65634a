"""Gibbs sweeps of two-state fields with pairs alone: Ising lattices, Boltzmann machines.

The log-odds of a variable are a number for itself and one for each neighbour that is in state 1.
So a colour's variables, in all chains, take a gather and a multiplication for each place in their
lists of neighbours, in single precision, on any device.

Letters in shapes: v: variables, in the order of their colours; d: places in the longest list of
neighbours; n: chains.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.graph.potentials import Potentials

MOST_NEIGHBOURS = 16  # beyond, lists of unequal length would be mostly padding


@dataclass(frozen=True, eq=False)
class SpinSweeps:
    """A field as log-odds; probabilities are rounded to multiples of 2^-24.

    `starts` are where the colours begin, and V; the last row of states is padding, always 0.
    """

    order: Int[Tensor, " v"]  # the number of each variable in the field
    starts: tuple[int, ...]
    bias: Float[Tensor, "v 1"]
    neighbours: Int[Tensor, "d v"]
    weights: Float[Tensor, "d v 1"]

    @classmethod
    def of(cls, potentials: Potentials, colour: Int[Tensor, " v"]) -> SpinSweeps | None:
        """The field's log-odds; None where it has other states or factors, or forbids any."""
        graph = potentials.graph
        tables = [potentials.factor_scores(i).detach().double() for i in range(len(graph.groups))]
        pairs = [(g, t) for g, t in zip(graph.groups, tables, strict=True) if len(g)]
        fits = bool((graph.states == 2).all()) and all(g.arity <= 2 for g, _ in pairs)
        if not graph.variables or not fits or not all(bool(t.isfinite().all()) for _, t in pairs):
            return None
        bias = torch.zeros(graph.variables, dtype=torch.float64, device=graph.device)
        ends, others, couplings = [bias.new_zeros(0).long()], [bias.new_zeros(0).long()], [bias[:0]]
        for group, table in pairs:
            if group.arity == 1:
                bias.index_add_(0, group.scope[:, 0], table[:, 1] - table[:, 0])
                continue
            weight = table[:, 1, 1] - table[:, 1, 0] - table[:, 0, 1] + table[:, 0, 0]
            bias.index_add_(0, group.scope[:, 0], table[:, 1, 0] - table[:, 0, 0])
            bias.index_add_(0, group.scope[:, 1], table[:, 0, 1] - table[:, 0, 0])
            ends += [group.scope[:, 0], group.scope[:, 1]]
            others += [group.scope[:, 1], group.scope[:, 0]]
            couplings += [weight, weight]
        order = colour.argsort(stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=graph.device)
        end, other = place[torch.cat(ends)], place[torch.cat(others)]
        degree = torch.bincount(end, minlength=len(order))
        width = int(degree.max())
        if width > MOST_NEIGHBOURS:
            return None
        by_end = end.argsort(stable=True)
        end = end[by_end]
        slot = torch.arange(len(end), device=end.device) - (degree.cumsum(0) - degree)[end]
        neighbours = order.new_full((width, len(order)), len(order))
        neighbours[slot, end] = other[by_end]
        weights = bias.new_zeros(width, len(order))
        weights[slot, end] = torch.cat(couplings)[by_end]
        sizes = torch.bincount(colour).tolist()
        starts = tuple(sum(sizes[:i]) for i in range(len(sizes) + 1))
        own = bias[order].float().unsqueeze(1)
        return cls(order, starts, own, neighbours, weights.float().unsqueeze(2))

    def sweep(
        self,
        states: Int[Tensor, "v n"],
        generator: torch.Generator,
        share: Float[Tensor, " n"] | float = 1.0,
        times: int = 1,
    ) -> None:
        """Every variable of every chain drawn again, so many times, in place."""
        spins = torch.zeros(len(states) + 1, states.shape[1], device=states.device)
        spins[:-1] = states[self.order]
        for _ in range(times):
            for start, stop in zip(self.starts, self.starts[1:], strict=False):
                odds = self.bias[start:stop].expand(-1, spins.shape[1]).clone()
                for near, weight in zip(self.neighbours, self.weights, strict=True):
                    rows = spins.index_select(0, near[start:stop])
                    odds.addcmul_(rows, weight[start:stop])
                # u < 1 / (1 + exp(-odds)); where exp overflows, the state is 0.
                odds.mul_(-share).exp_().add_(1.0)
                uniform = torch.rand(odds.shape, generator=generator, device=odds.device)
                torch.lt(odds.mul_(uniform), 1.0, out=spins[start:stop])
        states[self.order] = spins[:-1].long()

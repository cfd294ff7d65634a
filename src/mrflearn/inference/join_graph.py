"""Join-graph propagation: belief propagation among the mini-buckets of a split graph.

All that fits into tables of a given width is exact; the copies that variables had to be split into
exchange messages, each copy hearing what all the others say [Mateescu, Kask, Gogate and Dechter
2010; Choi and Darwiche 2007].  Width 1 is near loopy belief propagation, the graph's own width is
exact.  A sweep is one exact inference on the relaxed graph.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.execution.resources import one_thread
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.graph.splitting import SplitGraph
from mrflearn.inference.beliefs import BeliefMethod, Beliefs, Kind, zero_beliefs
from mrflearn.inference.junction_tree import CliqueTree
from mrflearn.inference.mini_bucket import merged_marginals, schedule_of, split_for
from mrflearn.inference.sampling import infeasible_components
from mrflearn.kernels.table_algebra import LOG_SUM_PRODUCT, ScaledTable, along_first

LOWEST = -60.0  # log of the least probability that a message gives a state that may be possible
PATIENCE = 15  # sweeps without progress after which damping goes up
MOST_DAMPING = 0.9


@final
@dataclass(frozen=True)
class JoinGraphPropagation(BeliefMethod):
    """An estimate of log Z, and marginals, from tables of at most `width` + 1 variables.

    Exact where no variable need be split.  Passes messages until beliefs of copies agree to
    `tolerance`, for `max_sweeps` or `seconds`; where they do not draw nearer for a while, damping
    goes up by itself.  The answer is that of the sweep in which copies agreed best.
    """

    width: int = 10
    max_sweeps: int = 300
    seconds: float = float("inf")
    tolerance: float = 1e-6
    memory_limit: int = 4 * 2**30
    warm_starts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.width < 0 or self.max_sweeps < 1 or not self.seconds > 0:
            raise InferenceError(
                f"width={self.width}, max_sweeps={self.max_sweeps}, seconds={self.seconds}: the "
                "width is 0 or more, sweeps and seconds are above 0."
            )

    @one_thread()
    def _beliefs(self, potentials: Potentials, warm: Tensor | None) -> Beliefs:
        potentials.check_numbers()
        deadline = time.perf_counter() + self.seconds
        split = split_for(potentials.graph, self.width, self.memory_limit, alone=True)
        messages = _Messages(split, potentials)
        heard = messages.start(warm)
        best = found = messages.sweep(heard)
        damping, waited, sweeps = 0.0, 0, 1
        while found.residual > self.tolerance and sweeps < self.max_sweeps:
            if time.perf_counter() > deadline:
                break
            heard = damping * heard + (1 - damping) * found.said
            found, sweeps = messages.sweep(heard), sweeps + 1
            waited = 0 if found.residual < 0.9 * best.residual else waited + 1
            if found.residual < best.residual:
                best = found
            if waited >= PATIENCE and damping < MOST_DAMPING:
                damping, waited = min(MOST_DAMPING, damping + (0.5 if not damping else 0.2)), 0
        return messages.answer(best, sweeps, self.tolerance)


@dataclass(frozen=True, eq=False)
class _Sweep:
    """One exact inference on the relaxed graph, with what it heard and what it would say next."""

    heard: Float[Tensor, "m s"]
    said: Float[Tensor, "m s"]
    log_partition: Float[Tensor, " c"]
    beliefs: Beliefs
    residual: float  # the most that a copy's belief differs from that of all together


class _Messages:
    """What copies hear of their variable from the other copies: normalised log-messages.

    Letters: m: copies of split variables; s: states, -inf beyond a variable's own.
    """

    def __init__(self, split: SplitGraph, potentials: Potentials) -> None:
        tables = tuple(DenseTable(t.dense().detach().double()) for t in potentials.tables)
        self.split, self.potentials, self.tables = split, potentials, tables
        groups = split.graph.groups[split.first_shift :]
        none = torch.empty(0, dtype=torch.int64, device=split.graph.device)
        self.copy = torch.cat([none, *(group.scope[:, 0] for group in groups)])
        self.owner = torch.cat([none, *split.shift_owner])
        self.legal = split.graph.legal()[self.copy]
        self.lengths = [(len(group), *split.graph.shape(group)) for group in groups]
        ones = torch.ones(len(self.owner), dtype=torch.float64, device=none.device)
        self.others = ones.new_zeros(split.owners).index_add(0, self.owner, ones) - 1.0

    def start(self, warm: Float[Tensor, " w"] | None) -> Float[Tensor, "m s"]:
        """Uniform messages, or the given ones."""
        if warm is not None and warm.numel() == self.legal.numel():
            return warm.double().reshape(self.legal.shape)
        return self._normalised(torch.zeros(self.legal.shape, dtype=torch.float64))

    def _normalised(self, messages: Float[Tensor, "m s"]) -> Float[Tensor, "m s"]:
        floored = torch.log_softmax(messages.masked_fill(~self.legal, -torch.inf), 1)
        return floored.clamp(min=LOWEST).masked_fill(~self.legal, -torch.inf)

    def sweep(self, heard: Float[Tensor, "m s"]) -> _Sweep:
        """Beliefs on the relaxed graph given these messages, and the next ones."""
        graph, schedule = self.split.graph, schedule_of(self.split)
        rows = heard.split([length for length, *_ in self.lengths])
        shifts = [row[:, :states] for row, (_, states) in zip(rows, self.lengths, strict=True)]
        field = Potentials(graph, (*self.tables, *map(DenseTable, shifts)))
        packs = tuple(ScaledTable.of(LOG_SUM_PRODUCT, own.scores(field)) for own in schedule.packs)
        tree, found = CliqueTree(schedule, packs), zero_beliefs(field)
        messages = tree.collect()
        value = tree.log_partition(messages, graph.components)
        tree.distribute(messages)
        tree.deliver(value, found)
        own = found.variables[self.copy]
        cavity = self._normalised(own.log() - heard.nan_to_num(neginf=0.0))
        total = self._over_owners(cavity.masked_fill(~self.legal, 0.0))
        together = torch.softmax(total[self.owner].masked_fill(~self.legal, -torch.inf), 1)
        said = self._normalised(total[self.owner] - cavity.masked_fill(~self.legal, 0.0))
        residual = float((together - own).abs().max()) if len(own) else 0.0
        return _Sweep(heard, said, value + self._correction(heard, own), found, residual)

    def _correction(self, heard: Float[Tensor, "m s"], own: Float[Tensor, "m s"]) -> Tensor:
        """What messages count too much, by component: the Bethe value less the relaxed log Z.

        A variable of R copies must count its belief b to the power of 1 - R; the messages stand
        for a power of R - 1 of b where copies agree, whatever their constants.
        """
        counts = (self.others + 1.0).clamp(min=1.0).unsqueeze(1)
        mean = self._over_owners(own) / counts
        sent = self._over_owners(heard.masked_fill(~self.legal | (own == 0), 0.0))
        log_mean = torch.where(mean > 0, mean.log(), 0.0)
        terms = (mean * (self.others.unsqueeze(1) * log_mean - sent)).sum(1)
        component = torch.zeros(self.split.owners, dtype=torch.int64, device=heard.device)
        component = component.index_copy(0, self.owner, self.split.graph.component[self.copy])
        return terms.new_zeros(self.split.graph.components).index_add(0, component, terms)

    def _over_owners(self, values: Float[Tensor, "m s"]) -> Float[Tensor, "o s"]:
        return values.new_zeros(self.split.owners, values.shape[1]).index_add(0, self.owner, values)

    def answer(self, best: _Sweep, sweeps: int, tolerance: float) -> Beliefs:
        """The beliefs of a sweep, in the numbering and the type of the field itself."""
        graph, dtype = self.potentials.graph, self.potentials.dtype
        exact, value = not len(self.copy), best.log_partition
        variables = merged_marginals(self.split, graph, best.beliefs.variables)
        possible = value > -torch.inf
        if not exact and bool(possible.any()) and self._has_zeros():
            possible &= ~infeasible_components(self.potentials, variables.argmax(1))
        variables = variables * possible[graph.component].unsqueeze(1)
        factors = tuple(
            (own * along_first(possible[graph.component_of(group)].to(own), own)).to(dtype)
            for group, own in zip(graph.groups, best.beliefs.factors, strict=False)
        )
        kind: Kind = "exact" if exact else "approximation"
        return Beliefs(
            value.masked_fill(~possible, -torch.inf).to(dtype),
            variables.to(dtype),
            factors,
            kind,
            sweeps,
            best.residual,
            best.residual <= tolerance,
            warm=best.heard.flatten(),
        )

    def _has_zeros(self) -> bool:
        return any(bool((table.dense() == -torch.inf).any()) for table in self.tables)

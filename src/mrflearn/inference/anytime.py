"""Anytime inference: exact where time and memory allow, else an estimate within certified bounds.

Exact methods come first: elimination, and conditioning on a cutset where that is too wide.  Where
both would take too long, weighted mini-buckets bound log Z from both sides and join-graph
propagation estimates it, with tables that grow for as long as there is time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.execution.resources import one_thread
from mrflearn.graph.elimination import EliminationPlan, find_plans
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.automatic import Automatic
from mrflearn.inference.beliefs import BeliefMethod, Beliefs
from mrflearn.inference.conditioning import conditioned_sums, find_cutset
from mrflearn.inference.join_graph import JoinGraphPropagation
from mrflearn.inference.junction_tree import GIB, JunctionTree
from mrflearn.inference.mean_field import MeanField
from mrflearn.inference.mini_bucket import Bound, Side, limit_of, schedule_of, split_for

WIDTHS = (2, 6, 10, 13, 16, 18, 20, 22, 24, 26)
ENTRIES_A_SECOND = 5e7  # of exact elimination on one slow core, both ways
SWEEPS = 8  # that a width must have time for
CALLS = 2**19  # table entries that take as long as the calls of a sweep themselves
FIRST = 2.0  # seconds at most until there is some answer
AGREED = 1e-3  # residual below which the estimate of wider tables is taken for the better one
CLEARLY = 3.0  # as is one whose copies do not agree so many times less


@final
@dataclass(frozen=True)
class Anytime(BeliefMethod):
    """log Z and marginals with an interval that log Z certainly lies in, within time and memory.

    The kind is "exact", or "estimate in bounds": then `lower` and `upper` are bounds on log Z by
    weighted mini-buckets or mean field, and log Z and marginals those of join-graph propagation,
    moved into the interval; `converged` is about that.  No table has more than `max_width` + 1
    variables where that is given.  Ctrl-C ends the work with the best answer so far.

    Parameters
    ----------
    seconds
        The time to take.  An answer that is exact may come sooner, and a step under way is
        finished.
    memory_limit
        The memory for tables, in bytes.
    max_width
        The greatest width of anything eliminated; None: as memory allows.

    Examples
    --------
    >>> from mrflearn.graph import grid, random_ising
    >>> from mrflearn.inference import Anytime
    >>> found = Anytime(seconds=1.0, max_width=1)(random_ising(grid(3, 3), scale=1.0, seed=0))
    >>> found.kind
    'exact'

    """

    seconds: float = 20.0
    memory_limit: int = 4 * GIB
    max_width: int | None = None

    def __post_init__(self) -> None:
        if not self.seconds > 0 or (self.max_width is not None and self.max_width < 1):
            raise InferenceError(
                f"seconds={self.seconds}, max_width={self.max_width}: the time is above 0, and the "
                "width at least 1."
            )

    def _beliefs(self, potentials: Potentials, warm: Tensor | None) -> Beliefs:  # noqa: ARG002
        found = None
        try:
            for found in self.improving(potentials):  # noqa: B007 - the last is the best
                pass
        except KeyboardInterrupt:
            if found is None:
                raise
        assert found is not None  # noqa: S101 - there is one at least
        return found

    def improving(self, potentials: Potentials) -> Iterator[Beliefs]:
        """Better and better answers; the last is exact, or comes when time is up."""
        potentials.check_numbers()
        started = time.perf_counter()
        deadline = started + self.seconds
        exact = self._exact(potentials.graph)
        if exact is not None:
            yield _certain(exact(potentials), _width_of(potentials.graph))
            return
        answer = _Answer.of(potentials)
        graph, widths = potentials.graph, self._widths(potentials.graph)
        for number, width in enumerate(widths):
            left, wider = deadline - time.perf_counter(), widths[number + 1 :]
            if left <= 0 and number:
                break
            # Where there is no time for a wider table, this one takes all that is left.
            last = not wider or (
                number > 0 and not answer.affordable(self._entries(graph, wider[0]), 0.8 * left)
            )
            share = left * (0.9 if last else 0.2)
            answer.improve(width, self.memory_limit, share if number else min(FIRST, share))
            yield answer.beliefs()
            if answer.impossible():
                return
            exact_answer = None if number else self._conditioned(potentials, deadline)
            if exact_answer is not None:
                yield exact_answer
            if last or exact_answer is not None:
                return

    def _exact(self, graph: FactorGraph) -> Automatic | None:
        """Exact elimination, where it is not refused and should be done in time."""
        exact = JunctionTree(self.memory_limit, self.max_width)
        policy = Automatic(exact)
        if policy.chosen(graph)[1] is not None:
            return None
        entries = sum(
            plan.elimination.total * len(own.components)
            for plan, own in graph.planned(find_plans)
            if isinstance(plan, EliminationPlan)
        )
        return policy if entries <= ENTRIES_A_SECOND * self.seconds else None

    def _widths(self, graph: FactorGraph) -> list[int]:
        """Widths to try: those that memory has room for, in tables of variables of two states."""
        most = min(graph.variables, WIDTHS[-1] if self.max_width is None else self.max_width)
        most = max(1, min(most, int(limit_of(most, self.memory_limit).log2_entries)))
        # A first answer comes quickly, if need be by the width of the last.
        return [*([width for width in WIDTHS if width < most] or [most]), most]

    def _entries(self, graph: FactorGraph, width: int) -> int:
        parts = split_for(graph, width, self.memory_limit, alone=True).parts
        return sum(plan.elimination.total * len(own.components) for plan, own in parts)

    @one_thread()
    def _conditioned(self, potentials: Potentials, deadline: float) -> Beliefs | None:
        """The exact answer by conditioning on a cutset, or None: it cannot be had in time."""
        width = self._widths(potentials.graph)[-1]
        cutset = find_cutset(potentials.graph, limit_of(width, self.memory_limit))
        start = time.perf_counter()
        if cutset is None or cutset.work > ENTRIES_A_SECOND * (deadline - start):
            return None
        first = 0
        for cells, found in conditioned_sums(potentials, cutset, self.memory_limit):
            if cells == cutset.cells:
                return _certain(found, cutset.plan.elimination.width)
            now = time.perf_counter()
            if not first:  # planning is no measure of the time that is still needed
                first, start = cells, now
            elif (now - start) / (cells - first) * (cutset.cells - cells) > deadline - now:
                break
        return None


def _certain(found: Beliefs, width: int) -> Beliefs:
    """An exact answer, whose bounds meet."""
    value = found.log_partition
    return replace(found, lower=value, upper=value, width=width)


def _width_of(graph: FactorGraph) -> int:
    """The greatest width that exact elimination meets."""
    plans = [plan for plan, _ in graph.planned(find_plans) if isinstance(plan, EliminationPlan)]
    return max((plan.elimination.width for plan in plans), default=0)


@dataclass(eq=False)
class _Answer:
    """The best bounds and the best estimate so far."""

    potentials: Potentials
    lower: Float[Tensor, " c"]
    upper: Float[Tensor, " c"]
    estimate: Beliefs | None = None
    width: int = 0
    a_sweep: float = 0.0  # seconds, of the last width
    entries: int = 1

    @classmethod
    def of(cls, potentials: Potentials) -> _Answer:
        """Bounds that are there without mini-buckets: mean field's, and none above."""
        found = MeanField(max_sweeps=50)(potentials).log_partition.detach()
        return cls(potentials, found.double(), torch.full_like(found.double(), inf))

    def affordable(self, entries: int, seconds: float) -> bool:
        """Whether a few sweeps over so many table entries can be done in time."""
        return self.a_sweep * (entries + CALLS) / (self.entries + CALLS) * SWEEPS < seconds

    def impossible(self) -> bool:
        """Whether no assignment is possible, for certain."""
        return bool((self.upper == -inf).all())

    def improve(self, width: int, memory_limit: int, seconds: float) -> None:
        """Takes in what tables of a width find in that time."""
        graph = self.potentials.graph
        split = split_for(graph, width, memory_limit, alone=True)
        for own in (split, split_for(graph, width, memory_limit)):
            schedule_of(own)  # plans are not to count as sweeps
        start = time.perf_counter()
        self._bound("upper", width, memory_limit, start + 0.35 * seconds)
        self._bound("lower", width, memory_limit, start + 0.55 * seconds)
        begun = time.perf_counter()
        left = max(0.2 * seconds, start + seconds - begun)
        passing = JoinGraphPropagation(width, 10_000, left, memory_limit=memory_limit)
        found = passing(self.potentials)
        self.a_sweep = (time.perf_counter() - begun) / found.sweeps
        self.entries = sum(
            plan.elimination.total * len(own.components) for plan, own in split.parts
        )
        best = self.estimate
        if best is None or found.residual <= max(AGREED, CLEARLY * float(best.residual)):
            self.estimate, self.width = found, width

    @one_thread()
    def _bound(self, side: Side, width: int, memory_limit: int, deadline: float) -> None:
        bound = Bound.of(self.potentials, width, memory_limit, side)
        value = bound.tighten(10_000, deadline, 1e-7).log_partition.double()
        if side == "upper":
            self.upper = torch.minimum(self.upper, value)
        else:
            self.lower = torch.maximum(self.lower, value)

    def beliefs(self) -> Beliefs:
        """The estimate, within the bounds."""
        assert self.estimate is not None  # noqa: S101 - improved before
        dtype = self.potentials.dtype
        lower, upper = self.lower, torch.maximum(self.lower, self.upper)
        value = torch.minimum(torch.maximum(self.estimate.log_partition.double(), lower), upper)
        kind = self.estimate.kind if self.estimate.kind == "exact" else "estimate in bounds"
        return replace(
            self.estimate,
            log_partition=value.to(dtype),
            lower=lower.to(dtype),
            upper=upper.to(dtype),
            kind=kind,
            warm=None,
            width=self.width,
        )

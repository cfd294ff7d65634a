"""Weighted mini-buckets: upper and lower bounds on log Z that tighten with width and time.

Where exact elimination would need too wide a table, variables are split into copies
(`graph.splitting`), and every copy is summed with a weight (`power_sums`).  What holds for any
weights and for any functions that the copies of a variable exchange, as long as these add up to
zero, is then made as tight as it gets by following the gradient in both [Liu and Ihler 2011]: where
the gradient is zero, copies agree on the marginals that they share (moment matching), and on the
conditional entropies of their variable.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.execution.resources import one_thread
from mrflearn.graph.elimination import EliminationPlan, Replicas
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.graph.splitting import Limit, SplitGraph, make_split_graph
from mrflearn.inference.beliefs import BeliefMethod, Beliefs, Kind
from mrflearn.inference.clique_batches import Schedule, make_schedule
from mrflearn.inference.mean_field import MeanField
from mrflearn.inference.power_sums import Descent, PowerSums
from mrflearn.inference.sampling import infeasible_components
from mrflearn.kernels.table_algebra import along_first

Side = Literal["upper", "lower"]
Vector = NDArray[np.float64]
Parts = tuple[tuple[EliminationPlan, Replicas], ...]

WIDEST = 30.0  # log2 of the entries of a table that is worked on as a whole
SMALLEST_LOGIT = -10.0  # weights near 0 change a bound no further, but divide by nearly nothing


@final
@dataclass(frozen=True)
class MiniBucket(BeliefMethod):
    """An upper (or lower) bound on log Z from tables of at most `width` + 1 variables.

    It is tightened for `max_steps` evaluations or `seconds`, whichever is over first, and each
    evaluation is a bound, of which the best counts.  Marginals are those that the copies of
    variables agree on, more or less.  Where no variable need be split all is exact.  Factors of
    any arity are taken; one with more variables than the width allows stays whole.  A lower bound
    is -inf where impossible states meet a split variable.
    """

    width: int = 10
    side: Side = "upper"
    max_steps: int = 100
    seconds: float = float("inf")
    tolerance: float = 1e-6
    memory_limit: int = 4 * 2**30

    def __post_init__(self) -> None:
        if self.width < 0 or self.max_steps < 1 or not self.seconds > 0:
            raise InferenceError(
                f"width={self.width}, max_steps={self.max_steps}, seconds={self.seconds}: the "
                "width is 0 or more, steps and seconds are above 0."
            )
        if self.side not in ("upper", "lower"):
            raise InferenceError(f"side={self.side!r} is neither 'upper' nor 'lower'.")

    @one_thread()
    def _beliefs(self, potentials: Potentials, warm: Tensor | None) -> Beliefs:  # noqa: ARG002
        potentials.check_numbers()
        deadline = time.perf_counter() + self.seconds
        bound = Bound.of(potentials, self.width, self.memory_limit, self.side)
        found = bound.tighten(self.max_steps, deadline, self.tolerance)
        if self.side == "lower" and bool((found.log_partition == -torch.inf).any()):
            return better_of(potentials.graph, found, MeanField()(potentials))
        return found


def better_of(graph: FactorGraph, one: Beliefs, other: Beliefs) -> Beliefs:
    """Of two lower bounds the greater, component by component."""
    first = one.log_partition >= other.log_partition
    value = torch.where(first, one.log_partition, other.log_partition)
    variables = torch.where(first[graph.component].unsqueeze(1), one.variables, other.variables)
    factors = tuple(
        torch.where(along_first(first[graph.component_of(group)], a), a, b)
        for group, a, b in zip(graph.groups, one.factors, other.factors, strict=True)
    )
    return replace(one, log_partition=value, variables=variables, factors=factors)


def limit_of(width: int, memory_limit: int) -> Limit:
    """What tables may have: a few of them, and as many messages, must fit into memory."""
    room = max(memory_limit // (8 * 16), 2)
    return Limit(width + 1, min(WIDEST, float(np.log2(room))))


def split_for(
    graph: FactorGraph, width: int, memory_limit: int, *, alone: bool = False
) -> SplitGraph:
    """The relaxed graph of a width, planned once."""
    return graph.planned(make_split_graph, limit_of(width, memory_limit), alone)


def schedule_of(split: SplitGraph) -> Schedule:
    """The batches of mini-buckets, planned once a relaxed graph."""
    return split.graph.planned(_schedule, split.parts)


def _schedule(graph: FactorGraph, parts: Parts) -> Schedule:
    return make_schedule(parts, graph.device)


@dataclass(frozen=True, eq=False)
class Bound:
    """A bound on log Z as a function of one vector: shifts of copies, then logits of weights."""

    potentials: Potentials
    split: SplitGraph
    side: Side
    copy: Int[Tensor, " m"]  # every copy of a split variable
    owner: Int[Tensor, " m"]  # and the number of that variable
    dtype: torch.dtype  # of the answer; all is computed in double precision
    first: Int[Tensor, " o"]  # the copy of each whose weight is positive in a lower bound

    @classmethod
    def of(cls, potentials: Potentials, width: int, memory_limit: int, side: Side) -> Bound:
        """The bound by tables of a width."""
        split = split_for(potentials.graph, width, memory_limit)
        groups = split.graph.groups[split.first_shift :]
        none = torch.empty(0, dtype=torch.int64, device=split.graph.device)
        copy = torch.cat([none, *(group.scope[:, 0] for group in groups)])
        owner = torch.cat([none, *split.shift_owner])
        number = torch.arange(len(copy), device=none.device)
        first = torch.full((split.owners,), len(copy), device=none.device)
        first = first.scatter_reduce(0, owner, number, "amin")
        double = tuple(DenseTable(table.dense().detach().double()) for table in potentials.tables)
        return cls(
            Potentials(potentials.graph, double), split, side, copy, owner, potentials.dtype, first
        )

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the stacks of shifts."""
        groups = self.split.graph.groups[self.split.first_shift :]
        return [(len(group), *self.split.graph.shape(group)) for group in groups]

    def start(self) -> Vector:
        """No shifts, and equal weights of equal sign."""
        return np.zeros(sum(int(np.prod(shape)) for shape in self.shapes) + len(self.copy))

    def tighten(self, max_steps: int, deadline: float, tolerance: float) -> Beliefs:
        """The best of the evaluations made within the limits, following L-BFGS."""
        sign = 1.0 if self.side == "upper" else -1.0
        best: tuple[Tensor, Descent] | None = None
        steps, last, stopped = 0, np.inf, False

        def evaluate(vector: Vector) -> tuple[float, Vector]:
            nonlocal best, steps, last, stopped
            if best is not None and (steps >= max_steps or time.perf_counter() > deadline):
                stopped = True
                raise _Enough
            value, weights, found = self.evaluate(vector)
            total, steps = float(value.sum()), steps + 1
            if best is None or sign * (total - float(best[0].sum())) < 0:
                best = value, found
            if not np.isfinite(total):  # no way leads on from here
                return np.inf, np.zeros_like(vector)
            return sign * total, sign * self.gradient(weights, found)

        vector, near = self.start(), tolerance
        if len(self.copy):
            box: list[tuple[float | None, float | None]] = [(None, None)] * (
                len(vector) - len(self.copy)
            )
            box += [(SMALLEST_LOGIT, -SMALLEST_LOGIT)] * len(self.copy)
            options = {"maxiter": max_steps, "maxfun": max_steps, "gtol": near, "ftol": 1e-12}
            try:
                if np.isfinite(evaluate(vector)[0]):
                    minimize(
                        evaluate, vector, jac=True, method="L-BFGS-B", bounds=box, options=options
                    )
            except _Enough:
                pass
        else:
            evaluate(vector)
        assert best is not None  # noqa: S101 - evaluated once at least
        value, found = best
        return self._answer(value, found, steps, converged=not stopped and steps < max_steps)

    def evaluate(self, vector: Vector) -> tuple[Tensor, Tensor, Descent]:
        """The bound by component, the weights of all copies, and the beliefs."""
        shifts, weights = self.settings(vector)
        tables = (*self.potentials.tables, *map(DenseTable, shifts))
        sums = PowerSums.of(schedule_of(self.split), Potentials(self.split.graph, tables))
        value, messages = sums.ascend(weights)
        return value, weights, sums.descend(weights, messages)

    def settings(self, vector: Vector) -> tuple[list[Tensor], Float[Tensor, " k"]]:
        """Shifts that add up to zero over the copies of a variable; weights that add up to one."""
        free = torch.from_numpy(np.array(vector)).to(self.copy.device)
        shapes = self.shapes
        parts = free.split([*(int(np.prod(shape)) for shape in shapes), len(self.copy)])
        shifts = [
            self._centred(part.reshape(shape), own)
            for part, shape, own in zip(parts[:-1], shapes, self.split.shift_owner, strict=True)
        ]
        weights = free.new_ones(len(self.split.original))
        weights[self.copy] = self._weights(parts[-1])
        return shifts, weights

    def _weights(self, logits: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
        power = logits.exp()
        if self.side == "upper":
            return power / self._per_owner(power)[self.owner]
        power = power.index_fill(0, self.first, 0.0)
        total = self._per_owner(power)
        return (-power).index_copy(0, self.first, 1.0 + total)

    def gradient(self, weights: Float[Tensor, " k"], found: Descent) -> Vector:
        """How the bound changes with the vector that gave these weights and beliefs."""
        parts = [
            self._centred(found.factors[self.split.first_shift + g], own).flatten()
            for g, own in enumerate(self.split.shift_owner)
        ]
        weight, entropy = weights[self.copy], found.entropy[self.copy]
        if self.side == "upper":
            mean = self._per_owner(weight * entropy)[self.owner]
        else:  # of the positive one: what a negative weight gains, it gains too
            mean = entropy[self.first][self.owner]
        parts.append(weight * (entropy - mean))
        return torch.cat(parts).cpu().numpy()

    def _centred(self, values: Float[Tensor, " f *shape"], own: Int[Tensor, " f"]) -> Tensor:
        """The values less their mean over the copies of each variable."""
        count = along_first(torch.bincount(own, minlength=self.split.owners).to(values), values)
        total = values.new_zeros(self.split.owners, *values.shape[1:]).index_add(0, own, values)
        return values - (total / count.clamp(min=1.0))[own]

    def _per_owner(self, values: Float[Tensor, " m"]) -> Float[Tensor, " o"]:
        return values.new_zeros(self.split.owners).index_add(0, self.owner, values)

    def _answer(self, value: Tensor, found: Descent, steps: int, *, converged: bool) -> Beliefs:
        graph = self.potentials.graph
        exact = not len(self.copy)
        value = value if exact else value + (1 if self.side == "upper" else -1) * self._rounding()
        variables = merged_marginals(self.split, graph, found.variables)
        possible = value > -torch.inf
        if not exact and self.side == "upper" and bool(possible.any()):
            possible &= ~infeasible_components(self.potentials, variables.argmax(1))
            value = value.masked_fill(~possible, -torch.inf)
        variables = variables * possible[graph.component].unsqueeze(1)
        factors = tuple(
            belief * along_first(possible[graph.component_of(group)].to(belief), belief)
            for group, belief in zip(graph.groups, found.factors, strict=False)
        )
        kind: Kind = "upper bound" if self.side == "upper" else "lower bound"
        return Beliefs(
            value.to(self.dtype),
            variables.to(self.dtype),
            tuple(belief.to(self.dtype) for belief in factors),
            "exact" if exact else kind,
            steps,
            converged=exact or converged,
        )

    def _rounding(self) -> Float[Tensor, " c"]:
        """What sums of so many scores of this size can be off by in double precision."""
        graph = self.potentials.graph
        size = torch.log(graph.states.double())
        total = size.new_ones(graph.components).index_add(0, graph.component, size)
        for group, table in zip(graph.groups, self.potentials.tables, strict=True):
            if len(group):
                most = table.dense().nan_to_num(neginf=0.0).abs().flatten(1).amax(1)[group.table]
                total = total.index_add(0, graph.component_of(group), most)
        return 16 * torch.finfo(torch.float64).eps * total


class _Enough(Exception):  # noqa: N818 - leaves the minimiser, and is no error
    pass


def merged_marginals(
    split: SplitGraph, graph: FactorGraph, copies: Float[Tensor, "k s"]
) -> Float[Tensor, "v s"]:
    """The mean of what the copies of each variable say; zero where they have no possible state."""
    states = copies.shape[1]
    total = copies.new_zeros(graph.variables, graph.most_states)
    total[:, :states] = total[:, :states].index_add(0, split.original, copies)
    return total / total.sum(1, keepdim=True).clamp(min=torch.finfo(total.dtype).tiny)

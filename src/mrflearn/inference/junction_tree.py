"""Exact inference by elimination in a junction tree.

Linear arithmetic is several times faster than arithmetic on logarithms, but products of very
unequal entries leave the range of floating point.  So each table knows its depth, the log-ratio of
its largest to its smallest positive entry; depths add up under multiplication, and where they
exceed `RANGE` the work is done on logarithms.

To the root and back [Lauritzen and Spiegelhalter 1988]; on the way back a message is what its
clique knows divided by what it was told [Jensen, Lauritzen and Olesen 1990].  The tables of cliques
are never kept, only messages are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.execution.threads import one_thread
from mrflearn.graph.elimination import (
    BLOCK,
    Axes,
    EliminationPlan,
    EliminationStep,
    Replicas,
    TooWide,
    planned,
)
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import (
    Beliefs,
    Decoding,
    insist,
    insist_possible,
    with_gradient,
)
from mrflearn.kernels.table_algebra import (
    LOG_MAX_PRODUCT,
    LOG_SUM_PRODUCT,
    SUM_PRODUCT,
    Semiring,
    multiply,
    sum_out,
)

# Tables of non-negative numbers of any magnitude: in linear form where that is safe, else logs.


# A quotient of two such tables is still within the range of the type (e^708 and e^87).
RANGE = {torch.float64: 340.0, torch.float32: 40.0}


@dataclass(frozen=True, eq=False)
class ScaledTable:
    """exp(scale) times the values (their exponentials, where `logs`), for each of n copies.

    The largest value of each copy is 1 (0, where `logs`) unless all its entries are impossible.
    """

    axes: Axes
    values: Float[Tensor, "*sizes n"]
    logs: bool
    depth: float
    scale: Float[Tensor, " n"]

    @classmethod
    def from_logs(cls, axes: Axes, values: Float[Tensor, "*sizes n"]) -> ScaledTable:
        """The table of the exponentials."""
        scale = _largest(values)
        centred = values - torch.where(scale == -torch.inf, 0.0, scale)
        lowest = torch.where(centred == -torch.inf, 0.0, centred).amin()
        if -float(lowest) > RANGE[values.dtype]:
            return cls(axes, centred, True, -float(lowest), scale)
        return cls(axes, centred.exp(), False, -float(lowest), scale)

    @classmethod
    def from_linear(cls, axes: Axes, values: Float[Tensor, "*sizes n"]) -> ScaledTable:
        """The table of the values (taken over), none of them too small to be exact."""
        scale = _largest(values)
        values.div_(torch.where(scale == 0, 1.0, scale))
        lowest = values.amin()
        if bool(lowest == 0):
            lowest = torch.where(values == 0, 1.0, values).amin()
        depth = -float(lowest.log())
        if depth > RANGE[values.dtype]:
            return cls(axes, values.log(), True, depth, scale.log())
        return cls(axes, values, False, depth, scale.log())

    @classmethod
    def of(cls, semiring: Semiring, axes: Axes, values: Float[Tensor, "*sizes n"]) -> ScaledTable:
        """The table whose values were computed in the given arithmetic."""
        return (cls.from_linear if semiring is SUM_PRODUCT else cls.from_logs)(axes, values)

    def within(self, semiring: Semiring) -> Float[Tensor, "*sizes n"]:
        """The values as the given arithmetic takes them."""
        if semiring is SUM_PRODUCT:
            return self.values.exp() if self.logs else self.values
        return self.values if self.logs else self.values.log()


def safe_arithmetic(tables: Sequence[ScaledTable]) -> Semiring:
    """Linear arithmetic where the product of the tables cannot leave its range, else logs."""
    if any(table.logs for table in tables):
        return LOG_SUM_PRODUCT
    depth = sum(table.depth for table in tables)
    dtype = tables[0].values.dtype
    return SUM_PRODUCT if depth <= RANGE[dtype] else LOG_SUM_PRODUCT


def _largest(values: Float[Tensor, "*sizes n"]) -> Float[Tensor, " n"]:
    flat = values.reshape(-1, values.shape[-1])
    # A plain maximum over everything is much faster than one along an axis of stride 1.
    return flat.max().reshape(1) if flat.shape[1] == 1 else flat.amax(dim=0)


# Passing messages along the tree of tables that an elimination order leads to.


Messages = list[ScaledTable | None]


@dataclass(frozen=True, eq=False)
class CliqueTree:
    """A plan, and the packed factors of every step for n copies of the structure."""

    plan: EliminationPlan
    packs: tuple[tuple[ScaledTable, ...], ...]

    @classmethod
    def build(
        cls, plan: EliminationPlan, factors: Sequence[Tensor], like: Float[Tensor, " n"]
    ) -> CliqueTree:
        """From the log-scores of each factor, its axes ascending and the n copies last."""
        packs = []
        for step in plan.steps:
            size = dict(zip(step.axes, step.sizes, strict=True))
            tables = []
            for axes, members in step.packs:
                total = like.new_zeros(*(size[axis] for axis in axes), len(like))
                for factor in members:
                    present = plan.factor_axes[factor]
                    shape = [size[axis] if axis in present else 1 for axis in axes]
                    total += factors[factor].reshape(*shape, len(like))
                tables.append(ScaledTable.from_logs(axes, total))
            packs.append(tuple(tables))
        return cls(plan, tuple(packs))

    def collect(self) -> tuple[Messages, Float[Tensor, " n"]]:
        """The message of every step towards its parent, and log Z."""
        messages: Messages = []
        scales = [table.scale for tables in self.packs for table in tables]
        for k, step in enumerate(self.plan.steps):
            inputs = self._inputs(k, messages)
            arithmetic = safe_arithmetic(inputs)
            values = _sums(arithmetic, step, inputs, [step.axes[1:]])[0]
            message = ScaledTable.of(arithmetic, step.axes[1:], values)
            messages.append(message)
            scales.append(message.scale)
        return messages, torch.stack(scales).sum(dim=0)

    def collect_best(self) -> Messages:
        """The message of every step with maxima in place of sums."""
        messages: Messages = []
        for k, step in enumerate(self.plan.steps):
            values = _sums(LOG_MAX_PRODUCT, step, self._inputs(k, messages), [step.axes[1:]])[0]
            messages.append(ScaledTable.from_logs(step.axes[1:], values))
        return messages

    def distribute(self, messages: Messages) -> Iterator[tuple[int, list[Tensor]]]:
        """(step, the probabilities over the axes of each of its packs), from the last step on.

        Messages are used up: each is replaced by the one in the other direction, then dropped.
        """
        for k in reversed(range(len(self.plan.steps))):
            step = self.plan.steps[k]
            above, messages[k] = messages[k], None
            inputs = self._inputs(k, messages)
            tables = inputs if above is None else [*inputs, above]
            arithmetic = safe_arithmetic(tables)
            totals = _sums(arithmetic, step, tables, [table.axes for table in inputs])
            for child in reversed(step.children):
                table, total = inputs.pop(), totals.pop()
                quotient = _divide(arithmetic, total, table.within(arithmetic))
                messages[child] = ScaledTable.of(arithmetic, table.axes, quotient)
            yield k, [_probabilities(arithmetic, total) for total in totals]

    def trace(
        self, messages: Messages, count: int, choose: Callable[[Tensor], Tensor]
    ) -> Int[Tensor, "count m n"]:
        """States of all m variables, each chosen from its log-odds given those chosen before."""
        steps = self.plan.steps
        chosen: list[Tensor] = [torch.empty(0)] * len(steps)
        for k in reversed(range(len(steps))):
            odds = sum(_given(table, chosen, count) for table in self._inputs(k, messages))
            chosen[k] = choose(torch.as_tensor(odds))
        by_variable = sorted(range(len(steps)), key=lambda k: self.plan.elimination.order[k])
        return torch.stack([chosen[k] for k in by_variable], dim=1)

    def _inputs(self, k: int, messages: Messages) -> list[ScaledTable]:
        heard = [messages[child] for child in self.plan.steps[k].children]
        return [*self.packs[k], *(message for message in heard if message is not None)]


def _sums(
    arithmetic: Semiring,
    step: EliminationStep,
    tables: Sequence[ScaledTable],
    wanted: Sequence[Axes],
) -> list[Tensor]:
    """The product of the tables, summed onto each of the wanted axes.

    A clique's table is never formed whole if it is large, but block by block: one block for every
    state of its leading variables, small enough to stay in the processor's cache.
    """
    operands = [(table.within(arithmetic), table.axes) for table in tables]
    copies = operands[0][0].shape[-1]
    size = dict(zip(step.axes, step.sizes, strict=True))
    fixed = _leading(step, copies)
    axes, sizes = step.axes[fixed:], step.sizes[fixed:]
    sums = [
        operands[0][0].new_full((*(size[axis] for axis in keep), copies), arithmetic.zero)
        for keep in wanted
    ]
    for states in product(*(range(count) for count in step.sizes[:fixed])):
        given = dict(zip(step.axes[:fixed], states, strict=True))
        block = multiply(arithmetic, [_at(*operand, given) for operand in operands], axes, sizes)
        for total, keep in zip(sums, wanted, strict=True):
            slot, left = _at(total, keep, given)
            arithmetic.plus(slot, sum_out(arithmetic, block, axes, sizes, left), out=slot)
    return sums


def _leading(step: EliminationStep, copies: int) -> int:
    """How many leading variables are fixed at a time, so that a block is of modest size."""
    entries = copies * prod(step.sizes)
    for fixed, size in enumerate(step.sizes):
        if entries <= BLOCK:
            return fixed
        entries //= size
    return len(step.sizes)


def _at(table: Tensor, axes: Axes, given: Mapping[int, int]) -> tuple[Tensor, Axes]:
    """The part of a table where some leading variables are in given states, and its axes."""
    place = tuple(given[axis] for axis in axes if axis in given)
    return table[place], axes[len(place) :]


def _divide(arithmetic: Semiring, total: Tensor, part: Tensor) -> Tensor:
    """The total without the part that is in it, in the memory of that part.

    Where the total is zero so is the outcome: if the part is zero there, nothing is lost.
    """
    if arithmetic is SUM_PRODUCT:
        return torch.div(total, part, out=part).masked_fill_(total == 0, 0.0)
    return torch.sub(total, part, out=part).masked_fill_(total == -torch.inf, -torch.inf)


def _probabilities(arithmetic: Semiring, total: Tensor) -> Tensor:
    """Normalised over everything but the copies; all zero for a copy without possibilities."""
    cells = total.reshape(-1, total.shape[-1])
    if arithmetic is not SUM_PRODUCT:
        top = cells.amax(dim=0)
        cells = (cells - torch.where(top == -torch.inf, 0.0, top)).exp()
    mass = cells.sum(dim=0)
    return (cells / torch.where(mass == 0, 1.0, mass)).reshape(total.shape)


def _given(table: ScaledTable, chosen: Sequence[Tensor], count: int) -> Float[Tensor, "s count n"]:
    """The logs of a table along its first axis, all other variables in their chosen states."""
    values = table.values
    states, copies = values.shape[0], values.shape[-1]
    cell = torch.zeros(count, copies, dtype=torch.int64, device=values.device)
    for axis, size in zip(table.axes[1:], values.shape[1:-1], strict=True):
        cell = cell * size + chosen[axis]
    copy = torch.arange(copies, device=values.device)
    picked = values.reshape(states, -1, copies)[:, cell, copy].double()
    return picked if table.logs else picked.log()


# Exact inference where the graph has a small width: log Z, marginals, best states, samples.


GIB = 2**30


@final
@dataclass(frozen=True, slots=True)
class JunctionTree:
    """Exact answers by eliminating variables one by one, within a limit on memory (in bytes).

    Components of one structure are worked on together, as many at a time as the limit allows.
    """

    memory_limit: int = 4 * GIB
    warm_starts: ClassVar[bool] = False

    def refuses(self, graph: FactorGraph) -> str | None:
        """Why this graph cannot be handled: the width found and the memory it would take."""
        if graph.is_lifted():
            return (
                "the junction tree works on ground graphs, but some variables here stand for "
                "several copies. Use a lifted inference, or build the ground graph."
            )
        for plan, replicas in planned(graph):
            reason = self._too_much(plan)
            if reason:
                return (
                    f"component {int(replicas.components[0])} is too wide for exact inference: "
                    f"{reason}; the limit is {_size(self.memory_limit)} (memory_limit). "
                    "Raise it, or try BeliefPropagation() for an approximation."
                )
        return None

    def _too_much(self, plan: EliminationPlan | TooWide) -> str | None:
        if isinstance(plan, TooWide):
            size = _size(8 * 2 ** min(plan.log2_entries, 64.0))
            return (
                f"every elimination order tried meets a table over {plan.variables} variables "
                f"or more ({size})"
            )
        needed = plan.entries * 8
        if needed <= self.memory_limit:
            return None
        return f"width {plan.elimination.width} was found, which takes {_size(needed)}"

    @one_thread()
    @torch.no_grad()
    def __call__(
        self,
        potentials: Potentials,
        warm: Tensor | None = None,  # noqa: ARG002 - nothing to start from
    ) -> Beliefs:
        """Exact log Z, variable marginals and factor beliefs."""
        insist(self, potentials.graph)
        graph = potentials.graph
        scores = [potentials.factor_scores(i) for i in range(len(graph.groups))]
        value = torch.zeros(graph.components, dtype=potentials.dtype, device=graph.device)
        variables = value.new_zeros(graph.variables, graph.most_states)
        factors = tuple(torch.zeros_like(score) for score in scores)
        for plan, replicas in self._portions(graph, value.element_size()):
            tree = _tree(plan, replicas, scores, value)
            messages, log_partition = tree.collect()
            value[replicas.components] = log_partition
            # Where one part of a component is impossible, so are the parts not joined to it.
            possible = (log_partition > -torch.inf).to(value.dtype)
            for k, packs in tree.distribute(messages):
                marginal = packs[0].reshape(len(packs[0]), -1, len(possible)).sum(dim=1) * possible
                members = replicas.variables[:, plan.elimination.order[k]]
                variables[members, : len(marginal)] = marginal.T
                for (axes, inside), belief in zip(plan.steps[k].packs, packs, strict=True):
                    for factor in inside:
                        _deliver(plan, replicas, factor, (belief * possible, axes), factors)
        with torch.enable_grad():
            return with_gradient(potentials, Beliefs(value, variables, factors, kind="exact"))

    @one_thread()
    @torch.no_grad()
    def best(self, potentials: Potentials) -> Decoding:
        """The assignment of highest score."""
        insist(self, potentials.graph)
        assignment = self._trace(potentials, 1, None)[0]
        return Decoding(assignment, potentials.score(assignment), kind="exact")

    @one_thread()
    @torch.no_grad()
    def sample(
        self, potentials: Potentials, count: int, generator: torch.Generator
    ) -> Int[Tensor, "n v"]:
        """Independent exact samples of every component."""
        insist(self, potentials.graph)
        return self._trace(potentials, count, generator)

    def _trace(
        self, potentials: Potentials, count: int, generator: torch.Generator | None
    ) -> Int[Tensor, "n v"]:
        """Sampled assignments, or the best one where there is no generator."""
        graph = potentials.graph
        scores = [potentials.factor_scores(i) for i in range(len(graph.groups))]
        like = torch.zeros(0, dtype=potentials.dtype, device=graph.device)
        states = torch.zeros(count, graph.variables, dtype=torch.int64, device=graph.device)
        for plan, replicas in self._portions(graph, like.element_size()):
            tree = _tree(plan, replicas, scores, like)
            if generator is None:
                messages = tree.collect_best()
            else:
                messages, log_partition = tree.collect()
                insist_possible(log_partition, replicas.components)
            chosen = tree.trace(messages, count, lambda odds: _choose(odds, generator))
            states[:, replicas.variables.T] = chosen
        return states

    def _portions(
        self, graph: FactorGraph, itemsize: int
    ) -> Iterator[tuple[EliminationPlan, Replicas]]:
        """Components of one structure, as many together as memory allows, and their plan."""
        for plan, replicas in planned(graph):
            assert isinstance(plan, EliminationPlan)  # noqa: S101 - refused before otherwise
            portion = max(1, self.memory_limit // max(1, plan.entries * itemsize))
            for start in range(0, len(replicas.components), portion):
                yield plan, replicas.part(start, start + portion)


def _size(count: float) -> str:
    """Bytes as people say them."""
    if count >= 2**60:
        return "more than any machine has"
    units = {"TiB": 2**40, "GiB": GIB, "MiB": 2**20}
    unit = next((name for name, size in units.items() if count >= size), "MiB")
    return f"{count / units[unit]:,.1f} {unit}"


def _tree(
    plan: EliminationPlan,
    replicas: Replicas,
    scores: list[Float[Tensor, " f *shape"]],
    like: Tensor,
) -> CliqueTree:
    """The clique tree of n replicas, their factors' axes ascending and the replicas last."""
    factors: list[Tensor] = []
    for index, column in replicas.places:
        own = scores[index][replicas.factors[index][:, column]]
        order = plan.orders[len(factors)]
        factors.append(own.permute(*(1 + axis for axis in order), 0))
    return CliqueTree.build(plan, factors, like.new_empty(len(replicas.components)))


def _deliver(
    plan: EliminationPlan,
    replicas: Replicas,
    factor: int,
    belief: tuple[Float[Tensor, "*sizes n"], tuple[int, ...]],
    beliefs: tuple[Float[Tensor, " f *shape"], ...],
) -> None:
    """Writes the belief of one factor, from that of its pack, where the graph has it."""
    table, axes = belief
    index, column = replicas.places[factor]
    own = sum_out(SUM_PRODUCT, table, axes, table.shape[:-1], plan.factor_axes[factor])
    order = plan.orders[factor]
    ascending = [beliefs[index].shape[1 + axis] for axis in order]
    back = sorted(range(len(order)), key=lambda i: order[i])
    own = own.reshape(*ascending, own.shape[-1]).permute(-1, *back)
    beliefs[index][replicas.factors[index][:, column]] = own


def _choose(odds: Float[Tensor, "s count n"], generator: torch.Generator | None) -> Tensor:
    """The best state or, with a generator, one at random by its log-odds."""
    if generator is None:
        return odds.argmax(dim=0)
    rising = (odds - odds.amax(dim=0)).exp().cumsum(dim=0)
    point = torch.rand(
        rising.shape[1:], dtype=rising.dtype, generator=generator, device=generator.device
    )
    return (rising <= point.to(rising.device) * rising[-1]).sum(dim=0)

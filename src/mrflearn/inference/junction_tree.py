"""Exact inference by elimination in a junction tree, planned once and evaluated in batches.

To the root and back [Lauritzen and Spiegelhalter 1988]; on the way back a message is what its
clique knows divided by the message it received [Jensen, Lauritzen and Olesen 1990].  The tables
of cliques are never kept, only messages are.

Small trees are evaluated on flat arrays (`flat_tree`).  Cliques of others are worked on in batches
(`clique_batches`).  One that is too large for the processor's
cache is a batch of its own, whose table is formed block by block.

Letters in shapes: n: cliques (or packs) of one batch, always the first axis; c: components.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.execution.resources import one_thread, size_in_words
from mrflearn.graph.elimination import BLOCK, Axes, EliminationPlan, find_plans
from mrflearn.graph.elimination_orders import TooWide
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import (
    BeliefMethod,
    Beliefs,
    Decoding,
    Sampler,
    insist,
    insist_possible,
    zero_beliefs,
)
from mrflearn.inference.clique_batches import CliqueBatch, Messages, Schedule, make_schedules
from mrflearn.inference.flat_tree import make_flat_tree
from mrflearn.kernels.table_algebra import (
    LOG_MAX_PRODUCT,
    LOG_SUM_PRODUCT,
    Arithmetic,
    ScaledTable,
    along_first,
    divide,
    multiply,
    probabilities,
    safe_arithmetic,
    sum_out,
)

Inputs = list[tuple[ScaledTable, Axes]]
FEW_AXES = 8  # more than so many are worked on a few at a time, which takes longer to arrange

# The evaluation: messages to the roots and back, in any arithmetic.


@dataclass(frozen=True, eq=False)
class CliqueTree:
    """A schedule and the scores on it."""

    schedule: Schedule
    packs: tuple[ScaledTable, ...]

    def collect(self, arithmetic: Arithmetic | None = None) -> Messages:
        """The messages of every batch to its parents; where none is given, in safe arithmetic."""
        messages: Messages = []
        for batch in self.schedule.batches:
            inputs = self._inputs(batch, messages)
            own = arithmetic or safe_arithmetic([table for table, _ in inputs])
            values = _sums(own, batch.sizes, inputs, [tuple(range(1, len(batch.sizes)))])[0]
            messages.append(ScaledTable.of(own, values))
        return messages

    def log_partition(self, messages: Messages, components: int) -> Float[Tensor, " c"]:
        """log Z from the messages of `collect`."""
        scales = [table.scale for table in (*self.packs, *messages) if table is not None]
        scale = torch.cat(scales).double()
        return scale.new_zeros(components).index_add_(0, self.schedule.owner, scale)

    def distribute(self, messages: Messages) -> None:
        """Replaces every pack's values by the probabilities over its axes.

        Messages are used up: each is dropped when it has been read in both directions.
        """
        down: Messages = [None] * self.schedule.downs
        for b in reversed(range(len(self.schedule.batches))):
            batch, messages[b] = self.schedule.batches[b], None
            inputs = self._inputs(batch, messages)
            tables = inputs
            if batch.above is not None:
                rest = tuple(range(1, len(batch.sizes)))
                tables = [*inputs, (batch.above.gather(down), rest)]
            for stack in batch.release:
                down[stack] = None
            arithmetic = safe_arithmetic([table for table, _ in tables])
            totals = _sums(arithmetic, batch.sizes, tables, [axes for _, axes in inputs])
            for (form, start, _), total in zip(batch.packs, totals, strict=False):
                place = self.packs[form].values.narrow(0, start, len(batch))
                place.copy_(probabilities(arithmetic, total))
            first = len(batch.packs)
            for child, ((table, _), total) in enumerate(
                zip(inputs[first:], totals[first:], strict=True)
            ):
                quotient = divide(arithmetic, total, table.within(arithmetic))
                down[batch.down + child] = ScaledTable.of(arithmetic, quotient)

    def deliver(self, log_partition: Float[Tensor, " c"], found: Beliefs) -> None:
        """Writes the probabilities of all packs into the beliefs of variables and factors."""
        # Where one part of a component is impossible, so are the parts not joined to it.
        possible = log_partition > -torch.inf
        for form, pack in zip(self.schedule.packs, self.packs, strict=True):
            belief = pack.values
            if not bool(possible.all()):
                belief = belief * along_first(possible[form.component].to(belief.dtype), belief)
            form.deliver(belief, found.variables, found.factors)

    def trace(
        self, messages: Messages, states: Int[Tensor, "v k"], choose: Callable[[Tensor], Tensor]
    ) -> None:
        """Fills in the states of all variables, each chosen by its log-odds given those before."""
        for batch in reversed(self.schedule.batches):
            own, *above = batch.variables
            chosen = [states.index_select(0, variables) for variables in above]
            odds = sum(
                _given(table, [chosen[axis - 1] for axis in axes[1:]], states.shape[1])
                for table, axes in self._inputs(batch, messages)
            )
            states.index_copy_(0, own, choose(torch.as_tensor(odds)))

    def _inputs(self, batch: CliqueBatch, messages: Messages) -> Inputs:
        inputs = []
        for form, start, axes in batch.packs:
            pack = self.packs[form]
            values = pack.values.narrow(0, start, len(batch))
            inputs.append((ScaledTable(values, pack.logs, pack.depth, pack.scale), axes))
        return [*inputs, *((where.gather(messages), axes) for axes, where in batch.children)]


def _sums(
    arithmetic: Arithmetic, sizes: tuple[int, ...], inputs: Inputs, wanted: Sequence[Axes]
) -> list[Tensor]:
    """The products of the inputs, summed onto each of the wanted axes."""
    tables = [(table.within(arithmetic), axes) for table, axes in inputs]
    if prod(sizes) > BLOCK or len(sizes) > FEW_AXES:
        return _sums_by_blocks(arithmetic, sizes, tables, wanted)
    views = [
        values[(slice(None), *(slice(None) if i in axes else None for i in range(len(sizes))))]
        for values, axes in sorted(tables, key=lambda pair: pair[0].numel())
    ]
    block = reduce(arithmetic.times, views)
    sums = []
    for keep in wanted:
        others = tuple(1 + i for i in range(len(sizes)) if i not in keep)
        sums.append(arithmetic.total(block, others) if others else block)
    return sums


def _sums_by_blocks(
    arithmetic: Arithmetic,
    sizes: tuple[int, ...],
    tables: Sequence[tuple[Tensor, Axes]],
    wanted: Sequence[Axes],
) -> list[Tensor]:
    """The same for large cliques, or many axes: a table of over `BLOCK` entries is never whole.

    One block for every state of its leading variables, small enough for the processor's cache.
    """
    fixed, entries = 0, prod(sizes)
    while entries > BLOCK:
        entries //= sizes[fixed]
        fixed += 1
    axes = tuple(range(fixed, len(sizes)))
    operands = [(values.movedim(0, -1), present) for values, present in tables]
    copies = operands[0][0].shape[-1]
    sums = [
        operands[0][0].new_full((*(sizes[axis] for axis in keep), copies), arithmetic.zero)
        for keep in wanted
    ]
    for states in product(*(range(size) for size in sizes[:fixed])):
        inner = [_at(*operand, states) for operand in operands]
        block = multiply(arithmetic, inner, axes, sizes[fixed:])
        for total, keep in zip(sums, wanted, strict=True):
            slot, left = _at(total, keep, states)
            arithmetic.plus(slot, sum_out(arithmetic, block, axes, sizes[fixed:], left), out=slot)
    return [total.movedim(-1, 0) for total in sums]


def _at(table: Tensor, axes: Axes, states: Sequence[int]) -> tuple[Tensor, Axes]:
    """The part of a table where the leading variables are in given states, and its axes."""
    place = tuple(states[axis] for axis in axes if axis < len(states))
    return table[place], axes[len(place) :]


def _given(
    table: ScaledTable, others: Sequence[Int[Tensor, "n k"]], count: int
) -> Float[Tensor, "s n k"]:
    """The logs of tables along their first axis, the other variables in their k chosen states."""
    (n, states, *sizes), values = table.values.shape, table.values.reshape(-1)
    stride = cells = prod(sizes)
    place = torch.arange(n, device=values.device).unsqueeze(1) * (states * cells)
    for chosen, size in zip(others, sizes, strict=True):
        stride //= size
        place = place + stride * chosen
    first = torch.arange(states, device=values.device) * cells
    place = first[:, None, None] + place.expand(n, count)
    if table.logs:
        return values[place].double()
    few = len(values) < place.numel()
    return values.double().log()[place] if few else values[place].double().log()


# Exact inference where the graph has a small width: log Z, marginals, best states, samples.


GIB = 2**30


@final
@dataclass(frozen=True, slots=True)
class JunctionTree(BeliefMethod, Sampler):
    """Exact answers by eliminating variables one by one, within a limit on memory (in bytes).

    Components are worked on together, as many at a time as the limit allows.  Graphs that are wider
    than `max_width`, where that is given, are refused.
    """

    memory_limit: int = 4 * GIB
    max_width: int | None = None

    def refuses(self, graph: FactorGraph) -> str | None:
        """Why this graph cannot be handled: the width found and the memory it would take."""
        for plan, replicas in graph.planned(find_plans):
            reason = self._too_much(plan)
            if reason:
                return (
                    f"component {int(replicas.components[0])} is too wide for exact inference: "
                    f"{reason}; memory_limit is {size_in_words(self.memory_limit)}. Raise it, or "
                    "try BeliefPropagation() for an approximation."
                )
        return None

    def too_wide(self, graph: FactorGraph) -> list[int]:
        """The components that cannot be handled."""
        plans = graph.planned(find_plans)
        wide = (own.components.tolist() for plan, own in plans if self._too_much(plan))
        return sorted(component for own in wide for component in own)

    def _too_much(self, plan: EliminationPlan | TooWide) -> str | None:
        if isinstance(plan, TooWide):
            return (
                f"every elimination order tried meets a table over {plan.variables} variables "
                f"(2^{plan.log2_entries:.0f} entries) or more"
            )
        needed, width = plan.entries * 8, plan.elimination.width
        if self.max_width is not None and width > self.max_width:
            return f"width {width} was found, and max_width is {self.max_width}"
        if needed <= self.memory_limit:
            return None
        return f"width {width} was found, which takes {size_in_words(needed)}"

    @one_thread()
    def _beliefs(self, potentials: Potentials, warm: Tensor | None) -> Beliefs:  # noqa: ARG002
        graph = potentials.graph
        flat = graph.planned(make_flat_tree)
        if flat is not None:
            with suppress(FloatingPointError):  # out of the range of linear arithmetic
                return flat.beliefs(potentials)
        found = zero_beliefs(potentials)
        for tree in self._trees(potentials):
            messages = tree.collect()
            log_partition = tree.log_partition(messages, graph.components)
            found.log_partition.add_(log_partition)
            tree.distribute(messages)
            tree.deliver(log_partition, found)
        return found

    def best(self, potentials: Potentials) -> Decoding:
        """The assignment of highest score."""
        assignment = self._trace(potentials, 1, None)[0]
        return Decoding(assignment, potentials.score(assignment).detach(), kind="exact")

    def _sample(self, potentials: Potentials, count: int, generator: torch.Generator) -> Tensor:
        return self._trace(potentials, count, generator)

    @one_thread()
    @torch.no_grad()
    def _trace(
        self, potentials: Potentials, count: int, generator: torch.Generator | None
    ) -> Int[Tensor, "n v"]:
        """Sampled assignments, or the best one where there is no generator."""
        insist(self, potentials.graph)
        graph = potentials.graph
        states = torch.zeros(graph.variables, count, dtype=torch.int64, device=graph.device)
        for tree in self._trees(potentials):
            messages = tree.collect(LOG_MAX_PRODUCT if generator is None else None)
            if generator is not None:
                insist_possible(tree.log_partition(messages, graph.components))
            tree.trace(messages, states, lambda odds: _choose(odds, generator))
        return states.T.contiguous()

    def _trees(self, potentials: Potentials) -> Iterator[CliqueTree]:
        for schedule in potentials.graph.planned(make_schedules, self.memory_limit):
            scores = (own.scores(potentials) for own in schedule.packs)
            packs = tuple(ScaledTable.of(LOG_SUM_PRODUCT, own) for own in scores)
            yield CliqueTree(schedule, packs)


def _choose(odds: Float[Tensor, "s n k"], generator: torch.Generator | None) -> Int[Tensor, "n k"]:
    """The best state or, with a generator, one at random by its log-odds."""
    if generator is None:
        return odds.argmax(dim=0)
    rising = (odds - odds.amax(dim=0)).exp().cumsum(dim=0)
    point = torch.rand(
        rising.shape[1:], dtype=rising.dtype, generator=generator, device=generator.device
    )
    return (rising <= point.to(rising.device) * rising[-1]).sum(dim=0)

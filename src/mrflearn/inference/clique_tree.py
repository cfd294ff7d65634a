"""Passing messages along the tree of tables that an elimination order leads to.

To the root and back [Lauritzen and Spiegelhalter 1988]; on the way back a message is what its
clique knows divided by what it was told [Jensen, Lauritzen and Olesen 1990].  The tables of cliques
are never kept, only messages are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.graph.clique_plan import BLOCK, Axes, Plan, Step
from mrflearn.inference.scaled_table import ScaledTable, safe_arithmetic
from mrflearn.kernels.table_algebra import (
    LOG_MAX_PRODUCT,
    SUM_PRODUCT,
    Semiring,
    multiply,
    sum_out,
)

Messages = list[ScaledTable | None]


@dataclass(frozen=True, eq=False)
class CliqueTree:
    """A plan, and the packed factors of every step for n copies of the structure."""

    plan: Plan
    packs: tuple[tuple[ScaledTable, ...], ...]

    @classmethod
    def build(cls, plan: Plan, factors: Sequence[Tensor], like: Float[Tensor, "n"]) -> CliqueTree:
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

    def collect(self) -> tuple[Messages, Float[Tensor, "n"]]:
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
    arithmetic: Semiring, step: Step, tables: Sequence[ScaledTable], wanted: Sequence[Axes]
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


def _leading(step: Step, copies: int) -> int:
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

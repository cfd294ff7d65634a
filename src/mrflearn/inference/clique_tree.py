"""Passing messages along the tree of tables that an elimination order leads to.

The tables of cliques are never kept, only messages are; a table too large is worked on slice by
slice of its first axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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
            values = _message(arithmetic, step, inputs)
            message = ScaledTable.of(arithmetic, step.axes[1:], values)
            messages.append(message)
            scales.append(message.scale)
        return messages, torch.stack(scales).sum(dim=0)

    def collect_best(self) -> Messages:
        """The message of every step with maxima in place of sums."""
        messages: Messages = []
        for k, step in enumerate(self.plan.steps):
            values = _message(LOG_MAX_PRODUCT, step, self._inputs(k, messages))
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
            totals = _totals(arithmetic, step, tables, [table.axes for table in inputs])
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


def _blocks(step: Step, copies: int) -> Iterator[slice]:
    """Slices of the first axis, as long as a block of the clique's table may be."""
    row = max(1, copies)
    for size in step.sizes[1:]:
        row *= size
    rows = max(1, BLOCK // row)
    for start in range(0, step.sizes[0], rows):
        yield slice(start, min(start + rows, step.sizes[0]))


def _block(
    arithmetic: Semiring, step: Step, tables: Sequence[tuple[Tensor, Axes]], rows: slice
) -> tuple[Tensor, tuple[int, ...]]:
    """The product of the tables for some states of the first variable, and its sizes."""
    k = step.axes[0]
    sizes = (rows.stop - rows.start, *step.sizes[1:])
    parts = [(values[rows] if k in axes else values, axes) for values, axes in tables]
    return multiply(arithmetic, parts, step.axes, sizes), sizes


def _message(arithmetic: Semiring, step: Step, inputs: Sequence[ScaledTable]) -> Tensor:
    """The product of the inputs, the first variable summed out."""
    tables = [(table.within(arithmetic), table.axes) for table in inputs]
    message: Tensor | None = None
    for rows in _blocks(step, inputs[0].values.shape[-1]):
        product, sizes = _block(arithmetic, step, tables, rows)
        part = sum_out(arithmetic, product, step.axes, sizes, step.axes[1:])
        message = part if message is None else arithmetic.plus(message, part)
    assert message is not None  # noqa: S101 - every variable has a state
    return message


def _totals(
    arithmetic: Semiring, step: Step, tables: Sequence[ScaledTable], wanted: Sequence[Axes]
) -> list[Tensor]:
    """The product of the tables, summed onto each of the wanted axes (the first among them)."""
    operands = [(table.within(arithmetic), table.axes) for table in tables]
    totals = [torch.empty_like(values) for values, _ in operands[: len(wanted)]]
    for rows in _blocks(step, totals[0].shape[-1]):
        product, sizes = _block(arithmetic, step, operands, rows)
        for total, axes in zip(totals, wanted, strict=True):
            total[rows] = sum_out(arithmetic, product, step.axes, sizes, axes)
    return totals


def _divide(arithmetic: Semiring, total: Tensor, part: Tensor) -> Tensor:
    """The total without the part that is in it; what the part rules out stays ruled out."""
    if arithmetic is SUM_PRODUCT:
        impossible = part == 0
        return total.div_(part).masked_fill_(impossible, 0.0)
    return total.sub_(part).masked_fill_(part == -torch.inf, -torch.inf)


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

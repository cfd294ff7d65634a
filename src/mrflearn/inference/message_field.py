"""The numbers that message passing reads, and one sweep over them in log space.

One form serves belief propagation and its tree-reweighted kin: with an appearance probability rho
for every factor, m is raised to the power rho where a variable collects it, and tables are divided
by rho [Wainwright, Jaakkola and Willsky 2005, eq. 39].  Plain belief propagation has rho = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.inference.wiring import Blocks, Wiring
from mrflearn.kernels.messages import Reduction, collect, leave_one_out, normalise, send


@dataclass(frozen=True, eq=False)
class Messages:
    """Log-messages from factors to variables, in the order of the graph's `Wiring`."""

    values: Float[Tensor, "m"]


@dataclass(frozen=True, eq=False)
class Field:
    """The numbers that message passing reads, laid out for it."""

    wiring: Wiring
    bias: Float[Tensor, "n"]
    tables: list[Float[Tensor, "*shape f"]]  # divided by rho
    appearance: Float[Tensor, "m"] | None = None  # rho of the factor of every entry; None: all 1

    def start(self, messages: Messages | None) -> Float[Tensor, "m"]:
        """Uniform messages, or a copy of the given ones.

        What was ruled out in an earlier field may be possible in this one, so -inf begins as 0; a
        state that is still ruled out is found out in the first sweep.
        """
        size = len(self.wiring.place)
        if messages is None:
            return self.bias.new_zeros(size)
        values = messages.values
        if values.shape != (size,):
            raise InferenceError(
                f"the starting messages have {values.numel()} entries, this graph's {size}. "
                "Messages can be used again on the graph they came from only."
            )
        return values.to(self.bias).masked_fill(values == -torch.inf, 0.0)

    def totals(self, messages: Float[Tensor, "m"]) -> Float[Tensor, "n"]:
        """The unnormalised log-beliefs of all states of all variables."""
        if self.appearance is not None:
            messages = messages * self.appearance
        return collect(self.bias, self.wiring.place, messages)

    def inboxes(self, messages: Float[Tensor, "m"]) -> list[list[Float[Tensor, "s f"]]]:
        """What variables tell factors, for every sender and axis."""
        total = self.totals(messages)
        return self.wiring.blocks.split(leave_one_out(total, self.wiring.place, messages))

    @cached_property
    def floor(self) -> float | None:
        """The lowest finite entry of a message; None where tables rule nothing out.

        A message on a tree compares sums over assignments of its factors, and two such sums differ
        by no more than the ranges of all finite scores and the logarithm of the number of
        assignments.  Without -inf a message keeps within the range of its own table.  With it, a
        message that goes round a loop may tend to -inf, faster with every sweep, which no tree
        could tell from the floor.
        """
        scores = [self.bias, *self.tables]
        if not any(bool((own == -torch.inf).any()) for own in scores):
            return None
        reach = torch.log(self.wiring.graph.states.to(self.bias)).sum()
        flat = [
            self.wiring.padded(self.bias, torch.nan).T,
            *(t.flatten(0, -2) for t in self.tables),
        ]
        for own in flat:
            finite = own.isfinite()
            top = own.masked_fill(~finite, -torch.inf).amax(0)
            bottom = own.masked_fill(~finite, torch.inf).amin(0)
            reach = reach + torch.where(finite.any(0), top - bottom, 0.0).sum()
        return -float(reach)

    def rounding(self) -> float:
        """A residual below which messages differ by rounding only."""
        largest = [
            t.nan_to_num(neginf=0.0).abs().max() for t in [*self.tables, self.bias] if len(t)
        ]
        scale = max(map(float, largest), default=1.0)
        return 16 * torch.finfo(self.bias.dtype).eps * max(scale, 1.0)


class Sweep(Protocol):
    """All messages computed anew, in whatever form suits the arithmetic."""

    @property
    def blocks(self) -> Blocks:
        """How entries, in this form, lie."""

    def enter(self, messages: Float[Tensor, "m"]) -> Float[Tensor, "q"]:
        """Log-messages in the form that `__call__` takes."""

    def __call__(self, messages: Float[Tensor, "q"]) -> Float[Tensor, "q"]:
        """The new messages."""

    def leave(self, messages: Float[Tensor, "q"]) -> Float[Tensor, "m"]:
        """Log-messages whose largest entries are 0."""


@dataclass(frozen=True, eq=False)
class LogSweep:
    """For every field: sums of exponentials, or maxima, of log-scores."""

    field: Field
    reduce: Reduction

    @property
    def blocks(self) -> Blocks:
        return self.field.wiring.blocks

    def enter(self, messages: Float[Tensor, "m"]) -> Float[Tensor, "m"]:
        return messages

    def __call__(self, messages: Float[Tensor, "m"]) -> Float[Tensor, "m"]:
        sent: list[Tensor] = []
        for table, inboxes in zip(self.field.tables, self.field.inboxes(messages), strict=True):
            fresh = (send(table, inboxes, axis, self.reduce) for axis in range(len(inboxes)))
            sent.extend(normalise(message).reshape(-1) for message in fresh)
        messages, floor = torch.cat(sent), self.field.floor
        if floor is None:
            return messages
        return messages.clamp(min=floor).masked_fill_(messages == -torch.inf, -torch.inf)

    def leave(self, messages: Float[Tensor, "m"]) -> Float[Tensor, "m"]:
        return messages

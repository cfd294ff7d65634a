"""Passing messages until they rest: sweeps, damping and schedules.

One form serves belief propagation and its tree-reweighted kin: with an appearance probability rho
for every factor, m is raised to the power rho where a variable collects it, and tables are divided
by rho [Wainwright, Jaakkola and Willsky 2005, eq. 39].  Plain belief propagation has rho = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.inference.wiring import Wiring
from mrflearn.kernels.messages import (
    Reduction,
    change,
    collect,
    leave_one_out,
    mix,
    normalise,
    send,
)

Schedule = Literal["flooding", "residual"]

# A residual round applies the updates that are at least this share of the largest one.  Of the
# shares tried (0.01 to 0.9) it converges most often on hard grids, at little more cost than 0.1.
RESIDUAL_SHARE = 0.3


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
        return self.wiring.split(leave_one_out(total, self.wiring.place, messages))

    def update(self, messages: Float[Tensor, "m"], reduce: Reduction) -> Float[Tensor, "m"]:
        """Every message computed anew from the old ones."""
        sent = [messages.new_empty(0)]
        for table, inboxes in zip(self.tables, self.inboxes(messages), strict=True):
            fresh = (send(table, inboxes, axis, reduce) for axis in range(len(inboxes)))
            sent.extend(normalise(message).reshape(-1) for message in fresh)
        return torch.cat(sent)

    def rounding(self) -> float:
        """A residual below which messages differ by rounding only."""
        finite = [t[t.isfinite()].abs() for t in [*self.tables, self.bias]]
        scale = max((float(t.max()) for t in finite if t.numel()), default=1.0)
        return 16 * torch.finfo(self.bias.dtype).eps * max(scale, 1.0)


@dataclass(frozen=True, eq=False)
class Rest:
    """Messages when passing stopped, and how it ended."""

    messages: Float[Tensor, "m"]
    sweeps: int
    residual: float
    converged: bool


@dataclass(frozen=True)
class Passing:
    """How to pass messages: for how long, how carefully, and which of them in each round."""

    max_sweeps: int
    tolerance: float
    damping: float
    schedule: Schedule

    def __post_init__(self) -> None:
        if self.max_sweeps < 1 or not 0.0 <= self.damping < 1.0 or self.tolerance < 0.0:
            raise InferenceError(
                f"max_sweeps={self.max_sweeps}, damping={self.damping}, tolerance={self.tolerance}:"
                " sweeps must be at least 1, damping from 0 to below 1, the tolerance not negative."
            )
        if self.schedule not in ("flooding", "residual"):
            raise InferenceError(
                f"schedule '{self.schedule}' is neither 'flooding' nor 'residual'."
            )

    def __call__(self, field: Field, messages: Float[Tensor, "m"], reduce: Reduction) -> Rest:
        """The messages when the largest update is within the tolerance, or sweeps have run out.

        The residual is the largest change of a log-message in the last round, before damping.  A
        tolerance of 0 asks for every sweep.
        """
        near = max(self.tolerance, field.rounding())
        residual, sweeps = (torch.inf if len(messages) else 0.0), 0
        while len(messages) and sweeps < self.max_sweeps:
            new = field.update(messages, reduce)
            moved = change(new, messages)
            residual = float(moved.max())
            new = mix(new, messages, self.damping)
            if self.schedule == "residual":
                new = torch.where(_urgent(field.wiring, moved, residual), new, messages)
            messages, sweeps = new, sweeps + 1
            if self.tolerance and residual <= near:
                break
        return Rest(messages, sweeps, residual, residual <= near)


def _urgent(wiring: Wiring, moved: Float[Tensor, "m"], largest: float) -> Tensor:
    """Which entries belong to messages that moved nearly as far as the one that moved most."""
    urgent = []
    for blocks in wiring.split(moved):
        for block in blocks:
            message = block.amax(0, keepdim=True) >= RESIDUAL_SHARE * largest
            urgent.append(message.expand_as(block).reshape(-1))
    return torch.cat(urgent)

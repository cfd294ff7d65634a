"""Passing messages until they rest: how long, how carefully, and which of them in each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.execution.threads import one_thread
from mrflearn.inference.message_field import Field, LogSweep, Messages, Sweep
from mrflearn.inference.soft_sweep import SoftSweep
from mrflearn.inference.wiring import Blocks
from mrflearn.kernels.messages import Reduction, change, mix

Schedule = Literal["flooding", "residual"]

# A residual round applies the updates that are at least this share of the largest one.  Of the
# shares tried (0.01 to 0.9) it converges most often on hard grids, at little more cost than 0.1.
RESIDUAL_SHARE = 0.3

# On a forest an answer is called exact when messages moved by at most this in the last sweep.
EXACT_RESIDUAL = 1e-8


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

    @one_thread()
    def __call__(self, field: Field, start: Messages | None, reduce: Reduction) -> Rest:
        """The messages when the largest update is within the tolerance, or sweeps have run out.

        The residual is the largest change of a log-message in the last round, before damping.  A
        tolerance of 0 asks for every sweep.
        """
        sweep: Sweep = LogSweep(field, reduce)
        if reduce is torch.logsumexp and SoftSweep.suits(field):
            sweep = SoftSweep.of(field)
        messages = sweep.enter(field.start(start))
        near = max(self.tolerance, field.rounding())
        residual, sweeps = (torch.inf if len(messages) else 0.0), 0
        while len(messages) and sweeps < self.max_sweeps:
            new = sweep(messages)
            moved = change(new, messages)
            residual = float(moved.max())
            new = mix(new, messages, self.damping)
            if self.schedule == "residual":
                new = torch.where(_urgent(sweep.blocks, moved, residual), new, messages)
            messages, sweeps = new, sweeps + 1
            if self.tolerance and residual <= near:
                break
        return Rest(sweep.leave(messages), sweeps, residual, residual <= near)


def _urgent(blocks: Blocks, moved: Float[Tensor, "q"], largest: float) -> Bool[Tensor, "q"]:
    """Which entries belong to messages that moved nearly as far as the one that moved most."""
    urgent = []
    for block in (block for axes in blocks.split(moved) for block in axes if len(block)):
        message = block.amax(0, keepdim=True) >= RESIDUAL_SHARE * largest
        urgent.append(message.expand_as(block).reshape(-1))
    return torch.cat(urgent)

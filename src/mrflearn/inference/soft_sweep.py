"""Sum-product sweeps of soft fields: no entry impossible, no score extreme.

A message's range is at most that of its factor's table, so one look at the tables tells whether any
product of messages can leave the range of floating-point numbers.  Where none can, messages are
held as differences to the first state, which then needs no entry, and tables are exponentiated
once.  A message of s states costs s - 1 exponentials and logarithms instead of s * s: the sweep of
a binary grid takes a third of the time, that of many states far less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.inference.message_field import Field
from mrflearn.inference.wiring import Blocks
from mrflearn.kernels.messages import along, normalise, weighted_sum

# Sums of scores up to this share of the largest exponent are safe, and leave room for the sums.
SAFE_SHARE = 0.8


@dataclass(frozen=True, eq=False)
class Direction:
    """The way from all axes of a group to one: views, made once, of its weights and its inboxes.

    Steps sum out one axis after the other, from the last.  Slices of the whole table are at hand
    for the first step; later steps slice what it left, on the axis given.
    """

    slices: list[Float[Tensor, "*rest f"]]
    steps: list[tuple[int, list[Float[Tensor, "*rest f"]]]]  # axis, and the share of each state

    @classmethod
    def of(
        cls, weight: Float[Tensor, "*shape f"], inboxes: list[Float[Tensor, "_ f"]], axis: int
    ) -> Direction:
        """The direction towards one axis."""
        steps, axes = [], weight.ndim
        for other in reversed(range(len(inboxes))):
            if other != axis:
                steps.append((other, list(along(inboxes[other], other, axes).unbind(0))))
                axes -= 1
        return cls(list(weight.unbind(steps[0][0])), steps)

    def send(self) -> Float[Tensor, "s f"]:
        """The messages, as weights, not normalised."""
        message = weighted_sum(self.slices, self.steps[0][1])
        for axis, shares in self.steps[1:]:
            message = weighted_sum(message.unbind(axis), shares)
        return message


@dataclass(frozen=True, eq=False)
class SoftSweep:
    """All that sweeps need, relative to each variable's first state.

    Letters: q: message entries without those of first states; n: states likewise.
    """

    blocks: Blocks
    bias: Float[Tensor, "n"]
    place: Int[Tensor, "q"]
    inbox: Float[Tensor, "q"]  # scratch space, which `directions` look into
    directions: list[Direction]
    appearance: Float[Tensor, "q"] | None
    limit: Float[Tensor, "q"]  # how far an entry can be from 0: the range of its table
    full: Blocks

    @staticmethod
    def suits(field: Field) -> bool:
        """Whether no product that a sweep can come across overflows or vanishes."""
        graph, largest = field.wiring.graph, math.log(torch.finfo(field.bias.dtype).max)
        bias = field.wiring.padded(field.bias, -torch.inf)
        low = bias.masked_fill(~graph.legal(), torch.inf).amin(1)
        around = bias.amax(1) - low  # the range of what a variable can say
        rows = [] if field.appearance is None else field.wiring.blocks.split(field.appearance)
        ranges = _ranges(field)
        for k, (index, own) in enumerate(zip(field.wiring.senders, ranges, strict=True)):
            reach = own if not rows else own * rows[k][0][0]
            for variables in graph.groups[index].scope.T:
                around.index_add_(0, variables, reach)
        # Not below the limit where a table has -inf: the range is infinite, or not a number.
        return all(
            bool(
                (
                    (around[graph.groups[i].scope] + own.unsqueeze(1)).sum(1) + own
                    < SAFE_SHARE * largest
                ).all()
            )
            for i, own in zip(field.wiring.senders, ranges, strict=True)
        )

    @classmethod
    def of(cls, field: Field) -> SoftSweep:
        """The sweep of a field that it suits."""
        wiring, states = field.wiring, field.wiring.graph.states
        start = states.cumsum(0) - states
        first = torch.zeros_like(field.bias, dtype=torch.bool)
        first[start] = True
        relative = field.bias - field.bias[start].repeat_interleave(states)
        number = (~first).cumsum(0) - 1
        blocks = Blocks([[(s - 1, f) for s, f in axes] for axes in wiring.blocks.shapes])
        place = number[_without_first(wiring.blocks, wiring.place)]
        inbox = torch.empty_like(place, dtype=field.bias.dtype)
        rho = field.appearance
        return cls(
            blocks,
            relative[~first],
            place,
            inbox,
            [
                Direction.of(torch.exp(table - table.flatten(0, -2).amax(0)), inboxes, axis)
                for table, inboxes in zip(field.tables, blocks.split(inbox), strict=True)
                for axis in range(len(inboxes))
            ],
            None if rho is None else _without_first(wiring.blocks, rho),
            _without_first(wiring.blocks, wiring.spread(_ranges(field))),
            wiring.blocks,
        )

    def enter(self, messages: Float[Tensor, "m"]) -> Float[Tensor, "q"]:
        relative = [b - b[:1] for axes in self.full.split(messages) for b in axes]
        entries = torch.cat([messages.new_empty(0), *(b[1:].reshape(-1) for b in relative)])
        return entries.clamp_(-self.limit, self.limit)

    def __call__(self, messages: Float[Tensor, "q"]) -> Float[Tensor, "q"]:
        heard = messages if self.appearance is None else messages * self.appearance
        total = self.bias.clone().scatter_add_(0, self.place, heard)
        torch.index_select(total, 0, self.place, out=self.inbox)
        self.inbox.sub_(messages).exp_()
        sent = [direction.send() for direction in self.directions]
        return torch.cat([(m[1:] / m[:1]).view(-1) for m in sent]).log_()

    def leave(self, messages: Float[Tensor, "q"]) -> Float[Tensor, "m"]:
        blocks = [b for axes in self.blocks.split(messages) for b in axes]
        whole = (torch.cat([b.new_zeros(1, b.shape[1]), b]) for b in blocks)
        return torch.cat([messages.new_empty(0), *(normalise(b).reshape(-1) for b in whole)])


def _ranges(field: Field) -> list[Float[Tensor, "f"]]:
    """The difference between the largest and the smallest entry of every factor's table."""
    flat = [table.flatten(0, -2) for table in field.tables]
    return [rows.amax(0) - rows.amin(0) for rows in flat]


def _without_first(blocks: Blocks, entries: Tensor) -> Tensor:
    """The entries that are not about a variable's first state."""
    rest = [block[1:].reshape(-1) for axes in blocks.split(entries) for block in axes]
    return torch.cat([entries.new_empty(0), *rest])

"""Arithmetic of message passing in log space.  The last axis always runs over factors.

Letters: m: entries of all messages, end to end; n: states of all variables, end to end;
f: factors of one group; s: states of the axis a message is about.

Factors come last because reductions run over states: two or three long contiguous rows are added
some three times faster than thousands of rows of two or three numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

# torch.logsumexp for sum-product, torch.amax for max-product: both called as (tensor, dim).
Reduction = Callable[[Tensor, int], Tensor]


def collect(
    bias: Float[Tensor, " n"], place: Int[Tensor, " m"], messages: Float[Tensor, " m"]
) -> Float[Tensor, " n"]:
    """Every variable's own score plus all that its factors tell it."""
    return bias.clone().scatter_add_(0, place, messages)


def leave_one_out(
    total: Float[Tensor, " n"], place: Int[Tensor, " m"], messages: Float[Tensor, " m"]
) -> Float[Tensor, " m"]:
    """What each variable tells each factor: its total without that factor's own message.

    -inf minus -inf is -inf: a state that one factor rules out is out for all of them.
    """
    inbox = total.index_select(0, place).sub_(messages)
    return inbox.nan_to_num_(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)


def send(
    table: Float[Tensor, "*shape f"],
    inboxes: Sequence[Float[Tensor, "_ f"]],
    axis: int,
    reduce: Reduction,
) -> Float[Tensor, "s f"]:
    """The messages to the variables on one axis, not yet normalised.

    The other axes are reduced one at a time, from the last, so only the first step is of full size.
    """
    for other in reversed(range(len(inboxes))):
        if other != axis:
            table = reduce(table + along(inboxes[other], other, table.ndim), other)
    return table


def weighted_sum(
    weight: Sequence[Float[Tensor, "*rest f"]], shares: Sequence[Float[Tensor, "*#rest f"]]
) -> Float[Tensor, "*rest f"]:
    """Slices of a table added up, the first weighing 1 and each other one its share.

    Slices and shares are views that a caller makes once; a handful of long rows is added fastest
    one by one.
    """
    total = weight[0]
    for row, share in zip(weight[1:], shares, strict=True):
        total = torch.addcmul(total, row, share)
    return total


def along(inbox: Float[Tensor, "s f"], axis: int, axes: int) -> Tensor:
    """A view of (s, f) that lines up with `axis` of a table of so many axes, factors last."""
    states, factors = inbox.shape
    return inbox.reshape(states, *[1] * (axes - axis - 2), factors)


def joint(
    table: Float[Tensor, "*shape f"], inboxes: Sequence[Float[Tensor, "_ f"]]
) -> Float[Tensor, "*shape f"]:
    """The factors' unnormalised log-beliefs: their tables plus all that their variables say."""
    for axis, inbox in enumerate(inboxes):
        table = table + along(inbox, axis, table.ndim)
    return table


def normalise(message: Float[Tensor, "s f"]) -> Float[Tensor, "s f"]:
    """The same messages with 0 as their largest entry; all -inf stays so."""
    peak = message.amax(0, keepdim=True)
    return message - peak.clamp_(min=torch.finfo(message.dtype).min)


def change(new: Float[Tensor, " m"], old: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """How far every entry moved; from -inf to -inf is no move."""
    return (new - old).abs_().nan_to_num_(nan=0.0, posinf=torch.inf)


def mix(new: Float[Tensor, " m"], old: Float[Tensor, " m"], keep: float) -> Float[Tensor, " m"]:
    """A share `keep` of the old message in log space, the rest new; -inf in either is -inf."""
    return new if keep == 0.0 else (new * (1.0 - keep)).add_(old, alpha=keep)


def expect(
    table: Float[Tensor, "*shape f"], beliefs: Sequence[Float[Tensor, "_ f"]], axis: int
) -> Float[Tensor, "s f"]:
    """The mean of a table over independent states of all axes but one; 0 times -inf is 0."""
    for other in reversed(range(len(beliefs))):
        if other != axis:
            weight = along(beliefs[other], other, table.ndim)
            table = torch.where(weight == 0, 0.0, table * weight).sum(other)
    return table

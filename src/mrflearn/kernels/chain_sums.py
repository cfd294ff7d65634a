"""log Z, marginals and entropy of chains laid out by `Steps`: fast in linear space, safe in log.

Sequences whose numbers leave the float range are done again in log space and in float64.
Letters in shapes as in `chain_scaled`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.kernels import chain_reference
from mrflearn.kernels.chain_scaled import Messages, forward_backward, forward_only
from mrflearn.kernels.chain_steps import Steps

LARGEST_RESCUE = 2**24  # pair probabilities held at once while sequences are done again


@dataclass(frozen=True, eq=False)
class Expectations:
    """log Z, state probabilities, and what the sum of pair probabilities is made of."""

    log_partition: Float[Tensor, "b"]
    single: Float[Tensor, "r s"]
    messages: Messages  # zero where a sequence was done again
    again: Int[Tensor, "k"]
    again_counts: Float[Tensor, "k s s"]

    def pair_counts(
        self, steps: Steps, weight: Float[Tensor, "b"] | None = None
    ) -> Float[Tensor, "s s"]:
        """The sum of all pair probabilities, each sequence weighted: never one table a row."""
        forward, arriving = self.messages.forward, self.messages.arriving
        if weight is not None:
            arriving = arriving * weight[steps.sequence][:, None]
        if forward.is_cuda:  # one product instead of a launch a step
            total = forward[steps.previous].t() @ arriving[steps.starting :]
        else:  # no copy of the messages, which would leave the cache
            total = torch.zeros_like(self.messages.kernel)
            for t in range(1, len(steps.sizes)):
                before = forward[steps.slices[t - 1]][: steps.sizes[t]]
                total.addmm_(before.t(), arriving[steps.slices[t]])
        again = self.again_counts
        if weight is not None:
            again = again * weight[self.again][:, None, None]
        return total.mul_(self.messages.kernel).add_(again.sum(dim=0).to(total.dtype))


def log_partition(
    unary: Float[Tensor, "r s"], transition: Float[Tensor, "*q s s"], steps: Steps
) -> Float[Tensor, "b"]:
    """log Z of each sequence, differentiable in both tables."""
    if torch.is_grad_enabled() and (unary.requires_grad or transition.requires_grad):
        value: Tensor = _LogPartition.apply(unary, transition, steps)  # type: ignore[no-untyped-call]
        return value
    value, trusted = forward_only(unary, transition, steps)
    if not bool(trusted.all()):
        # The backward pass knows far more exactly what was lost, and costs little.
        messages = forward_backward(unary, transition, steps)
        value, trusted = messages.log_partition, messages.trusted
    for part in _log_space(unary, transition, steps, ~trusted):
        value[part.sequences] = part.log_partition.to(value.dtype)
    return value


def expectations(
    unary: Float[Tensor, "r s"], transition: Float[Tensor, "s s"], steps: Steps
) -> Expectations:
    """Everything a gradient needs where all steps share one transition table."""
    messages, value, single = _trusted_messages(unary, transition, steps)
    again, counts = [], []
    for part in _log_space(unary, transition, steps, ~messages.trusted):
        value[part.sequences] = part.log_partition.to(value.dtype)
        single[part.rows] = part.single.to(value.dtype)
        again.append(part.sequences)
        counts.append(part.pair.sum(dim=1))
    states = unary.shape[1]
    return Expectations(
        value,
        single,
        messages,
        torch.cat(again) if again else steps.lengths.new_zeros(0),
        torch.cat(counts).to(value.dtype) if counts else value.new_zeros(0, states, states),
    )


def marginals(
    unary: Float[Tensor, "r s"], transition: Float[Tensor, "*q s s"], steps: Steps
) -> tuple[Float[Tensor, "b"], Float[Tensor, "r s"], Float[Tensor, "q s s"]]:
    """log Z, the probability of each row's state, and of each pair of neighbouring states."""
    messages, value, single = _trusted_messages(unary, transition, steps)
    pair = messages.forward[steps.previous][:, :, None] * messages.kernel
    pair *= messages.arriving[steps.starting :][:, None, :]
    for part in _log_space(unary, transition, steps, ~messages.trusted):
        value[part.sequences] = part.log_partition.to(value.dtype)
        single[part.rows] = part.single.to(value.dtype)
        pair[part.later_rows - steps.starting] = part.pair[part.later].to(value.dtype)
    return value, single, pair


def entropy(
    unary: Float[Tensor, "r s"], transition: Float[Tensor, "*q s s"], steps: Steps
) -> Float[Tensor, "b"]:
    """log Z minus the expected score, of each sequence; -inf where nothing is possible."""
    own, table = unary.detach().double(), transition.detach().double()
    messages, value, single = _trusted_messages(own, table, steps)
    expected = _expected(single, own).sum(dim=1)
    # E[transition] row by row, from the messages: (forward kernel*score) . arriving
    scored = _expected(messages.kernel, table)
    before, arriving = messages.forward[steps.previous], messages.arriving[steps.starting :]
    moved = before @ scored if table.ndim == 2 else (before[:, None] @ scored).squeeze(1)
    expected[steps.starting :] += (moved * arriving).sum(dim=1)
    result = value - steps.totals(expected)
    for part in _log_space(own, table, steps, ~messages.trusted):
        spent = _expected(part.pair, part.table).flatten(1).sum(dim=1)
        spent += _expected(part.single_by_position, part.unary).flatten(1).sum(dim=1)
        result[part.sequences] = part.log_partition - spent
    return result.to(unary.dtype)


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, unary: Tensor, transition: Tensor, steps: Steps) -> Tensor:
        ctx.steps = steps
        if transition.ndim == 2:
            shared = expectations(unary, transition, steps)
            ctx.shared = shared
            # A copy: an output that its own context holds waits for the garbage collector.
            return shared.log_partition.clone()
        ctx.shared = None
        value, ctx.single, ctx.pair = marginals(unary, transition, steps)
        return value

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, Tensor, None]:
        weight, steps = outputs[0], ctx.steps
        by_row = weight[steps.sequence]
        if ctx.shared is not None:
            single = ctx.shared.single * by_row[:, None]
            return single, ctx.shared.pair_counts(steps, weight), None
        pair = ctx.pair * by_row[steps.starting :, None, None]
        return ctx.single * by_row[:, None], pair, None


@dataclass(frozen=True, eq=False)
class _Part:
    """Some sequences, padded, and what log space says of them."""

    sequences: Int[Tensor, "k"]
    rows: Int[Tensor, "m"]
    later_rows: Int[Tensor, "p"]
    later: Tensor
    unary: Float[Tensor, "k n s"]
    table: Float[Tensor, "*k_n s s"]
    log_partition: Float[Tensor, "k"]
    single: Float[Tensor, "m s"]
    single_by_position: Float[Tensor, "k n s"]
    pair: Float[Tensor, "k n-1 s s"]


def _log_space(unary: Tensor, transition: Tensor, steps: Steps, bad: Tensor) -> Iterator[_Part]:
    ranks = bad[steps.order].nonzero().squeeze(1)  # longest first: parts have little padding
    if not len(ranks):
        return
    own, table = unary.detach().double(), transition.detach().double()
    begin = torch.tensor([rows.start for rows in steps.slices], device=unary.device)
    largest = len(begin) * unary.shape[1] ** 2
    for chosen in ranks.split(max(1, LARGEST_RESCUE // largest)):
        yield _log_space_part(own, table, steps, chosen, begin)


def _log_space_part(
    unary: Tensor, transition: Tensor, steps: Steps, ranks: Tensor, begin: Tensor
) -> _Part:
    sequences = steps.order[ranks]
    lengths = steps.lengths[sequences]
    places = torch.arange(int(lengths[0]), device=unary.device)
    inside = places < lengths[:, None]
    rows = torch.where(inside, begin[: len(places)] + ranks[:, None], 0)
    padded, table, later = unary[rows], transition, inside[:, 1:]
    if transition.ndim == 3:
        table = transition[(rows[:, 1:] - steps.starting).clamp(min=0)]
    value, single, pair = chain_reference.marginals(padded, table, lengths)
    return _Part(
        sequences,
        rows[inside],
        rows[:, 1:][later],
        later,
        padded,
        table,
        value,
        single[inside],
        single,
        pair,
    )


def _trusted_messages(
    unary: Tensor, transition: Tensor, steps: Steps
) -> tuple[Messages, Tensor, Tensor]:
    messages = forward_backward(unary.detach(), transition.detach(), steps)
    if not bool(messages.trusted.all()):
        lost = ~messages.trusted[steps.sequence]
        clean = [
            part.masked_fill(lost[:, None], 0.0)
            for part in (messages.forward, messages.backward, messages.arriving)
        ]
        messages = replace(messages, forward=clean[0], backward=clean[1], arriving=clean[2])
    return messages, messages.log_partition.clone(), messages.forward * messages.backward


def _expected(probability: Tensor, score: Tensor) -> Tensor:
    # A score of -inf has probability 0 and adds nothing.
    return torch.where(probability > 0, probability * score, 0.0)

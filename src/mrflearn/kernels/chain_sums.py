"""Forward-backward on packed chains: log-partition functions, marginals, expected counts.

The longest sequence comes first: step t is then one slice of rows, and it continues the first
rows of the slice before it.  A recursion over such slices is plain matrix products.

The transition table is shared (s s) or one for each step into a row (q s s).  Sequences whose
numbers leave the float range are done again in log space and in float64.

Letters in shapes: b: sequences; n: positions; r: rows, one a token, packed by `Steps`; q: rows that
have a row before them (all rows but those of step 0); s: states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from mrflearn.execution.resources import moved
from mrflearn.kernels.gradients import once

# A number for each state of a row; transition tables, shared or by row; a number per sequence; one
# transition table.
Rows = Float[Tensor, "r s"]
Tables = Float[Tensor, "*q s s"]
PerSequence = Float[Tensor, " b"]
Table = Float[Tensor, "s s"]

# Sequences of different lengths, packed step by step, so that no row is padding.


@dataclass(frozen=True, eq=False)
class Steps:
    """The layout: `source[row]` is where a row stands among the tokens of the caller.

    `rank[row]` is the place of its sequence in `order` (longest first), `sizes[t]` the number of
    rows of step t.
    """

    lengths: Int[Tensor, " b"]
    order: Int[Tensor, " b"]
    rank: Int[Tensor, " r"]
    source: Int[Tensor, " r"]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, lengths: Int[Tensor, " b"], width: int | None = None) -> Steps:
        """The layout of sequences end to end, or padded to `width` tokens each."""
        first = lengths.cumsum(0) - lengths
        if width is not None:
            first = torch.arange(len(lengths), device=lengths.device) * width
        order = lengths.argsort(descending=True, stable=True)
        ordered = lengths[order]
        longest = int(ordered[0]) if len(ordered) else 0
        places = torch.arange(longest, device=lengths.device)
        # How many lengths exceed each place: the lengths are sorted, so this is a search.
        sizes = len(ordered) - torch.searchsorted(ordered.flip(0), places, right=True)
        place = places.repeat_interleave(sizes)
        begin = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        rank = torch.arange(len(place), device=lengths.device) - begin
        return cls(lengths, order, rank, first[order[rank]] + place, tuple(sizes.tolist()))

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The rows of each step."""
        ends = torch.tensor([0, *self.sizes]).cumsum(0).tolist()
        return tuple(slice(a, b) for a, b in pairwise(ends))

    @property
    def starting(self) -> int:
        """How many rows have no row before them."""
        return self.sizes[0] if self.sizes else 0

    @cached_property
    def sequence(self) -> Int[Tensor, " r"]:
        """Which sequence each row belongs to."""
        return self.order[self.rank]

    @cached_property
    def position(self) -> Int[Tensor, " r"]:
        """The position of each row in its sequence."""
        sizes = torch.tensor(self.sizes, dtype=torch.int64, device=self.rank.device)
        return torch.arange(len(sizes), device=self.rank.device).repeat_interleave(sizes)

    @cached_property
    def ranks(self) -> Int[Tensor, " b"]:
        """The place of each sequence in `order`."""
        return self.order.argsort()

    @cached_property
    def previous(self) -> Int[Tensor, " q"]:
        """The row before each row that has one."""
        sizes = torch.tensor(self.sizes, dtype=torch.int64, device=self.rank.device)
        back = sizes[:-1].repeat_interleave(sizes[1:])
        return torch.arange(self.starting, len(self), device=self.rank.device) - back

    def tables(self, transition: Tables, t: int) -> Float[Tensor, "*k s s"]:
        """The transition tables of the step to t: the shared one, or one for each of its rows."""
        if transition.ndim == 2:
            return transition
        rows = self.slices[t]
        return transition[rows.start - self.starting : rows.stop - self.starting]

    def to(self, device: torch.device | str) -> Steps:
        """The same layout on another device."""
        return moved(self, device)

    def pack(self, tokens: Shaped[Tensor, " k *rest"]) -> Shaped[Tensor, " r *rest"]:
        """The rows of this layout from values in the caller's order."""
        return tokens.index_select(0, self.source)

    def unpack(self, rows: Shaped[Tensor, " r *rest"], tokens: int) -> Shaped[Tensor, " k *rest"]:
        """Values in the caller's order; zero where no row stands."""
        return rows.new_zeros(tokens, *rows.shape[1:]).index_copy(0, self.source, rows)

    def totals(self, values: Shaped[Tensor, " r"]) -> Shaped[Tensor, " b"]:
        """The sum of the rows' values over each sequence."""
        return values.new_zeros(len(self.lengths)).index_add(0, self.sequence, values)


def row_scores(
    unary: Rows, table: Tables, path: Int[Tensor, " r"], steps: Steps
) -> Float[Tensor, " r"]:
    """The score of each row's state on a path, and of the step into it."""
    own = unary.gather(1, path[:, None]).squeeze(1)
    ends = path[steps.previous], path[steps.starting :]
    row = () if table.ndim == 2 else (torch.arange(len(table), device=table.device),)
    own[steps.starting :] += table[(*row, *ends)]
    return own


def scores_into(
    table: Float[Tensor, "*k s s"], state: Int[Tensor, "*d k"]
) -> Float[Tensor, "*d k s"]:
    """The scores of moving from each state to the given one of each row."""
    if table.ndim == 2:
        return table.t()[state]
    return table.transpose(1, 2)[torch.arange(len(table), device=table.device), state]


# Scaled forward-backward over chains in linear space: one matrix product a step.


@dataclass(frozen=True, eq=False)
class ForwardBackward:
    """What the recursion leaves: with k the row after i in its sequence,

    P(y_i) = forward_i * backward_i  and  P(y_i, y_k) = forward_i (outer) arriving_k * kernel_k.
    """

    forward: Rows
    backward: Rows
    arriving: Rows
    kernel: Tables
    log_partition: PerSequence
    trusted: Bool[Tensor, " b"]  # False: something underflowed that may matter; use log space


def forward_backward(unary: Rows, transition: Tables, steps: Steps) -> ForwardBackward:
    """Both recursions, and for which sequences float range was enough."""
    weight, kernel, log_shift = _weights(unary, transition, steps)
    forward, scale = _forward(weight, kernel, steps)
    log_partition = steps.totals(scale.double().log() + log_shift)
    weight /= scale[:, None]
    backward, arriving = _backward(weight, kernel, steps)
    # The sum bounds the maximum from above, and is one product.
    most = torch.mv(backward, backward.new_ones(backward.shape[1]))
    trusted = _trusted(most / scale, log_partition, steps, unary.shape[1])
    return ForwardBackward(forward, backward, arriving, kernel, log_partition, trusted)


def forward_only(
    unary: Rows, transition: Tables, steps: Steps
) -> tuple[PerSequence, Bool[Tensor, " b"]]:
    """log Z, and for which sequences float range was surely enough."""
    weight, kernel, log_shift = _weights(unary, transition, steps)
    _, scale = _forward(weight, kernel, steps)
    # No weight exceeds 1, so no continuation gains more than the product of these 1 / scale.
    gain = steps.totals(-scale.log().clamp(max=0.0)).nan_to_num(nan=torch.inf)
    trusted = gain < math.log(_limit(unary.dtype, steps, unary.shape[1]))
    return steps.totals(scale.double().log() + log_shift), trusted


def _weights(unary: Tensor, transition: Tensor, steps: Steps) -> tuple[Tensor, Tensor, Tensor]:
    """exp of the scores, scaled to a maximum of 1 in each row and in each kernel column."""
    # Column maxima move from the table to the row they lead to: the state that is best on arrival
    # then weighs 1, however far the scores of other columns reach.
    column = _finite(transition.amax(dim=-2))
    scores = unary.clone()
    scores[steps.starting :] += column
    log_shift = _finite(row_maxima(scores))
    weight = scores.sub_(log_shift[:, None]).exp_()
    return weight, (transition - column.unsqueeze(-2)).exp_(), log_shift


def row_maxima(rows: Rows) -> Float[Tensor, " r"]:
    """The maximum of each row: halves against each other, as torch reads entry by entry."""
    while not rows.is_cuda and rows.shape[1] > 3:
        half = (rows.shape[1] + 1) // 2
        rows = torch.maximum(rows[:, :half], rows[:, -half:])
    return rows.amax(dim=1)


def fused(rows: Rows) -> Any:
    """The kernels of `chain_triton` where they can do these rows, or None."""
    if not rows.is_cuda or find_spec("triton") is None:
        return None
    from mrflearn.kernels import chain_triton

    return chain_triton if chain_triton.fits(rows) else None


def _forward(weight: Tensor, kernel: Tensor, steps: Steps) -> tuple[Tensor, Tensor]:
    if fast := fused(weight):
        found: tuple[Tensor, Tensor] = fast.forward(weight, kernel, steps)
        return found
    message, scale = torch.empty_like(weight), weight.new_empty(len(weight))
    ones = weight.new_ones(weight.shape[1])
    for t, rows in enumerate(steps.slices):
        here = message[rows]
        if t:
            before = message[steps.slices[t - 1]][: steps.sizes[t]]
            _move(before, steps.tables(kernel, t), here)
            here *= weight[rows]
        else:
            here.copy_(weight[rows])
        torch.mv(here, ones, out=scale[rows])
        here /= scale[rows, None]
    return message, scale


def _backward(weight: Tensor, kernel: Tensor, steps: Steps) -> tuple[Tensor, Tensor]:
    if fast := fused(weight):
        found: tuple[Tensor, Tensor] = fast.backward(weight, kernel, steps)
        return found
    message, arriving = torch.ones_like(weight), weight  # in place: memory traffic is the cost
    turned = kernel.transpose(-1, -2)
    for t in range(len(steps.sizes) - 1, -1, -1):
        rows = steps.slices[t]
        arriving[rows] *= message[rows]
        if t:
            # Rows beyond the size of step t end here, and keep their ones.
            before = message[steps.slices[t - 1]][: steps.sizes[t]]
            _move(arriving[rows], steps.tables(turned, t), before)
    return message, arriving


def _move(source: Tensor, kernel: Tensor, target: Tensor) -> None:
    if kernel.ndim == 2:
        torch.mm(source, kernel, out=target)
    else:
        torch.bmm(source[:, None], kernel, out=target[:, None])


def _trusted(gain: Tensor, log_partition: Tensor, steps: Steps, states: int) -> Tensor:
    # Mass that underflows at a row is below the least normal number; division by the row's scale
    # and the backward message are what it would have grown by.  So a bound on their product, the
    # gain, bounds the relative error of Z.
    largest = gain.new_zeros(len(steps.lengths))
    gain = gain.nan_to_num(nan=torch.inf)
    largest = largest.scatter_reduce(0, steps.sequence, gain, "amax")
    return (largest < _limit(gain.dtype, steps, states)) & log_partition.isfinite()


def _limit(dtype: torch.dtype, steps: Steps, states: int) -> float:
    """How far lost mass may grow before it shows in the last digits."""
    number = torch.finfo(dtype)
    return number.eps / number.tiny / (states**2 * max(len(steps.sizes), 1))


def _finite(values: Tensor) -> Tensor:
    return values.nan_to_num(neginf=0.0)


# log Z, marginals and entropy of packed chains: fast in linear space, safe in log.


LARGEST_RESCUE = 2**24  # pair probabilities held at once while sequences are computed again


@dataclass(frozen=True, eq=False)
class Expectations:
    """log Z, state probabilities, and what the sum of pair probabilities is made of."""

    log_partition: PerSequence
    single: Rows
    messages: ForwardBackward  # zero where a sequence was computed again
    again: Int[Tensor, " k"]
    again_counts: Float[Tensor, "k s s"]

    def pair_counts(self, steps: Steps, weight: PerSequence | None = None) -> Table:
        """The sum of all pair probabilities, each sequence weighted: never one table per row.

        It is summed over steps in float64: what is learned is its difference from counts as large.
        """
        forward, arriving = self.messages.forward, self.messages.arriving
        again = self.again_counts
        if weight is not None:
            arriving = arriving * weight[steps.sequence][:, None]
            again = again * weight[self.again][:, None, None]
        if forward.is_cuda:  # one product instead of a launch per step
            total = (forward[steps.previous].t() @ arriving[steps.starting :]).double()
        else:  # no copy of the messages, which would leave the cache
            total = torch.zeros_like(self.messages.kernel, dtype=torch.float64)
            for t in range(1, len(steps.sizes)):
                before = forward[steps.slices[t - 1]][: steps.sizes[t]]
                total += before.t() @ arriving[steps.slices[t]]
        return total.mul_(self.messages.kernel).add_(again.sum(dim=0))


def log_partition(
    unary: Rows, transition: Tables, steps: Steps, path: Int[Tensor, " r"] | None = None
) -> PerSequence:
    """log Z of each sequence in float64, a sum over all its rows; differentiable in both tables.

    With the states of a `path`, log Z less its score: minus the path's log-probability.
    """
    if torch.is_grad_enabled() and (unary.requires_grad or transition.requires_grad):
        value: Tensor = _LogPartition.apply(unary, transition, steps, path)  # type: ignore[no-untyped-call]
        return value
    unary = _less_path(unary, transition, steps, path)
    value, trusted = forward_only(unary, transition, steps)
    if not bool(trusted.all()):
        # The backward pass knows far more exactly what was lost, and costs little.
        messages = forward_backward(unary, transition, steps)
        value, trusted = messages.log_partition, messages.trusted
    for part in _log_space(unary, transition, steps, ~trusted):
        value[part.sequences] = part.log_partition
    return value


def expectations(unary: Rows, transition: Table, steps: Steps) -> Expectations:
    """Everything a gradient needs where all steps share one transition table."""
    messages, value, single, parts = _sums(unary, transition, steps)
    again, counts = [steps.lengths.new_zeros(0)], [value.new_zeros(0, *transition.shape)]
    for part in parts:
        again.append(part.sequences)
        counts.append(part.pair.sum(dim=1))
    return Expectations(value, single, messages, torch.cat(again), torch.cat(counts))


def marginals(
    unary: Rows, transition: Tables, steps: Steps
) -> tuple[PerSequence, Rows, Float[Tensor, "q s s"]]:
    """log Z, the probability of each row's state, and of each pair of neighbouring states."""
    messages, value, single, parts = _sums(unary, transition, steps)
    pair = messages.forward[steps.previous][:, :, None] * messages.kernel
    pair *= messages.arriving[steps.starting :][:, None, :]
    for part in parts:
        later = part.inside[:, 1:]
        pair[part.rows[:, 1:][later] - steps.starting] = part.pair[later].to(pair.dtype)
    return value, single, pair


def entropy(unary: Rows, transition: Tables, steps: Steps) -> PerSequence:
    """log Z minus the expected score, of each sequence; -inf where nothing is possible."""
    own, table = unary.detach().double(), transition.detach().double()
    messages, value, single, parts = _sums(own, table, steps)
    expected = _expected(single, own).sum(dim=1)
    # E[transition] row by row, from the messages: (forward kernel*score) . arriving
    scored = _expected(messages.kernel, table)
    before, arriving = messages.forward[steps.previous], messages.arriving[steps.starting :]
    moved = before @ scored if table.ndim == 2 else (before[:, None] @ scored).squeeze(1)
    expected[steps.starting :] += (moved * arriving).sum(dim=1)
    result = value - steps.totals(expected)
    for part in parts:
        scores = _expected(part.pair, part.table), _expected(part.single, part.unary)
        spent = sum(own.flatten(1).sum(dim=1) for own in scores)
        result[part.sequences] = part.log_partition - spent
    return result.to(unary.dtype)


def _less_path(unary: Rows, transition: Tables, steps: Steps, path: Tensor | None) -> Rows:
    """Scores relative to those of a path, whose score is 0 then: log Z keeps its digits."""
    if path is None:
        return unary
    return unary - row_scores(unary, transition, path, steps)[:, None]


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, unary: Tensor, transition: Tensor, steps: Steps, path: Tensor | None
    ) -> Tensor:
        ctx.steps, ctx.path = steps, path
        unary = _less_path(unary, transition, steps, path)
        if transition.ndim == 2:
            ctx.shared = expectations(unary, transition, steps)
            ctx.single = ctx.shared.single
            # A copy: an output that its own context holds waits for the garbage collector.
            value: Tensor = ctx.shared.log_partition.clone()
        else:
            value, ctx.single, ctx.pair = marginals(unary, transition, steps)
        return value

    @staticmethod
    @once
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        # In the type of the scores, as they are.
        weight, steps, path = outputs[0].to(ctx.single.dtype), ctx.steps, ctx.path
        by_row = weight[steps.sequence]
        later, single, pair = by_row[steps.starting :], None, None
        if ctx.needs_input_grad[0]:
            single = ctx.single * by_row[:, None]
            if path is not None:
                single.scatter_add_(1, path[:, None], -by_row[:, None])
        if ctx.needs_input_grad[1]:
            if hasattr(ctx, "shared"):
                pair = ctx.shared.pair_counts(steps, weight)
            else:
                pair = ctx.pair * later[:, None, None]
            if path is not None:
                step = path[steps.previous] * pair.shape[-1] + path[steps.starting :]
                if pair.ndim == 3:
                    step += torch.arange(len(step), device=step.device) * pair[0].numel()
                pair.view(-1).index_add_(0, step, later.to(pair.dtype), alpha=-1)
            pair = pair.to(weight.dtype)
        return single, pair, None, None


class _Rescued(NamedTuple):
    """Some sequences, padded, and what log space says of them."""

    sequences: Int[Tensor, " k"]
    rows: Int[Tensor, "k n"]
    inside: Bool[Tensor, "k n"]
    unary: Float[Tensor, "k n s"]
    table: Float[Tensor, "*k_n s s"]
    log_partition: Float[Tensor, " k"]
    single: Float[Tensor, "k n s"]
    pair: Float[Tensor, "k n-1 s s"]


def _sums(
    unary: Tensor, transition: Tensor, steps: Steps
) -> tuple[ForwardBackward, Tensor, Tensor, Iterator[_Rescued]]:
    """Messages, log Z and state probabilities; both are completed while the parts are consumed."""
    messages = forward_backward(unary.detach(), transition.detach(), steps)
    if not bool(messages.trusted.all()):
        lost = ~messages.trusted[steps.sequence][:, None]
        kept = {
            name: getattr(messages, name).masked_fill(lost, 0.0)
            for name in ("forward", "backward", "arriving")
        }
        messages = replace(messages, **kept)
    value, single = messages.log_partition.clone(), messages.forward * messages.backward

    def parts() -> Iterator[_Rescued]:
        for part in _log_space(unary, transition, steps, ~messages.trusted):
            value[part.sequences] = part.log_partition
            single[part.rows[part.inside]] = part.single[part.inside].to(single.dtype)
            yield part

    return messages, value, single, parts()


def _log_space(unary: Tensor, transition: Tensor, steps: Steps, bad: Tensor) -> Iterator[_Rescued]:
    """The bad sequences once more, in float64 and in log space."""
    ranks = bad[steps.order].nonzero().squeeze(1)  # longest first: parts have little padding
    if not len(ranks):
        return
    own, transition = unary.detach().double(), transition.detach().double()
    begin = torch.tensor([rows.start for rows in steps.slices], device=unary.device)
    largest = len(begin) * unary.shape[1] ** 2
    for chosen in ranks.split(max(1, LARGEST_RESCUE // largest)):
        sequences = steps.order[chosen]
        lengths = steps.lengths[sequences]
        places = torch.arange(int(lengths[0]), device=unary.device)
        inside = places < lengths[:, None]
        rows = torch.where(inside, begin[: len(places)] + chosen[:, None], 0)
        padded, table = own[rows], transition
        if transition.ndim == 3:
            table = transition[(rows[:, 1:] - steps.starting).clamp(min=0)]
        found = reference_marginals(padded, table, lengths)
        yield _Rescued(sequences, rows, inside, padded, table, *found)


def _expected(probability: Tensor, score: Tensor) -> Tensor:
    # A score of -inf has probability 0 and adds nothing.
    return torch.where(probability > 0, probability * score, 0.0)


# The plain twin: padded sequences position by position in log space, differentiated by autograd.
# A transition table is shared (s s) or belongs to the step from position t to t + 1 (b n-1 s s).


def reference_marginals(
    unary: Float[Tensor, "b n s"], transition: Float[Tensor, "*b_n s s"], lengths: Int[Tensor, " b"]
) -> tuple[PerSequence, Float[Tensor, "b n s"], Float[Tensor, "b n-1 s s"]]:
    """log Z and its gradients: the probabilities of states, and of pairs of neighbouring states.

    Both are zero beyond a sequence's length, and all zero where no assignment is possible.
    """
    sequences, positions, states = unary.shape
    tables = transition.expand(sequences, max(positions - 1, 0), states, states)
    first, second = (scores.detach().clone().requires_grad_(True) for scores in (unary, tables))
    with torch.enable_grad():
        value = reference_log_partition(first, second, lengths)
        single, pair = torch.autograd.grad(value.sum(), (first, second), materialize_grads=True)
    return value.detach(), single, pair


def reference_log_partition(
    unary: Float[Tensor, "b n s"], transition: Float[Tensor, "*b_n s s"], lengths: Int[Tensor, " b"]
) -> PerSequence:
    """The log-sum of the scores of all assignments; 0 for a sequence of length 0."""
    sequences, positions, states = unary.shape
    if not positions:
        return unary.sum(dim=(1, 2))
    tables = transition.expand(sequences, positions - 1, states, states)
    message, *others = unary.unbind(dim=1)
    for t, (table, own) in enumerate(zip(tables.unbind(dim=1), others, strict=True), start=1):
        moved = safe_logsumexp(message[:, :, None] + table, 1) + own
        # Held still beyond the length, so that the last message is the end of every sequence.
        message = torch.where((t < lengths)[:, None], moved, message)
    return torch.where(lengths > 0, safe_logsumexp(message, 1), 0.0)


def safe_logsumexp(scores: Tensor, dim: int) -> Tensor:
    """Log-sum-exp along an axis; -inf, of gradient zero, where all entries are -inf.

    The gradient of `torch.logsumexp` is not a number there.
    """
    empty = (scores == -torch.inf).all(dim, keepdim=True)
    # Twice `where`: the gradient of the branch that is not taken must be finite too.
    value = torch.where(empty, 0.0, scores).logsumexp(dim)
    return torch.where(empty.squeeze(dim), -torch.inf, value)

"""Pieces of chains that share one transition table: fast in linear space, safe in log.

A piece is a transition with the tokens at its ends.  A token without neighbours is one by itself.
Its loss is its log-partition less the score of its labels, taken piece by piece: the difference of
their sums would be noise in single precision before training is over.

Letters in shapes: r: rows (tokens) laid out by `Steps`; q: rows that have a row before them;
s: states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from mrflearn.kernels.chain_sums import Steps

# Sums below this are done again in log space: what underflowed in them might matter.
SMALLEST = {torch.float32: 1e-20, torch.float64: 1e-200}


class PieceSums(NamedTuple):
    """The weighted sum of the pieces' losses, and its slopes."""

    value: Float[Tensor, ""]
    single: Float[Tensor, "r s"]
    pair: Float[Tensor, "s s"]


@dataclass(frozen=True, eq=False)
class PieceSide:
    """For each row the state on one side of it (s: there is none), and how often that counts."""

    state: Int[Tensor, " r"]
    amount: Float[Tensor, " r"]
    order: Int[Tensor, " r"]  # the rows, by `state`
    begin: Int[Tensor, " s+1"]  # of each state's rows in `order`

    @classmethod
    def of(cls, state: Int[Tensor, " r"], amount: Float[Tensor, " r"], states: int) -> PieceSide:
        """The same with the order of the rows."""
        count = torch.bincount(state, minlength=states + 1)
        return cls(state, amount, state.argsort(), count.cumsum(0) - count)


def sides(
    gold: Int[Tensor, " r"], steps: Steps, amount: Float[Tensor, " r"], states: int
) -> tuple[PieceSide, PieceSide]:
    """The states before and after every row; a row without either counts on its left."""
    before, after = (torch.full_like(gold, states) for _ in range(2))
    before[steps.starting :] = gold[steps.previous]
    after[steps.previous] = gold[steps.starting :]
    has_after = after < states
    counted = (before < states) | ~has_after
    return (
        PieceSide.of(before, amount * counted, states),
        PieceSide.of(after, amount * has_after, states),
    )


def given_neighbours(
    unary: Float[Tensor, "r s"],
    table: Float[Tensor, "s s"],
    gold: Int[Tensor, " r"],
    left: PieceSide,
    right: PieceSide,
) -> PieceSums:
    """log sum_y exp(unary_i(y) + table(before, y)), and the same for what comes after, summed.

    Less the scores of the labels, these are the local terms of piecewise pseudolikelihood [Sutton
    and McCallum 2009, eq. 36].
    """
    peak = unary.amax(dim=1, keepdim=True)
    weight = (unary - peak).exp_()
    ahead = (peak - unary.gather(1, gold[:, None])).squeeze(1)
    value = torch.dot(ahead.double(), (left.amount + right.amount).double())
    slopes, pairs = [], []
    for side, scores in ((left, table), (right, table.t())):
        shift = scores.amax(dim=1)
        below = torch.cat([scores - shift[:, None], torch.zeros_like(scores[:1])])
        known, kernel = below[side.state, gold], below.exp_()
        own = kernel.index_select(0, side.state).mul_(weight)
        total = own.sum(dim=1)
        if not bool((total > SMALLEST[unary.dtype]).all()):
            return given_neighbours_reference(unary, table, gold, left, right)
        value += torch.dot(total.double().log() - known, side.amount.double())
        slopes.append(_less_known(own.mul_((side.amount / total)[:, None]), gold, side.amount))
        pairs.append(embedding_bag(side.order, own, side.begin, mode="sum")[:-1])
    return PieceSums(value, slopes[0].add_(slopes[1]), pairs[0] + pairs[1].t())


def given_neighbours_reference(
    unary: Float[Tensor, "r s"],
    table: Float[Tensor, "s s"],
    gold: Int[Tensor, " r"],
    left: PieceSide,
    right: PieceSide,
) -> PieceSums:
    """The same in log space and in float64."""
    scores, slopes, pairs = unary.double(), [], []
    value = scores.new_zeros(())
    for side, own in ((left, table.double()), (right, table.double().t())):
        around = torch.cat([own, torch.zeros_like(own[:1])])
        found = scores + around[side.state]
        loss = found.logsumexp(dim=1) - found.gather(1, gold[:, None]).squeeze(1)
        amount = side.amount.double()
        value += torch.dot(loss, amount)
        slopes.append(_less_known(found.softmax(dim=1) * amount[:, None], gold, amount))
        pairs.append(torch.zeros_like(around).index_add_(0, side.state, slopes[-1])[:-1])
    single, pair = slopes[0] + slopes[1], pairs[0] + pairs[1].t()
    return PieceSums(value, single.to(unary.dtype), pair.to(unary.dtype))


def whole_pieces(
    unary: Float[Tensor, "r s"],
    table: Float[Tensor, "s s"],
    gold: Int[Tensor, " r"],
    steps: Steps,
    amount: Float[Tensor, " r"],
) -> PieceSums:
    """log sum_xy exp(unary_i(x) + table(x, y) + unary_k(y)) of neighbours i and k, summed.

    Less the scores of the labels, these are the pieces of piecewise training [Sutton and McCallum
    2009, eq. 8].
    """
    peak, below = unary.amax(dim=1, keepdim=True), table - table.max()
    weight, kernel = (unary - peak).exp_(), below.exp()
    before, after = weight[steps.previous], weight[steps.starting :]
    arriving = before @ kernel
    total = torch.linalg.vecdot(arriving, after)
    if not bool((total > SMALLEST[unary.dtype]).all()):
        return whole_pieces_reference(unary, table, gold, steps, amount)
    own = amount[steps.starting :]
    scale = (own / total)[:, None]
    times = amount * times_in_pieces(steps)
    ahead = (peak - unary.gather(1, gold[:, None])).squeeze(1)
    known = below[gold[steps.previous], gold[steps.starting :]]
    value = torch.dot(total.double().log() - known, own.double())
    value += torch.dot(ahead.double(), times.double())
    slopes = torch.zeros_like(weight)
    slopes[steps.starting :] = arriving.mul_(after).mul_(scale)
    scaled = after * scale
    slopes.index_add_(0, steps.previous, (scaled @ kernel.t()).mul_(before))
    lone = _lone_rows(steps)
    found = weight[lone].sum(dim=1)
    value += torch.dot(found.log().double(), amount[lone].double())
    slopes[lone] = weight[lone] * (amount[lone] / found)[:, None]
    pair = (before.t() @ scaled).mul_(kernel) - known_steps(gold, steps, amount, len(table))
    return PieceSums(value, _less_known(slopes, gold, times), pair)


def whole_pieces_reference(
    unary: Float[Tensor, "r s"],
    table: Float[Tensor, "s s"],
    gold: Int[Tensor, " r"],
    steps: Steps,
    amount: Float[Tensor, " r"],
) -> PieceSums:
    """The same in log space and in float64, one table a transition."""
    scores, amount = unary.double(), amount.double()
    value, slopes = scores.new_zeros(()), torch.zeros_like(scores)
    pair = -known_steps(gold, steps, amount, len(table))
    rows = torch.arange(steps.starting, len(unary), device=unary.device)
    for later, before in zip(rows.split(256), steps.previous.split(256), strict=True):
        tables = scores[before][:, :, None] + table.double() + scores[later][:, None, :]
        known = tables[torch.arange(len(later), device=rows.device), gold[before], gold[later]]
        value += torch.dot(tables.logsumexp(dim=(1, 2)) - known, amount[later])
        own = tables.flatten(1).softmax(dim=1).view_as(tables) * amount[later][:, None, None]
        slopes.index_add_(0, before, own.sum(dim=2))
        slopes.index_add_(0, later, own.sum(dim=1))
        pair += own.sum(dim=0)
    lone = _lone_rows(steps)
    known = scores[lone, gold[lone]]
    value += torch.dot(scores[lone].logsumexp(dim=1) - known, amount[lone])
    slopes[lone] = scores[lone].softmax(dim=1) * amount[lone][:, None]
    _less_known(slopes, gold, amount * times_in_pieces(steps))
    return PieceSums(value, slopes.to(unary.dtype), pair.to(unary.dtype))


def times_in_pieces(steps: Steps) -> Float[Tensor, " r"]:
    """In how many pieces each row is."""
    times = torch.zeros(len(steps), device=steps.rank.device)
    times[steps.starting :] += 1
    times[steps.previous] += 1
    return times.clamp_(min=1)


def known_steps(
    gold: Int[Tensor, " r"], steps: Steps, amount: Float[Tensor, " r"], states: int
) -> Float[Tensor, "s s"]:
    """How often each step from state to state is one of the labels'."""
    step = gold[steps.previous] * states + gold[steps.starting :]
    count = amount.new_zeros(states**2).index_add_(0, step, amount[steps.starting :])
    return count.view(states, states)


def _less_known(
    slopes: Float[Tensor, "r s"], gold: Int[Tensor, " r"], amount: Float[Tensor, " r"]
) -> Float[Tensor, "r s"]:
    """Takes the known labels off, in place and row by row: later sums then keep their digits."""
    return slopes.scatter_add_(1, gold[:, None], -amount.to(slopes.dtype)[:, None])


def _lone_rows(steps: Steps) -> Int[Tensor, " k"]:
    """The rows of sequences of one token: the last of those that start one."""
    first = steps.sizes[1] if len(steps.sizes) > 1 else 0
    return torch.arange(first, steps.starting, device=steps.rank.device)

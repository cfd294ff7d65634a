"""Pieces of chains that share one transition table: fast in linear space, safe in log.

A piece is a transition with the tokens at its ends.  A token without neighbours is one by itself.
Its loss is its log-partition less the score of its labels, taken piece by piece: the difference of
their sums would be noise in single precision before training is over.

Letters in shapes: r: rows (tokens) packed by `Steps`; q: rows that have a row before them;
s: states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from mrflearn.kernels.chain_sums import Rows, Steps, Table, Tables

Labels = Int[Tensor, " r"]
Amounts = Float[Tensor, " r"]  # how much each row counts

# Sums below this are done again in log space: what underflowed in them might matter.
SMALLEST = {torch.float32: 1e-20, torch.float64: 1e-200}
CELLS_AT_ONCE = 2**20  # of tables of transitions that are done again


class ChainLoss(NamedTuple):
    """A weighted sum of losses, and its gradient by scores of states and by the table of steps.

    `pair` is the gradient by the shared table, or by that of each row.
    """

    value: Float[Tensor, ""]
    single: Rows
    pair: Tables


@dataclass(frozen=True, eq=False)
class PieceSide:
    """For each row the state on one side of it (s: there is none), and how often that counts."""

    state: Int[Tensor, " r"]
    amount: Amounts
    order: Int[Tensor, " r"]  # the rows, by `state`
    begin: Int[Tensor, " s+1"]  # of each state's rows in `order`

    @classmethod
    def of(cls, state: Int[Tensor, " r"], amount: Amounts, states: int) -> PieceSide:
        """The same with the order of the rows."""
        count = torch.bincount(state, minlength=states + 1)
        return cls(state, amount, state.argsort(), count.cumsum(0) - count)


def sides(gold: Labels, steps: Steps, amount: Amounts, states: int) -> tuple[PieceSide, PieceSide]:
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
    unary: Rows, table: Table, gold: Labels, left: PieceSide, right: PieceSide
) -> ChainLoss:
    """log sum_y exp(unary_i(y) + table(before, y)), and the same for what comes after, summed.

    Less the scores of the labels, these are the local terms of piecewise pseudolikelihood [Sutton
    and McCallum 2009, eq. 36].
    """
    peak = unary.amax(dim=1, keepdim=True)
    weight = (unary - peak).exp_()
    ahead = (peak - unary.gather(1, gold[:, None])).squeeze(1)
    value = torch.dot(ahead.double(), (left.amount + right.amount).double())
    gradients, pairs = [], []
    for side, scores in ((left, table), (right, table.t())):
        shift = scores.amax(dim=1)
        below = torch.cat([scores - shift[:, None], torch.zeros_like(scores[:1])])
        own = below.exp().index_select(0, side.state).mul_(weight)
        total = own.sum(dim=1)
        log_total = total.double().log()
        if len(lost := _lost(total)):
            again = (unary[lost] - peak[lost] + below[side.state[lost]]).double()
            log_total[lost] = again.logsumexp(dim=1)
            own[lost], total[lost] = again.softmax(dim=1).to(own.dtype), 1.0
        value += torch.dot(log_total - below[side.state, gold], side.amount.double())
        gradients.append(_less_known(own.mul_((side.amount / total)[:, None]), gold, side.amount))
        pairs.append(embedding_bag(side.order, own, side.begin, mode="sum")[:-1])
    return ChainLoss(value, gradients[0].add_(gradients[1]), pairs[0] + pairs[1].t())


def whole_pieces(
    unary: Rows, table: Table, gold: Labels, steps: Steps, amount: Amounts
) -> ChainLoss:
    """log sum_xy exp(unary_i(x) + table(x, y) + unary_k(y)) of neighbours i and k, summed.

    Less the scores of the labels, these are the pieces of piecewise training [Sutton and McCallum
    2009, eq. 8].
    """
    peak, below = unary.amax(dim=1, keepdim=True), table - table.max()
    weight, kernel = (unary - peak).exp_(), below.exp()
    before, after = weight[steps.previous], weight[steps.starting :]
    arriving = before @ kernel
    total = torch.linalg.vecdot(arriving, after)
    own = amount[steps.starting :]
    log_total, scale = total.double().log(), (own / total)[:, None]
    if len(lost := _lost(total)):
        scale[lost] = 0.0  # added below
    times = amount * times_in_pieces(steps)
    ahead = (peak - unary.gather(1, gold[:, None])).squeeze(1)
    known = below[gold[steps.previous], gold[steps.starting :]]
    gradient = torch.zeros_like(weight)
    gradient[steps.starting :] = arriving.mul_(after).mul_(scale)
    scaled = after * scale
    gradient.index_add_(0, steps.previous, (scaled @ kernel.t()).mul_(before))
    pair = (before.t() @ scaled).mul_(kernel).double()
    for some in lost.split(max(1, CELLS_AT_ONCE // table.numel())) if len(lost) else ():
        earlier, later = steps.previous[some], some + steps.starting
        ends = [unary[rows] - peak[rows] for rows in (earlier, later)]
        tables = (ends[0][:, :, None] + below + ends[1][:, None, :]).double()
        log_total[some] = tables.logsumexp(dim=(1, 2))
        chance = tables.flatten(1).softmax(dim=1).view_as(tables) * own[some][:, None, None]
        gradient.index_add_(0, earlier, chance.sum(dim=2).to(gradient.dtype))
        gradient.index_add_(0, later, chance.sum(dim=1).to(gradient.dtype))
        pair += chance.sum(dim=0)
    value = torch.dot(log_total - known, own.double())
    value += torch.dot(ahead.double(), times.double())
    lone = _lone_rows(steps)
    found = weight[lone].sum(dim=1)
    value += torch.dot(found.log().double(), amount[lone].double())
    gradient[lone] = weight[lone] * (amount[lone] / found)[:, None]
    pair -= known_steps(gold, steps, amount, len(table))
    return ChainLoss(value, _less_known(gradient, gold, times), pair)


def _lost(total: Float[Tensor, " n"]) -> Int[Tensor, " k"]:
    """The sums that something underflowed in that might matter: they are done again."""
    return (~(total > SMALLEST[total.dtype])).nonzero().squeeze(1)


def times_in_pieces(steps: Steps) -> Amounts:
    """In how many pieces each row is."""
    times = torch.zeros(len(steps), device=steps.rank.device)
    times[steps.starting :] += 1
    times[steps.previous] += 1
    return times.clamp_(min=1)


def known_steps(gold: Labels, steps: Steps, amount: Amounts, states: int) -> Table:
    """How often each step from state to state is one of the labels'."""
    step = gold[steps.previous] * states + gold[steps.starting :]
    count = amount.new_zeros(states**2).index_add_(0, step, amount[steps.starting :])
    return count.view(states, states)


def _less_known(gradient: Rows, gold: Labels, amount: Amounts) -> Rows:
    """Takes the known labels off, in place and row by row: later sums then keep their digits."""
    return gradient.scatter_add_(1, gold[:, None], -amount.to(gradient.dtype)[:, None])


def _lone_rows(steps: Steps) -> Int[Tensor, " k"]:
    """The rows of sequences of one token: the last of those that start one."""
    first = steps.sizes[1] if len(steps.sizes) > 1 else 0
    return torch.arange(first, steps.starting, device=steps.rank.device)

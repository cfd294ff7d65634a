"""Losses of pieces of chains in log space and in float64: the plain twins of `chain_pieces`."""

from __future__ import annotations

import torch
from torch import Tensor

from mrflearn.kernels.chain_pieces import (
    ChainLoss,
    PieceSide,
    _less_known,
    _lone_rows,
    known_steps,
    times_in_pieces,
)
from mrflearn.kernels.chain_sums import Steps


def given_neighbours(
    unary: Tensor,
    table: Tensor,
    gold: Tensor,
    left: PieceSide,
    right: PieceSide,
) -> ChainLoss:
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
    return ChainLoss(value, single.to(unary.dtype), pair.to(unary.dtype))


def whole_pieces(
    unary: Tensor,
    table: Tensor,
    gold: Tensor,
    steps: Steps,
    amount: Tensor,
) -> ChainLoss:
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
    return ChainLoss(value, slopes.to(unary.dtype), pair.to(unary.dtype))

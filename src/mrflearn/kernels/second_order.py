"""Second-order chains: sums and best paths over triples of labels.

    score(y) = sum_i [ unary_i(y_i) + near(y_{i-1}, y_i) + far(y_{i-2}, y_i) ]

The recursion runs over pairs of states, in linear space and in float64; a position costs s^3.
Sequences that leave even that range, or have no possible assignment, are done again in log space.
Letters in shapes: r: rows (tokens) packed by `Steps`; s: states; b: sequences; n: tokens of one;
k: sequences that reach a step; m: assignments kept; d: draws; a: states before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.kernels import chain_search, chain_sums
from mrflearn.kernels.chain_sums import PerSequence, Rows, Steps, Table, safe_logsumexp
from mrflearn.kernels.gradients import once

# log Z of packed chains in which each state also meets the one two places before it.


# How much, in nats, may be lost on the way before it could show in the last digits of log Z.
MOST_LOST = math.log(torch.finfo(torch.float64).eps / torch.finfo(torch.float64).tiny)


def log_partition(
    unary: Rows, near: Table, far: Table, steps: Steps, path: Int[Tensor, " r"] | None = None
) -> PerSequence:
    """log Z of each sequence, differentiable in all tables; 0 for a sequence of length 0.

    With the states of a `path`, log Z less its score: minus the path's log-probability.
    """
    rows, tables = unary.double(), (near.double(), far.double())
    if path is not None:
        rows = rows - path_scores(rows, *tables, path, steps)[:, None]
    value, trusted = _scaled(rows, *tables, steps)
    if not bool(trusted.all()):
        # Once more without the others, whose gradients would spoil those of all.
        inside = trusted[steps.sequence]
        kept, _ = _scaled(rows[inside], *tables, Steps.of(steps.lengths[trusted]))
        together = rows[steps.sequence.argsort(stable=True)].split(steps.lengths.tolist())
        lost = (~trusted).nonzero()[:, 0].tolist()
        again = [log_partition_reference(together[sequence], *tables) for sequence in lost]
        value = torch.zeros_like(value).index_copy(0, trusted.nonzero()[:, 0], kept)
        value = value.index_copy(0, (~trusted).nonzero()[:, 0], torch.stack(again))
    return value.to(unary.dtype)


def path_scores(
    unary: Rows, near: Table, far: Table, path: Int[Tensor, " r"], steps: Steps
) -> Float[Tensor, " r"]:
    """The score of each row's state on a path, and of the steps into it."""
    own = chain_sums.row_scores(unary, near, path, steps)
    second = steps.sizes[1] if len(steps.sizes) > 1 else 0
    later = slice(steps.starting + second, None)  # the rows with two rows before them
    before = steps.previous[second:]
    far_back = steps.previous[before - steps.starting]
    return own.index_add(
        0, torch.arange(len(path), device=path.device)[later], far[path[far_back], path[later]]
    )


def log_partition_reference(
    unary: Float[Tensor, "n s"], near: Table, far: Table
) -> Float[Tensor, ""]:
    """log Z of one sequence in log space: the plain twin."""
    pairs = unary.new_zeros(1, 1)  # state before, state
    for place, own in enumerate(unary):
        arrived = safe_logsumexp(pairs.unsqueeze(2) + _beyond(far, place).unsqueeze(1), 0)
        pairs = arrived + own + (near if place else 0.0)
    return safe_logsumexp(pairs.flatten(), 0)


def _scaled(
    unary: Rows, near: Table, far: Table, steps: Steps
) -> tuple[PerSequence, Bool[Tensor, " b"]]:
    """log Z in linear space, and for which sequences float range was surely enough."""
    value, lost = _ScaledSum.apply(unary, near, far, steps)  # type: ignore[no-untyped-call]
    return value, (lost < MOST_LOST) & value.detach().isfinite()


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The recursion over pairs of states, scaled: what the way back needs."""

    pairs: list[Tensor]  # by step: sequences, state before, state
    scale: Float[Tensor, " r"]
    weight: Rows
    beside: Table
    beyond: Table
    shifts: tuple[Tensor, Tensor, Tensor]  # of rows, and of both tables

    @classmethod
    def of(cls, unary: Rows, near: Table, far: Table, steps: Steps) -> _Pairs:
        shifts = _finite(unary.amax(dim=1)), _finite(near.amax()), _finite(far.amax())
        weight = (unary - shifts[0].unsqueeze(1)).exp_()
        beside, beyond = (near - shifts[1]).exp_(), (far - shifts[2]).exp_()
        pairs: list[Tensor] = []
        scale = torch.ones_like(shifts[0])
        for t, rows in enumerate(steps.slices):
            own = weight[rows].unsqueeze(1)
            if t:
                reached = pairs[-1][: steps.sizes[t]].mT
                # The first step has no state two places before it.
                own = own * beside * (reached @ beyond if t > 1 else reached)
            scale[rows] = own.sum(dim=(1, 2))
            pairs.append(own / scale[rows].view(-1, 1, 1))
        return cls(pairs, scale, weight, beside, beyond, shifts)

    def log_partition(self, steps: Steps) -> tuple[PerSequence, PerSequence]:
        """log Z, and how far what was lost on the way may have grown."""
        logs = self.scale.log()
        taken = [(steps.lengths - far_back).clamp_min(0) for far_back in (1, 2)]
        value = steps.totals(logs + self.shifts[0])
        value += taken[0] * self.shifts[1] + taken[1] * self.shifts[2]
        # No weight exceeds 1, so nothing that was lost could have grown by more than all 1 / scale.
        return value, steps.totals(-logs.clamp(max=0.0)).nan_to_num(nan=torch.inf)

    def back(self, steps: Steps, amount: PerSequence) -> Iterator[tuple[int, Tensor, Tensor]]:
        """From the last step on: P(state before, state), and what triples are made of.

        P(first, state before, state) = pairs of the step before * beyond * what is given third;
        each sequence counts so many times.
        """
        onward = self.beside.new_zeros(0)
        for t in range(len(steps.sizes) - 1, -1, -1):
            rows, pairs = steps.slices[t], self.pairs[t]
            ending = amount[steps.order[len(onward) : steps.sizes[t]]].view(-1, 1, 1)
            ending = ending.expand(-1, *pairs.shape[1:])
            onward = torch.cat([onward, ending]) if len(onward) else ending
            moved = onward * self.beside * (self.weight[rows] / self.scale[rows, None]).unsqueeze(1)
            yield t, pairs * onward, moved
            onward = (moved @ self.beyond.t()).mT if t > 1 else moved.sum(dim=2).unsqueeze(1)


class _ScaledSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, unary: Tensor, near: Tensor, far: Tensor, steps: Steps
    ) -> tuple[Tensor, Tensor]:
        ctx.steps, ctx.found = steps, _Pairs.of(unary, near, far, steps)
        value, lost = ctx.found.log_partition(steps)
        ctx.mark_non_differentiable(lost)
        return value, lost

    @staticmethod
    @once
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        steps, found = ctx.steps, ctx.found
        single = torch.empty_like(found.weight)
        near, far = torch.zeros_like(found.beside), torch.zeros_like(found.beyond)
        for t, chance, moved in found.back(steps, outputs[0]):
            single[steps.slices[t]] = chance.sum(dim=1)
            if t:
                near += chance.sum(dim=0)
            if t > 1:
                before = found.pairs[t - 1][: len(moved)]
                far += torch.tensordot(before, moved, dims=([0, 2], [0, 1]))
        return single, near, far.mul_(found.beyond), None


def _finite(values: Tensor) -> Tensor:
    return values.nan_to_num(neginf=0.0)


def entropy(unary: Rows, near: Table, far: Table, steps: Steps) -> PerSequence:
    """log Z minus the expected score, of each sequence; -inf where nothing is possible."""
    own, near, far = (part.detach().double() for part in (unary, near, far))
    with torch.no_grad():
        found = _Pairs.of(own, near, far, steps)
        value, lost = found.log_partition(steps)
        beside, beyond = (table.masked_fill(table == -torch.inf, 0.0) for table in (near, far))
        beyond = found.beyond * beyond
        expected = torch.zeros_like(found.scale)
        for t, chance, moved in found.back(steps, torch.ones_like(value)):
            rows, single = steps.slices[t], chance.sum(dim=1)
            expected[rows] = torch.where(single > 0, single * own[rows], 0.0).sum(dim=1)
            if t:
                expected[rows] += (chance * beside).sum(dim=(1, 2))
            if t > 1:
                before = found.pairs[t - 1][: len(moved)].mT
                expected[rows] += (before @ beyond * moved).sum(dim=(1, 2))
        result = value - steps.totals(expected)
    for sequence in (~((lost < MOST_LOST) & value.isfinite())).nonzero()[:, 0].tolist():
        rows = (steps.sequence == sequence).nonzero()[:, 0]
        leaves = [part.clone().requires_grad_(True) for part in (own[rows], near, far)]
        with torch.enable_grad():
            again = log_partition_reference(*leaves)
        chances = torch.autograd.grad(again, leaves, allow_unused=True, materialize_grads=True)
        spent = (
            torch.where(chance > 0, chance * part, 0.0).sum()
            for chance, part in zip(chances, leaves, strict=True)
        )
        result[sequence] = (again - sum(spent)).detach()
    return result.to(unary.dtype)


# The best assignments of chains in which each state also meets the one two places before it.


def viterbi(
    unary: Rows, near: Table, far: Table, steps: Steps
) -> tuple[Int[Tensor, " r"], PerSequence]:
    """A best state for each row and the score of each sequence."""
    best = _forward(unary, near, far, steps, torch.amax)
    return _retrace(best, far, steps) if best else (steps.rank, unary.new_zeros(len(steps.lengths)))


def _forward(
    unary: Rows, near: Table, far: Table, steps: Steps, reduce: Callable[..., Tensor]
) -> list[Float[Tensor, "k a s"]]:
    """The best (or log-sum) of all beginnings by their last two states, step by step."""
    found: list[Tensor] = []
    for t, rows in enumerate(steps.slices):
        own = unary[rows].unsqueeze(1)
        if t:
            own = own + near + _moved(found[-1][: steps.sizes[t]], _beyond(far, t), reduce)
        found.append(own)
    return found


def sample(
    unary: Rows, near: Table, far: Table, steps: Steps, count: int, generator: torch.Generator
) -> Int[Tensor, "d r"]:
    """Independent draws of all rows; where nothing is possible the states mean nothing."""
    alpha = _forward(unary, near, far, steps, torch.logsumexp)
    drawn = torch.zeros(count, len(unary), dtype=torch.int64, device=unary.device)
    pair = drawn.new_zeros(count, len(steps.lengths), 2)
    sizes = (*steps.sizes, 0)
    for t in range(len(steps.sizes) - 1, -1, -1):
        going, size = sizes[t + 1], sizes[t]
        if going:
            before, here = pair[:, :going].unbind(dim=2)
            row = torch.arange(going, device=far.device)
            came = alpha[t][row, :, before] + _beyond(far, t + 1).t()[here]
            pair[:, :going] = torch.stack([_drawn(came, generator), before], dim=2)
        if size > going:
            ending = alpha[t][going:].flatten(1).expand(count, -1, -1)
            found = torch.unravel_index(_drawn(ending, generator), alpha[t].shape[1:])
            pair[:, going:size] = torch.stack(found, dim=2)
        drawn[:, steps.slices[t]] = pair[:, :size, 1]
    return drawn


def _drawn(logits: Tensor, generator: torch.Generator) -> Int[Tensor, "*k"]:
    """A draw for each row: the largest of log p + Gumbel noise."""
    noise = torch.empty_like(logits).exponential_(generator=generator)
    return (logits - noise.log()).argmax(dim=-1)


def _retrace(best: list[Tensor], far: Table, steps: Steps) -> tuple[Int[Tensor, " r"], PerSequence]:
    states, scores = torch.zeros_like(steps.rank), far.new_zeros(len(steps.lengths))
    sizes = (*steps.sizes, 0)
    pair = states.new_zeros(len(steps.lengths), 2)
    for t in range(len(steps.sizes) - 1, -1, -1):
        # Where a path came from is worked out only for the states it visits, not kept for all.
        going, size = sizes[t + 1], sizes[t]
        if going:
            before, here = pair[:going].unbind(dim=1)
            row = torch.arange(going, device=far.device)
            came = best[t][row, :, before] + _beyond(far, t + 1)[:, here].t()
            pair[:going] = torch.stack([came.argmax(dim=1), before], dim=1)
        if size > going:
            scores[steps.order[going:size]], index = best[t][going:].flatten(1).max(dim=1)
            found = torch.unravel_index(index, best[t].shape[1:])
            pair[going:size] = torch.stack(found, dim=1)
        states[steps.slices[t]] = pair[:size, 1]
    return states, scores


def _beyond(far: Table, t: int) -> Float[Tensor, "a s"]:
    """The far table of the step to t; the first step has no state two places before it."""
    return far if t > 1 else far.new_zeros(1, len(far))


def _moved(
    before: Float[Tensor, "k a s"], far: Float[Tensor, "a s"], reduce: Callable[..., Tensor]
) -> Float[Tensor, "k s s"]:
    """The best (or log-sum) of the ways into each pair of states."""
    size = max(1, chain_search.LARGEST_BLOCK // (far.numel() * before.shape[2]))
    moved = [reduce(own.unsqueeze(3) + far.unsqueeze(1), dim=1) for own in before.split(size)]
    return torch.cat(moved)


def n_best(
    unary: Rows, near: Table, far: Table, steps: Steps, count: int
) -> tuple[Int[Tensor, "r m"], Float[Tensor, "b m"]]:
    """The `count` best assignments of each sequence, best first, and their scores.

    Where there are fewer, the rest score -inf and their states mean nothing.
    """
    states = unary.shape[1]
    best = unary.new_full((len(unary), states, states, count), -torch.inf)
    came_from = torch.zeros(best.shape, dtype=torch.int64, device=unary.device)
    middle = torch.arange(states, device=unary.device)[:, None, None]
    for t, rows in enumerate(steps.slices):
        if not t:
            best[rows, 0, :, 0] = unary[rows]
            continue
        beyond = _beyond(far, t)
        lists = best[steps.slices[t - 1]][: steps.sizes[t], : len(beyond)].transpose(1, 2)
        origin = came_from[rows]
        chain_search.advance(
            lists.flatten(0, 1), beyond, best[rows].flatten(0, 1), origin.flatten(0, 1)
        )
        best[rows] += (near + unary[rows].unsqueeze(1)).unsqueeze(3)
        # Of (first, place) the pair (first, middle) and the place in its list.
        origin += (origin // count * (states - 1) + middle) * count
    paths, scores = chain_search.trace(best.flatten(1, 2), came_from.flatten(1, 2), steps)
    return paths % states, scores.double()

"""What a marginal field inherits from the variables that were summed out.

Summing out a connected set of variables joins all variables that it touches in one new clique.  So
the structure of the marginal over a neighbourhood follows from the connected components of the rest
of the graph.  They are looked for close by first, for all neighbourhoods at once: on a lattice the
rest is one piece, and that shows within a few steps.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrflearn.graph.incidence import Incidence, Integers, distinct_rows

# How many variables may be visited, in all, to tell apart pieces that do not meet close by.  Pieces
# that are not told apart are taken as one, which adds terms and keeps the estimate consistent
# [Mizrahi 2014, after Proposition 4].
VISITS = 20_000_000
LEAST_VISITS = 64


def inherited_cliques(known: Incidence, inside: Integers) -> Integers:
    """For each neighbourhood (q, n) the cliques (q, k) that the outside leaves, as bit masks.

    Bit i stands for the variable in column i; rows are padded with 0.
    """
    near = _Near.around(known, inside)
    labels = near.components()
    masks, is_open = near.summary(labels)
    unsettled = np.nonzero(is_open.sum(axis=1) > 1)[0]
    reach = max(LEAST_VISITS, VISITS // max(1, len(unsettled)))
    for row in unsettled:
        _settle(known, near, labels[row], masks[row], is_open[row], int(row), reach)
    masks = -np.sort(-masks, axis=1)
    return masks[:, : int((masks > 0).sum(axis=1).max(initial=0))]


@dataclass(frozen=True, eq=False)
class _Near:
    """The variables outside each neighbourhood, up to two steps away from it."""

    inside: Integers  # (q, n) padded
    ball: Integers  # (q, b) padded, rows ascending
    links: Integers  # (q, b, d) places of each one's neighbours in the ball; b where there is none
    touches: Integers  # (q, b) bit mask: which of the inside it is joined to
    leads_away: NDArray[np.bool_]  # (q, b) joined to something neither inside nor in the ball

    @classmethod
    def around(cls, known: Incidence, inside: Integers) -> _Near:
        none, count = known.variables, len(inside)
        ball = np.zeros((count, 0), dtype=np.int64)
        frontier = inside
        for _ in range(2):
            reached = known.neighbours_of[frontier].reshape(count, -1)
            joined = np.concatenate([ball, reached], axis=1)
            joined[_position(inside, joined, none) >= 0] = none
            ball = frontier = distinct_rows(joined, none)
        beyond = known.neighbours_of[ball]
        flat = beyond.reshape(count, -1)
        at = _position(ball, flat, none).reshape(beyond.shape)
        bit = _position(inside, flat, none).reshape(beyond.shape)
        touches = np.bitwise_or.reduce(np.where(bit >= 0, 1 << np.maximum(bit, 0), 0), axis=2)
        away = ((beyond < none) & (at < 0) & (bit < 0)).any(axis=2)
        links = np.where(at < 0, ball.shape[1], at)
        return cls(inside, ball, links, touches.astype(np.int64), np.asarray(away))

    def components(self) -> Integers:
        """A label for every variable of the ball: the first place that it is connected to."""
        count, width = self.ball.shape
        labels = np.tile(np.arange(width + 1), (count, 1))
        rows = np.arange(count)[:, None, None]
        while True:
            least = np.minimum(labels[:, :-1], labels[rows, self.links].min(axis=2, initial=width))
            # Following labels of labels halves the way at each turn.
            least = np.take_along_axis(least, least, axis=1)
            if np.array_equal(least, labels[:, :-1]):
                return least
            labels[:, :-1] = least

    def summary(self, labels: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """What each component touches inside, and whether it goes on beyond the ball."""
        masks = np.zeros_like(labels)
        rows = np.broadcast_to(np.arange(len(labels))[:, None], labels.shape)
        np.bitwise_or.at(masks, (rows, labels), self.touches)
        is_open = np.zeros(labels.shape, dtype=bool)
        np.logical_or.at(is_open, (rows, labels), self.leads_away)
        return masks, is_open


def _position(rows: Integers, wanted: Integers, none: int) -> Integers:
    """The column of each row's entry among that row's `rows`; -1 where it is not there."""
    order = np.argsort(rows, axis=1)
    offset = np.arange(len(rows))[:, None] * (none + 1)
    ordered = (np.take_along_axis(rows, order, axis=1) + offset).ravel()
    if not len(ordered):
        return np.full(wanted.shape, -1)
    key = wanted + offset
    place = np.minimum(np.searchsorted(ordered, key), len(ordered) - 1)
    found = (ordered[place] == key) & (wanted < none)
    return np.where(found, order.ravel()[place], -1)


def _settle(
    known: Incidence,
    near: _Near,
    labels: Integers,
    masks: Integers,
    is_open: NDArray[np.bool_],
    row: int,
    reach: int,
) -> None:
    """Merges, in `masks`, the open components of one row that meet farther away."""
    none = known.variables
    blocked = set(near.inside[row].tolist()) | {none}
    home = {int(v): int(k) for v, k in zip(near.ball[row], labels, strict=True) if v < none}
    waiting = np.nonzero(is_open)[0].tolist()
    visits = reach
    while len(waiting) > 1 and visits > 0:
        first = waiting.pop(0)
        queue = deque(v for v, k in home.items() if k == first)
        seen = blocked | set(queue)
        while queue and waiting and visits > 0:
            for other in known.neighbours_of[queue.popleft()].tolist():
                if other not in seen:
                    seen.add(other)
                    queue.append(other)
                    visits -= 1
                    met = home.get(other, first)
                    if met in waiting:
                        waiting.remove(met)
                        masks[first] |= masks[met]
                        masks[met] = 0
        if queue and waiting:  # the search ended early: take the rest as one with it
            waiting.append(first)
    for left in waiting[1:] if visits <= 0 else ():
        masks[waiting[0]] |= masks[left]
        masks[left] = 0

"""Messages between variables and factors: their layout, and parallel updates.

Unary factors send no messages, as theirs never change: they are part of the variables' bias.

One form serves belief propagation and its tree-reweighted kin: with an appearance probability rho
for every factor, m is raised to the power rho where a variable collects it, and tables are divided
by rho [Wainwright, Jaakkola and Willsky 2005, eq. 39].  Plain belief propagation has rho = 1.

A message's range is at most that of its factor's table, so one look at the tables tells whether any
product of messages can leave the range of floating-point numbers.  Where none can, messages are
held as differences to the first state, which then needs no entry, and tables are exponentiated
once.  A message of s states costs s - 1 exponentials and logarithms instead of s * s: the sweep of
a binary grid takes a third of the time, that of many states far less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.parts import sparse_graph
from mrflearn.graph.potentials import Potentials

# torch.logsumexp for sum-product, torch.amax for max-product: both called as (tensor, dim).
Reduction = Callable[[Tensor, int], Tensor]

# Arithmetic of tables and messages in log space.  The last axis always runs over factors (f):
# reductions run over states (s), and two or three long contiguous rows are added some three times
# faster than thousands of rows of two or three numbers.


def along(inbox: Float[Tensor, "s f"], axis: int, axes: int) -> Tensor:
    """A view of (s, f) that lines up with `axis` of a table of so many axes, factors last."""
    states, factors = inbox.shape
    return inbox.reshape(states, *[1] * (axes - axis - 2), factors)


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


# Where messages lie: index arrays that lay all states, and all messages, of a graph end to end.


@dataclass(frozen=True, eq=False)
class Blocks:
    """How messages lie end to end: a block (states, factors) for every axis of every sender."""

    shapes: list[list[tuple[int, int]]]
    sizes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        sizes = [states * factors for axes in self.shapes for states, factors in axes]
        object.__setattr__(self, "sizes", sizes)

    def split(self, entries: Tensor) -> list[list[Tensor]]:
        """Views of message entries, for every sender, for every axis."""
        pieces = iter(entries.split(self.sizes))
        return [[next(pieces).view(block) for block in axes] for axes in self.shapes]


@dataclass(frozen=True, eq=False)
class Wiring:
    """Index arrays of a graph, built once and shared by all sweeps.

    Messages lie group by group, in a group axis by axis, in an axis state by state; so the
    messages on one axis are a contiguous (s, f) block.  `place` says which state of which variable
    each entry is about, counted along all states of all variables.
    """

    graph: FactorGraph
    senders: tuple[int, ...]  # the groups that send messages
    blocks: Blocks
    place: Int[Tensor, " m"]

    @classmethod
    def of(cls, graph: FactorGraph) -> Wiring:
        """The wiring of a graph."""
        start = graph.states.cumsum(0) - graph.states
        senders = tuple(i for i, group in enumerate(graph.groups) if len(group) and group.arity > 1)
        shapes, place = [], [start.new_empty(0)]
        for group in (graph.groups[i] for i in senders):
            shapes.append([(states, len(group)) for states in graph.shape(group)])
            for axis, (states, _) in enumerate(shapes[-1]):
                state = torch.arange(states, device=graph.device).unsqueeze(1)
                place.append((start[group.scope[:, axis]] + state).reshape(-1))
        return cls(graph, senders, Blocks(shapes), torch.cat(place))

    def spread(self, per_factor: list[Float[Tensor, " f"]]) -> Float[Tensor, " m"]:
        """One number a factor (a vector for each sender), repeated at all its message entries."""
        rows = zip(per_factor, self.blocks.shapes, strict=True)
        spread = [values.repeat(sum(states for states, _ in axes)) for values, axes in rows]
        return torch.cat(spread) if spread else torch.empty(0, device=self.graph.device)

    def padded(self, flat: Float[Tensor, " n"], fill: float) -> Float[Tensor, "v s"]:
        """All states as one row a variable, `fill` beyond its own states."""
        legal = self.graph.legal()
        return flat.new_full(legal.shape, fill).masked_scatter_(legal, flat)

    def bias(self, potentials: Potentials) -> Float[Tensor, " n"]:
        """The sum of its unary factors' scores for every state of every variable."""
        graph = self.graph
        start = graph.states.cumsum(0) - graph.states
        size = int(graph.states.sum())
        total = torch.zeros(size, dtype=potentials.dtype, device=graph.device)
        for index, group in enumerate(graph.groups):
            if len(group) and group.arity == 1:
                scores = potentials.factor_scores(index).detach()
                state = torch.arange(scores.shape[1], device=graph.device)
                place = start[group.scope] + state
                total.scatter_add_(0, place.reshape(-1), scores.reshape(-1))
        return total

    def tables(self, potentials: Potentials) -> list[Float[Tensor, "*shape f"]]:
        """The scores of every sender's factors, factors last."""
        return [
            potentials.factor_scores(index).detach().movedim(0, -1).contiguous()
            for index in self.senders
        ]


def real_links(graph: FactorGraph) -> tuple[Int[np.ndarray, " l"], Int[np.ndarray, " l"], int]:
    """(variable, factor) of every link to a variable with a choice, and the number of factors.

    Factors of all groups are counted in one row.  A variable of one state carries no information,
    so paths through it are no cycles.
    """
    variables, factors, first = [], [], 0
    choice = (graph.states > 1).cpu().numpy()
    for group in graph.groups:
        scope = group.scope.cpu().numpy()
        real = choice[scope] if len(group) else np.zeros(scope.shape, dtype=bool)
        variables.append(scope[real])
        factors.append(np.nonzero(real)[0] + first)
        first += len(group)
    empty = np.empty(0, dtype=np.int64)
    return np.concatenate([empty, *variables]), np.concatenate([empty, *factors]), first


def is_forest(graph: FactorGraph) -> bool:
    """Whether the factor graph has no cycle, not counting paths through one-state variables."""
    variables, factors, count = real_links(graph)
    size = graph.variables + count
    links = sparse_graph(np.ones(len(factors)), variables, factors + graph.variables, size)
    pieces, _ = connected_components(links, directed=False)
    return bool(len(factors) == size - pieces)


# The numbers that message passing reads, and one sweep over them in log space.


@dataclass(frozen=True, eq=False)
class Field:
    """The numbers that message passing reads, laid out for it."""

    wiring: Wiring
    bias: Float[Tensor, " n"]
    tables: list[Float[Tensor, "*shape f"]]  # divided by rho
    appearance: Float[Tensor, " m"] | None = None  # rho of the factor of every entry; None: all 1

    def start(self, messages: Float[Tensor, " m"] | None) -> Float[Tensor, " m"]:
        """Uniform log-messages, or a copy of the given ones, in the order of `Wiring`.

        What was ruled out in an earlier field may be possible in this one, so -inf begins as 0; a
        state that is still ruled out is found out in the first sweep.
        """
        size = len(self.wiring.place)
        if messages is None:
            return self.bias.new_zeros(size)
        if messages.shape != (size,):
            raise InferenceError(
                f"the starting messages have {messages.numel()} entries, this graph's {size}. "
                "Messages can be used again on the graph they came from only."
            )
        return messages.to(self.bias).masked_fill(messages == -torch.inf, 0.0)

    def totals(self, messages: Float[Tensor, " m"]) -> Float[Tensor, " n"]:
        """The unnormalised log-beliefs of all states of all variables."""
        if self.appearance is not None:
            messages = messages * self.appearance
        return self.bias.clone().scatter_add_(0, self.wiring.place, messages)

    def inboxes(self, messages: Float[Tensor, " m"]) -> list[list[Float[Tensor, "s f"]]]:
        """What each variable tells each factor, for every sender and axis.

        The variable's total without that factor's own message.  -inf minus -inf is -inf: a state
        that one factor rules out is out for all of them.
        """
        inbox = self.totals(messages).index_select(0, self.wiring.place).sub_(messages)
        inbox.nan_to_num_(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        return self.wiring.blocks.split(inbox)

    @cached_property
    def floor(self) -> float | None:
        """The lowest finite entry of a message; None where tables rule nothing out.

        A message on a tree compares sums over assignments of its factors, and two such sums differ
        by no more than the ranges of all finite scores and the logarithm of the number of
        assignments.  Without -inf a message keeps within the range of its own table.  With it, a
        message that goes round a loop may tend to -inf, faster with every sweep, which no tree
        could tell from the floor.
        """
        scores = [self.bias, *self.tables]
        if not any(bool((own == -torch.inf).any()) for own in scores):
            return None
        reach = torch.log(self.wiring.graph.states.to(self.bias)).sum()
        flat = [
            self.wiring.padded(self.bias, torch.nan).T,
            *(t.flatten(0, -2) for t in self.tables),
        ]
        for own in flat:
            finite = own.isfinite()
            top = own.masked_fill(~finite, -torch.inf).amax(0)
            bottom = own.masked_fill(~finite, torch.inf).amin(0)
            reach = reach + torch.where(finite.any(0), top - bottom, 0.0).sum()
        return -float(reach)

    def rounding(self) -> float:
        """A residual below which messages differ by rounding only."""
        largest = [
            t.nan_to_num(neginf=0.0).abs().max() for t in [*self.tables, self.bias] if len(t)
        ]
        scale = max(map(float, largest), default=1.0)
        return 16 * torch.finfo(self.bias.dtype).eps * max(scale, 1.0)


# A sweep computes all messages again, in whatever form suits the arithmetic: `encode` takes
# log-messages to that form, and `decode` back, with 0 as their largest entries.


@dataclass(frozen=True, eq=False)
class LogSweep:
    """For every field: sums of exponentials, or maxima, of log-scores."""

    field: Field
    reduce: Reduction

    @property
    def blocks(self) -> Blocks:
        return self.field.wiring.blocks

    def encode(self, messages: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
        return messages

    def __call__(self, messages: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
        sent: list[Tensor] = []
        for table, inboxes in zip(self.field.tables, self.field.inboxes(messages), strict=True):
            fresh = (send(table, inboxes, axis, self.reduce) for axis in range(len(inboxes)))
            sent.extend(normalise(message).reshape(-1) for message in fresh)
        messages, floor = torch.cat(sent), self.field.floor
        if floor is None:
            return messages
        return messages.clamp(min=floor).masked_fill_(messages == -torch.inf, -torch.inf)

    def decode(self, messages: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
        return messages


# Sum-product sweeps of soft fields: no entry impossible, no score extreme.


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
        """The messages, as weights, not normalised.

        Slices of a table are added up, the first weighing 1 and each other one its share: a handful
        of long rows is added fastest one by one.
        """
        message = _weighted_sum(self.slices, self.steps[0][1])
        for axis, shares in self.steps[1:]:
            message = _weighted_sum(message.unbind(axis), shares)
        return message


def _weighted_sum(slices: Sequence[Tensor], shares: Sequence[Tensor]) -> Tensor:
    total = slices[0]
    for row, share in zip(slices[1:], shares, strict=True):
        total = torch.addcmul(total, row, share)
    return total


@dataclass(frozen=True, eq=False)
class SoftSweep:
    """All that sweeps need, relative to each variable's first state.

    Letters: q: message entries without those of first states; n: states likewise.
    """

    blocks: Blocks
    bias: Float[Tensor, " n"]
    place: Int[Tensor, " q"]
    inbox: Float[Tensor, " q"]  # scratch space, which `directions` look into
    directions: list[Direction]
    appearance: Float[Tensor, " q"] | None
    limit: Float[Tensor, " q"]  # how far an entry can be from 0: the range of its table
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

    def encode(self, messages: Float[Tensor, " m"]) -> Float[Tensor, " q"]:
        relative = [b - b[:1] for axes in self.full.split(messages) for b in axes]
        entries = torch.cat([messages.new_empty(0), *(b[1:].reshape(-1) for b in relative)])
        return entries.clamp_(-self.limit, self.limit)

    def __call__(self, messages: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        heard = messages if self.appearance is None else messages * self.appearance
        total = self.bias.clone().scatter_add_(0, self.place, heard)
        torch.index_select(total, 0, self.place, out=self.inbox)
        self.inbox.sub_(messages).exp_()
        sent = [direction.send() for direction in self.directions]
        return torch.cat([(m[1:] / m[:1]).view(-1) for m in sent]).log_()

    def decode(self, messages: Float[Tensor, " q"]) -> Float[Tensor, " m"]:
        blocks = [b for axes in self.blocks.split(messages) for b in axes]
        whole = (torch.cat([b.new_zeros(1, b.shape[1]), b]) for b in blocks)
        return torch.cat([messages.new_empty(0), *(normalise(b).reshape(-1) for b in whole)])


def _ranges(field: Field) -> list[Float[Tensor, " f"]]:
    """The difference between the largest and the smallest entry of every factor's table."""
    flat = [table.flatten(0, -2) for table in field.tables]
    return [rows.amax(0) - rows.amin(0) for rows in flat]


def _without_first(blocks: Blocks, entries: Tensor) -> Tensor:
    """The entries that are not about a variable's first state."""
    rest = [block[1:].reshape(-1) for axes in blocks.split(entries) for block in axes]
    return torch.cat([entries.new_empty(0), *rest])

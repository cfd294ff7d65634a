"""Messages between variables and factors: their layout, and parallel updates.

Unary factors send no messages, as theirs never change: they are part of the variables' bias.

One form serves belief propagation and its tree-reweighted variant: each factor has an appearance
probability rho, m is raised to the power rho where a variable collects it, and tables are divided
by rho [Wainwright, Jaakkola and Willsky 2005, eq. 39].  Plain belief propagation has rho = 1.

A message's range is at most that of its factor's table, so one look at the tables shows whether any
product of messages can leave the range of floating-point numbers.  Where none can, messages are
held as differences to the first state, which then needs no entry, and tables are exponentiated
once.  A message of s states costs s - 1 exponentials and logarithms instead of s * s: the sweep of
a binary grid takes a third of the time, that of many states far less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from mrflearn.errors import InferenceError
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.parts import sparse_graph
from mrflearn.graph.potentials import Potentials

# torch.logsumexp for sum-product, torch.amax for max-product: both called as (tensor, dim).
Reduction = Callable[[Tensor, int], Tensor]
FactorTables = Float[Tensor, "*shape f"]
Shapes = list[list[tuple[int, int]]]  # (states, factors) of every axis of every sender

# Arithmetic of tables and messages in log space.  The last axis always runs over factors (f):
# reductions run over states (s), and two or three long contiguous rows are added some three times
# faster than thousands of rows of two or three numbers.


def along(inbox: Float[Tensor, "s f"], axis: int, axes: int) -> Tensor:
    """A view of (s, f) that lines up with `axis` of a table of so many axes, factors last."""
    states, factors = inbox.shape
    return inbox.reshape(states, *[1] * (axes - axis - 2), factors)


def send(
    table: FactorTables, inboxes: Sequence[Float[Tensor, "_ f"]], axis: int, reduce: Reduction
) -> Float[Tensor, "s f"]:
    """The messages to the variables on one axis, not yet normalised.

    The other axes are reduced one at a time, from the last, so only the first step is of full size.
    """
    for other in reversed(range(len(inboxes))):
        if other != axis:
            table = reduce(table + along(inboxes[other], other, table.ndim), other)
    return table


def joint(table: FactorTables, inboxes: Sequence[Float[Tensor, "_ f"]]) -> FactorTables:
    """The factors' unnormalised log-beliefs: their tables plus all that their variables say."""
    for axis, inbox in enumerate(inboxes):
        table = table + along(inbox, axis, table.ndim)
    return table


def normalise(message: Float[Tensor, "s f"]) -> Float[Tensor, "s f"]:
    """The same messages with 0 as their largest entry; all -inf stays so."""
    peak = message.amax(0, keepdim=True)
    return message - peak.clamp_(min=torch.finfo(message.dtype).min)


def split(entries: Tensor, shapes: Shapes) -> list[list[Tensor]]:
    """Views of message entries, for every sender, for every axis."""
    pieces = iter(entries.split([states * factors for axes in shapes for states, factors in axes]))
    return [[next(pieces).view(block) for block in axes] for axes in shapes]


# Where messages lie, and the cycles that they may run in.


class Wiring(NamedTuple):
    """The groups that send messages, the shapes of their blocks, and what entries are about.

    Messages lie group by group, in a group axis by axis, in an axis state by state; so the
    messages on one axis are a contiguous (s, f) block.  `place` is variable times most states plus
    state of each entry.
    """

    senders: tuple[int, ...]
    shapes: Shapes
    place: Int[Tensor, " m"]


def wiring(graph: FactorGraph) -> Wiring:
    """The layout of the messages of a graph."""
    senders = tuple(i for i, group in enumerate(graph.groups) if len(group) and group.arity > 1)
    shapes, place = [], [torch.empty(0, dtype=torch.int64, device=graph.device)]
    for group in (graph.groups[i] for i in senders):
        shapes.append([(states, len(group)) for states in graph.shape(group)])
        for variable, (states, _) in zip(group.scope.T, shapes[-1], strict=True):
            state = torch.arange(states, device=graph.device).unsqueeze(1)
            place.append((variable * graph.most_states + state).reshape(-1))
    return Wiring(senders, shapes, torch.cat(place))


def real_links(graph: FactorGraph) -> tuple[Int[np.ndarray, " l"], Int[np.ndarray, " l"], int]:
    """(variable, factor) of every link to a variable with a choice, and the number of factors.

    Factors are numbered through all groups.
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


def bipartite(graph: FactorGraph) -> csr_array:
    """The links of `real_links` between the variables and, numbered after them, the factors."""
    variables, factors, count = real_links(graph)
    ends = variables, factors + graph.variables
    return sparse_graph(np.ones(len(factors)), *ends, graph.variables + count)


def is_forest(graph: FactorGraph) -> bool:
    """Whether the factor graph has no cycle, not counting paths through one-state variables."""
    links = bipartite(graph)
    pieces, _ = connected_components(links, directed=False)
    return bool(links.nnz == links.shape[0] - pieces)


# The numbers that message passing reads, and one sweep over them in log space.


@dataclass(frozen=True, eq=False)
class Field:
    """The numbers that message passing reads, in the layout of the messages."""

    graph: FactorGraph
    wiring: Wiring
    bias: Float[Tensor, "v s"]  # -inf beyond a variable's own states
    tables: list[FactorTables]  # divided by rho
    appearance: Float[Tensor, " m"] | None = None  # rho of the factor of every entry; None: all 1

    @classmethod
    def of(cls, potentials: Potentials, rho: Float[Tensor, " e"] | None = None) -> Field:
        """The field of potentials, and of appearance probabilities of all factors that send."""
        graph = potentials.graph
        own = graph.planned(wiring)
        bias = potentials.unary_scores().detach()
        tables = [
            potentials.factor_scores(index).detach().movedim(0, -1).contiguous()
            for index in own.senders
        ]
        if rho is None:
            return cls(graph, own, bias, tables)
        parts = rho.to(bias).split([table.shape[-1] for table in tables])
        tables = [table / part for table, part in zip(tables, parts, strict=True)]
        return cls(graph, own, bias, tables, _spread(parts, own.shapes))

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
                "Messages can be used again only on the graph they came from."
            )
        return messages.to(self.bias).masked_fill(messages == -torch.inf, 0.0)

    def totals(self, messages: Float[Tensor, " m"]) -> Float[Tensor, "v s"]:
        """The unnormalised log-beliefs of all states of all variables."""
        if self.appearance is not None:
            messages = messages * self.appearance
        total = self.bias.view(-1).scatter_add(0, self.wiring.place, messages)
        return total.view(self.bias.shape)

    def inboxes(self, messages: Float[Tensor, " m"]) -> list[list[Float[Tensor, "s f"]]]:
        """What each variable sends to each factor, for every sender and axis.

        The variable's total without that factor's own message.  -inf minus -inf is -inf: a state
        that one factor rules out is out for all of them.
        """
        inbox = self.totals(messages).view(-1).index_select(0, self.wiring.place).sub_(messages)
        if self.floor is not None:
            inbox.nan_to_num_(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        return split(inbox, self.wiring.shapes)

    @cached_property
    def floor(self) -> float | None:
        """The lowest finite entry of a message; None where tables rule nothing out.

        A message on a tree compares sums over assignments of its factors, and two such sums differ
        by no more than the ranges of all finite scores and the logarithm of the number of
        assignments.  Without -inf a message keeps within the range of its own table.  With it, a
        message that goes round a loop may tend to -inf, faster with every sweep, which no tree
        could tell from the floor.
        """
        scores = [self.bias[self.graph.legal()], *self.tables]
        if not any(bool((own == -torch.inf).any()) for own in scores):
            return None
        reach = torch.log(self.graph.states.to(self.bias)).sum()
        for own in (self.bias.T, *(table.flatten(0, -2) for table in self.tables)):
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


class Sweep(NamedTuple):
    """One parallel update of all messages, in whatever form suits the arithmetic.

    `encode` takes log-messages to that form, and `decode` back, with 0 as their largest entries.
    """

    shapes: Shapes
    encode: Callable[[Tensor], Tensor]
    update: Callable[[Tensor], Tensor]
    decode: Callable[[Tensor], Tensor]


def log_sweep(field: Field, reduce: Reduction) -> Sweep:
    """For every field: sums of exponentials, or maxima, of log-scores."""

    def update(messages: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
        sent: list[Tensor] = []
        for table, inboxes in zip(field.tables, field.inboxes(messages), strict=True):
            fresh = (send(table, inboxes, axis, reduce) for axis in range(len(inboxes)))
            sent.extend(normalise(message).reshape(-1) for message in fresh)
        messages, floor = torch.cat(sent), field.floor
        if floor is None:
            return messages
        return messages.clamp(min=floor).masked_fill_(messages == -torch.inf, -torch.inf)

    return Sweep(field.wiring.shapes, lambda messages: messages, update, lambda messages: messages)


# Sum-product sweeps of soft fields: no entry impossible, no score extreme.


# Sums of scores up to this share of the largest exponent are safe, and leave room for the sums.
SAFE_SHARE = 0.8


def is_soft(field: Field) -> bool:
    """Whether no product that a sweep can come across overflows or vanishes."""
    graph, largest = field.graph, math.log(torch.finfo(field.bias.dtype).max)
    low = field.bias.masked_fill(~graph.legal(), torch.inf).amin(1)
    around = field.bias.amax(1) - low  # the range of what a variable can say
    scopes = [graph.groups[index].scope for index in field.wiring.senders]
    ranges, rho = _ranges(field), field.appearance
    rows = None if rho is None else split(rho, field.wiring.shapes)
    for k, (scope, own) in enumerate(zip(scopes, ranges, strict=True)):
        reach = own if rows is None else own * rows[k][0][0]
        for variables in scope.T:
            around.index_add_(0, variables, reach)
    # Not below the limit where a table has -inf: the range is infinite, or not a number.
    reaches = (
        (around[scope] + own.unsqueeze(1)).sum(1) + own
        for scope, own in zip(scopes, ranges, strict=True)
    )
    return all(bool((reach < SAFE_SHARE * largest).all()) for reach in reaches)


def soft_sweep(field: Field) -> Sweep:
    """Sum-product of a soft field, relative to each variable's first state.

    Letters: q: message entries without those of first states.
    """
    full, most = field.wiring.shapes, field.bias.shape[1]
    shapes = [[(states - 1, factors) for states, factors in axes] for axes in full]
    bias = (field.bias[:, 1:] - field.bias[:, :1]).reshape(-1)
    place = _without_first(field.wiring.place, full)
    place = place - place.div(most, rounding_mode="floor") - 1
    rho = None if field.appearance is None else _without_first(field.appearance, full)
    # How far an entry can be from 0: the range of its table.
    limit = _without_first(_spread(_ranges(field), full), full).to(bias)
    inbox = torch.empty_like(place, dtype=bias.dtype)  # scratch space, which directions look into
    directions = [
        direction(torch.exp(table - table.flatten(0, -2).amax(0)), inboxes, axis)
        for table, inboxes in zip(field.tables, split(inbox, shapes), strict=True)
        for axis in range(len(inboxes))
    ]

    def encode(messages: Float[Tensor, " m"]) -> Float[Tensor, " q"]:
        relative = [b - b[:1] for axes in split(messages, full) for b in axes]
        entries = torch.cat([messages.new_empty(0), *(b[1:].reshape(-1) for b in relative)])
        return entries.clamp_(-limit, limit)

    def update(messages: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        total = bias.scatter_add(0, place, messages if rho is None else messages * rho)
        torch.index_select(total, 0, place, out=inbox)
        inbox.sub_(messages).exp_()
        sent = [send() for send in directions]
        return torch.cat([(m[1:] / m[:1]).view(-1) for m in sent]).log_()

    def decode(messages: Float[Tensor, " q"]) -> Float[Tensor, " m"]:
        blocks = [b for axes in split(messages, shapes) for b in axes]
        full_blocks = (torch.cat([b.new_zeros(1, b.shape[1]), b]) for b in blocks)
        return torch.cat([messages.new_empty(0), *(normalise(b).reshape(-1) for b in full_blocks)])

    return Sweep(shapes, encode, update, decode)


def direction(
    weight: FactorTables, inboxes: list[Float[Tensor, "_ f"]], axis: int
) -> Callable[[], Float[Tensor, "s f"]]:
    """Sends the messages of a group to one axis, as weights, not normalised.

    Axes are summed out one after the other, from the last.  Slices of a table are added up, the
    first weighing 1 and each other one its share: a handful of long rows is added fastest one by
    one.  Views of the table and of the inboxes are made once, here.
    """
    steps, axes = [], weight.ndim
    for other in reversed(range(len(inboxes))):
        if other != axis:
            steps.append((other, list(along(inboxes[other], other, axes).unbind(0))))
            axes -= 1
    slices, (_, first), later = list(weight.unbind(steps[0][0])), steps[0], steps[1:]

    def send() -> Float[Tensor, "s f"]:
        message = _weighted_sum(slices, first)
        for other, shares in later:
            message = _weighted_sum(message.unbind(other), shares)
        return message

    return send


def _weighted_sum(slices: Sequence[Tensor], shares: Sequence[Tensor]) -> Tensor:
    total = slices[0]
    for row, share in zip(slices[1:], shares, strict=True):
        total = torch.addcmul(total, row, share)
    return total


def _ranges(field: Field) -> list[Float[Tensor, " f"]]:
    """The difference between the largest and the smallest entry of every factor's table."""
    flat = [table.flatten(0, -2) for table in field.tables]
    return [rows.amax(0) - rows.amin(0) for rows in flat]


def _spread(per_factor: Sequence[Float[Tensor, " f"]], shapes: Shapes) -> Float[Tensor, " m"]:
    """One number per factor (a vector for each sender), repeated at all its message entries."""
    rows = zip(per_factor, shapes, strict=True)
    spread = [values.repeat(sum(states for states, _ in axes)) for values, axes in rows]
    return torch.cat(spread) if spread else torch.empty(0)


def _without_first(entries: Tensor, shapes: Shapes) -> Tensor:
    """The entries that are not about a variable's first state."""
    rest = [block[1:].reshape(-1) for axes in split(entries, shapes) for block in axes]
    return torch.cat([entries.new_empty(0), *rest])

"""Exact inference by elimination in a junction tree, planned once and evaluated in batches.

To the root and back [Lauritzen and Spiegelhalter 1988]; on the way back a message is what its
clique knows divided by what it was told [Jensen, Lauritzen and Olesen 1990].  The tables of cliques
are never kept, only messages are.

Cliques of one height in the tree, one shape and one pattern of inputs form a batch, over all
components of the graph, so that an evaluation takes a few tensor operations a batch.  A clique too
large for the processor's cache is a batch of its own and is worked on block by block.

Linear arithmetic is several times faster than arithmetic on logarithms, but products of very
unequal entries leave the range of floating point.  So each table knows its depth, the log-ratio of
its largest to its smallest positive entry; depths add up under multiplication, and where they
exceed `RANGE` the work is done on logarithms.

Letters in shapes: n: cliques (or packs) of one batch, always the first axis; c: components.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import ClassVar, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.execution.threads import one_thread
from mrflearn.graph.elimination import (
    BLOCK,
    Axes,
    EliminationPlan,
    Replicas,
    TooWide,
    find_plans,
)
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.beliefs import (
    Beliefs,
    Decoding,
    insist,
    insist_possible,
    with_gradient,
)
from mrflearn.kernels.table_algebra import (
    LOG_MAX_PRODUCT,
    LOG_SUM_PRODUCT,
    SUM_PRODUCT,
    Semiring,
    multiply,
    sum_out,
)

Numbers = NDArray[np.int64]

# Tables of non-negative numbers of any magnitude: in linear form where that is safe, else logs.


# A quotient of two such tables is still within the range of the type (e^708 and e^87).
RANGE = {torch.float64: 340.0, torch.float32: 40.0}
FEW_AXES = 8  # more than so many are worked on a few at a time, which takes longer to arrange
SMALL = 64  # entries of a table; stacks of such small ones are stored with n as the inner axis


@dataclass(frozen=True, eq=False)
class ScaledTable:
    """exp(scale) times the values (their exponentials, where `logs`), for each of n tables.

    The largest value of each is 1 (0, where `logs`) unless all its entries are impossible.
    """

    values: Float[Tensor, " n *sizes"]
    logs: bool
    depth: float
    scale: Float[Tensor, " n"]

    @classmethod
    def from_logs(cls, values: Float[Tensor, " n *sizes"]) -> ScaledTable:
        """The tables of the exponentials."""
        scale = _largest(values)
        centred = values - _spread(scale.clamp(min=torch.finfo(values.dtype).min), values)
        lowest = centred.amin()
        if bool(lowest == -torch.inf):
            lowest = torch.where(centred == -torch.inf, 0.0, centred).amin()
        depth = -float(lowest)
        logs = depth > RANGE[values.dtype]
        return cls(centred if logs else centred.exp_(), logs, depth, scale)

    @classmethod
    def from_linear(cls, values: Float[Tensor, " n *sizes"]) -> ScaledTable:
        """The tables of the values (taken over), none of them too small to be exact."""
        scale = _largest(values)
        values.div_(_spread(scale.clamp(min=torch.finfo(values.dtype).tiny), values))
        lowest = values.amin()
        if bool(lowest == 0):
            lowest = torch.where(values == 0, 1.0, values).amin()
        depth = -float(lowest.log())
        logs = depth > RANGE[values.dtype]
        return cls(values.log_() if logs else values, logs, depth, scale.log())

    @classmethod
    def of(cls, semiring: Semiring, values: Float[Tensor, " n *sizes"]) -> ScaledTable:
        """The tables whose values were computed in the given arithmetic."""
        return (cls.from_linear if semiring is SUM_PRODUCT else cls.from_logs)(values)

    def within(self, semiring: Semiring) -> Float[Tensor, " n *sizes"]:
        """The values as the given arithmetic takes them."""
        if semiring is SUM_PRODUCT:
            return self.values.exp() if self.logs else self.values
        return self.values if self.logs else self.values.log()


def safe_arithmetic(tables: Sequence[ScaledTable]) -> Semiring:
    """Linear arithmetic where the product of the tables cannot leave its range, else logs."""
    if any(table.logs for table in tables):
        return LOG_SUM_PRODUCT
    depth = sum(table.depth for table in tables)
    return SUM_PRODUCT if depth <= RANGE[tables[0].values.dtype] else LOG_SUM_PRODUCT


def _largest(values: Float[Tensor, " n *sizes"]) -> Float[Tensor, " n"]:
    if len(values) == 1:  # much faster than a maximum along an axis
        return values.max().reshape(1)
    return values.amax(tuple(range(1, values.ndim))) if values.ndim > 1 else values.clone()


def _spread(scale: Float[Tensor, " n"], values: Float[Tensor, " n *sizes"]) -> Tensor:
    return scale.reshape(-1, *[1] * (values.ndim - 1))


def _divide(arithmetic: Semiring, total: Tensor, part: Tensor) -> Tensor:
    """The total without the part that is in it; zero wherever the total is, so 0 / 0 is 0."""
    limits = torch.finfo(part.dtype)
    if arithmetic is SUM_PRODUCT:
        return total / part.clamp(min=limits.tiny)
    return total - part.clamp(min=limits.min)


def _probabilities(arithmetic: Semiring, total: Float[Tensor, " n *sizes"]) -> Tensor:
    """Each table normalised; all zero for one without possibilities."""
    limits, axes = torch.finfo(total.dtype), tuple(range(1, total.ndim))
    if arithmetic is not SUM_PRODUCT:
        total = (total - total.amax(axes, keepdim=True).clamp(min=limits.min)).exp_()
    return total / total.sum(axes, keepdim=True).clamp(min=limits.tiny)


# The plan: which cliques are worked on together, and where their inputs come from.


@dataclass(frozen=True, eq=False)
class Pieces:
    """Where n tables lie: rows of earlier stacks (None: all), end to end, and then in order."""

    parts: tuple[tuple[int, Int[Tensor, " m"] | None], ...]
    order: Int[Tensor, " n"] | None

    @classmethod
    def of(cls, places: Numbers, sizes: Sequence[int], device: torch.device) -> Pieces:
        """The tables at the (stack, row) given, in stacks of the given sizes."""
        stack, row = places.T
        by_stack = np.argsort(stack, kind="stable")
        numbers, starts = np.unique(stack[by_stack], return_index=True)
        parts = []
        for number, places in zip(numbers.tolist(), np.split(by_stack, starts[1:]), strict=True):
            whole = np.array_equal(row[places], np.arange(sizes[number]))
            rows = None if whole else torch.as_tensor(row[places], device=device)
            parts.append((number, rows))
        order = np.argsort(by_stack, kind="stable")
        sorted_ = np.array_equal(order, np.arange(len(order)))
        return cls(tuple(parts), None if sorted_ else torch.as_tensor(order, device=device))

    def gather(self, stacks: Sequence[ScaledTable | None]) -> ScaledTable:
        """The tables as one stack; its scale is not used."""
        found = [(stacks[number], rows) for number, rows in self.parts]
        tables = [table for table, _ in found if table is not None]
        if len(tables) == 1 and found[0][1] is None and self.order is None:
            return tables[0]
        logs = any(table.logs for table in tables)
        form = LOG_SUM_PRODUCT if logs else SUM_PRODUCT
        values = [
            table.within(form) if rows is None else _take(table.within(form), rows)
            for table, (_, rows) in zip(tables, found, strict=True)
        ]
        joined = values[0] if len(values) == 1 else torch.cat(values)
        if self.order is not None:
            joined = _take(joined, self.order)
        return ScaledTable(joined, logs, max(table.depth for table in tables), joined)


def _take(values: Tensor, rows: Int[Tensor, " m"]) -> Tensor:
    """Some of the tables, stored the way the stack is."""
    if values.ndim > 1 and values.stride(0) == 1 and len(values) > 1:
        return values.movedim(0, -1).index_select(-1, rows).movedim(-1, 0)
    return values.index_select(0, rows)


@dataclass(frozen=True, eq=False)
class Member:
    """One factor of each pack: the order of its axes in the pack, which of the pack's they are."""

    group: int
    order: tuple[int, ...]
    axes: Axes
    factor: Int[Tensor, " n"]


@dataclass(frozen=True, eq=False)
class Packs:
    """All products of factors of one form in the graph, in the order of their cliques."""

    sizes: tuple[int, ...]
    members: tuple[Member, ...]
    variable: Int[Tensor, " n"]  # on the first axis
    component: Int[Tensor, " n"]

    def scores(self, potentials: Potentials) -> Float[Tensor, " n *sizes"]:
        """The sums of the members' scores."""
        total: Tensor | None = None
        for member in self.members:
            own = potentials.tables[member.group].dense().detach()
            rows = potentials.graph.groups[member.group].table[member.factor]
            own = own.index_select(0, rows).permute(0, *(1 + axis for axis in member.order))
            shape = [n if i in member.axes else 1 for i, n in enumerate(self.sizes)]
            own = own.reshape(-1, *shape)
            total = own if total is None else total + own
        if total is None:
            shape = [len(self.variable), *self.sizes]
            total = torch.zeros(shape, dtype=potentials.dtype, device=self.variable.device)
        if prod(self.sizes) <= SMALL:  # for long inner loops
            return total.movedim(0, -1).contiguous().movedim(-1, 0)
        return total

    def deliver(
        self, belief: Float[Tensor, " n *sizes"], variables: Tensor, factors: Sequence[Tensor]
    ) -> None:
        """Writes the marginals of the first variables and of all members."""
        axes = tuple(range(1, belief.ndim))
        variables[self.variable, : self.sizes[0]] = belief.sum(axes[1:]) if axes[1:] else belief
        for member in self.members:
            others = tuple(i for i in axes if i - 1 not in member.axes)
            own, target = belief.sum(others) if others else belief, factors[member.group]
            ascending = [target.shape[1 + axis] for axis in member.order]
            back = sorted(range(len(member.order)), key=member.order.__getitem__)
            own = own.reshape(-1, *ascending).permute(0, *(1 + axis for axis in back))
            target.index_copy_(0, member.factor, own)


@dataclass(frozen=True, eq=False)
class Batch:
    """n cliques of one height and form: the sizes of their axes, and the inputs.

    `packs` are (form, first row, axes), `children` are (axes, where their messages lie), `above`
    says where the messages from the parents lie (None: roots).  The messages down to the children
    are numbered from `down`; once this batch is done, those in `release` have been read.
    """

    sizes: tuple[int, ...]
    packs: tuple[tuple[int, int, Axes], ...]
    children: tuple[tuple[Axes, Pieces], ...]
    above: Pieces | None
    down: int
    release: tuple[int, ...]
    variables: Int[Tensor, "n a"]
    component: Int[Tensor, " n"]

    def __len__(self) -> int:
        return len(self.component)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Everything about some components of a graph that does not depend on numbers."""

    packs: tuple[Packs, ...]
    batches: tuple[Batch, ...]
    downs: int
    owner: Int[Tensor, " k"]  # the component of every pack, then of every clique


class _Kind(NamedTuple):
    """What cliques of one batch have in common; packs are (form, axes)."""

    height: int
    sizes: tuple[int, ...]
    packs: tuple[tuple[int, Axes], ...]
    children: tuple[Axes, ...]


class _Form(NamedTuple):
    """What products of factors have in common; members are (group, order of axes, axes)."""

    sizes: tuple[int, ...]
    members: tuple[tuple[int, tuple[int, ...], Axes], ...]


class _Cliques(NamedTuple):
    """n cliques of one kind: their numbers and those of their children, and what they hold."""

    number: Numbers  # (n,)
    component: Numbers  # (n,)
    variables: Numbers  # (n, axes)
    children: Numbers  # (n, children)
    factors: tuple[Numbers, ...]  # of each pack (n, members)

    @classmethod
    def joined(cls, parts: Sequence[_Cliques]) -> _Cliques:
        plain = (np.concatenate(columns) for columns in list(zip(*parts, strict=True))[:4])
        packs = zip(*(part.factors for part in parts), strict=True)
        return cls(*plain, tuple(np.concatenate(columns) for columns in packs))

    def some(self, places: Numbers) -> _Cliques:
        plain = (column[places] for column in self[:4])
        return _Cliques(*plain, tuple(own[places] for own in self.factors))


def make_schedule(
    parts: Sequence[tuple[EliminationPlan, Replicas]], device: torch.device
) -> Schedule:
    """Batches of cliques, children before parents."""
    forms: dict[_Form, int] = {}
    alike: dict[_Kind, list[_Cliques]] = {}
    total = 0
    for plan, replicas in parts:
        for kind, cliques in _cliques(plan, replicas, total, forms):
            alike.setdefault(kind, []).append(cliques)
        total += len(plan.steps) * len(replicas.components)
    up, down = np.full((2, total, 2), -1)  # the stack and the row of the message of each clique
    drafts: list[tuple[_Kind, _Cliques, tuple[tuple[int, int, Axes], ...], int]] = []
    held: list[list[Numbers]] = [[] for _ in forms]  # (n, 2 + members) of each batch
    sizes_down: list[int] = []
    for kind in sorted(alike, key=lambda kind: kind.height):
        joined = _Cliques.joined(alike[kind])
        order = np.arange(len(joined.number))
        if kind.children:  # one input at least then comes in order
            order = np.lexsort(up[joined.children[:, 0]].T[::-1])
        most = max(1, BLOCK // prod(kind.sizes))
        for start in range(0, len(order), most):
            own = joined.some(order[start : start + most])
            row = np.arange(len(own.number))
            up[own.number] = np.stack([np.full_like(row, len(drafts)), row], axis=1)
            packs = []
            for (form, axes), factors in zip(kind.packs, own.factors, strict=True):
                packs.append((form, sum(map(len, held[form])), axes))
                held[form].append(np.column_stack([own.variables[:, 0], own.component, factors]))
            drafts.append((kind, own, tuple(packs), len(sizes_down)))
            for child in own.children.T:
                down[child] = np.stack([np.full_like(row, len(sizes_down)), row], axis=1)
                sizes_down.append(len(row))
    sizes_up = [len(own.number) for _, own, _, _ in drafts]
    batches, read = [], set[int]()
    for kind, own, packs, first in drafts:
        above = None
        if down[own.number[0], 0] >= 0:
            above = Pieces.of(down[own.number], sizes_down, device)
        # Batches are gone through from the last on the way down: the first to name a stack is the
        # last to read it.
        stacks = {stack for stack, _ in above.parts} if above else set()
        places = [Pieces.of(up[child], sizes_up, device) for child in own.children.T]
        batches.append(
            Batch(
                kind.sizes,
                packs,
                tuple(zip(kind.children, places, strict=True)),
                above,
                first,
                tuple(stacks - read),
                torch.as_tensor(own.variables, device=device),
                torch.as_tensor(own.component, device=device),
            )
        )
        read |= stacks
    found = [_packs(form, np.concatenate(held[k]), device) for form, k in forms.items()]
    owner = [own.component for own in (*found, *batches)]
    return Schedule(tuple(found), tuple(batches), len(sizes_down), torch.cat(owner))


def _cliques(
    plan: EliminationPlan, replicas: Replicas, first: int, forms: dict[_Form, int]
) -> Iterator[tuple[_Kind, _Cliques]]:
    """The cliques of every step of an elimination, numbered from `first` on."""
    component = replicas.components.cpu().numpy()
    variables = replicas.variables.cpu().numpy()
    factors = [own.cpu().numpy() for own in replicas.factors]
    replica, heights = np.arange(len(component)), plan.elimination.heights
    for k, step in enumerate(plan.steps):
        children = sorted((_within(plan.steps[c].axes[1:], step.axes), c) for c in step.children)
        packs, members = [], []
        for axes, inside in step.packs:
            form = _Form(
                tuple(step.sizes[i] for i in _within(axes, step.axes)),
                tuple(
                    (replicas.places[f][0], plan.orders[f], _within(plan.factor_axes[f], axes))
                    for f in inside
                ),
            )
            packs.append((forms.setdefault(form, len(forms)), _within(axes, step.axes)))
            columns = [
                factors[group][:, place]
                for group, place in map(replicas.places.__getitem__, inside)
            ]
            members.append(
                np.stack(columns, axis=1)
                if columns
                else np.empty((len(replica), 0), dtype=np.int64)
            )
        kind = _Kind(heights[k], step.sizes, tuple(packs), tuple(axes for axes, _ in children))
        below = [first + c * len(replica) + replica for _, c in children]
        yield (
            kind,
            _Cliques(
                first + k * len(replica) + replica,
                component,
                variables[:, plan.elimination.cliques[k]],
                np.stack(below, axis=1) if below else np.empty((len(replica), 0), dtype=np.int64),
                tuple(members),
            ),
        )


def _within(axes: Axes, whole: Axes) -> Axes:
    """The places of some axes among all."""
    return tuple(whole.index(axis) for axis in axes)


def _packs(form: _Form, rows: Numbers, device: torch.device) -> Packs:
    variable, component, *factors = torch.as_tensor(rows, device=device).unbind(1)
    members = tuple(Member(*own, factor) for own, factor in zip(form.members, factors, strict=True))
    return Packs(form.sizes, members, variable, component)


# The evaluation: messages to the roots and back, in any arithmetic.


Messages = list[ScaledTable | None]


@dataclass(frozen=True, eq=False)
class CliqueTree:
    """A schedule and the scores on it."""

    schedule: Schedule
    packs: tuple[ScaledTable, ...]

    @classmethod
    def of(cls, schedule: Schedule, potentials: Potentials) -> CliqueTree:
        return cls(
            schedule,
            tuple(ScaledTable.from_logs(own.scores(potentials)) for own in schedule.packs),
        )

    def collect(self, components: int) -> tuple[Messages, Float[Tensor, " c"]]:
        """The messages of every batch to its parents, and log Z."""
        messages: Messages = []
        for batch in self.schedule.batches:
            inputs = self._inputs(batch, messages)
            arithmetic = safe_arithmetic([table for table, _ in inputs])
            rest = tuple(range(1, len(batch.sizes)))
            values = _sums(arithmetic, batch.sizes, inputs, [rest])[0]
            messages.append(ScaledTable.of(arithmetic, values))
        scales = [table.scale for table in (*self.packs, *messages) if table is not None]
        scale = torch.cat(scales).double()
        return messages, scale.new_zeros(components).index_add_(0, self.schedule.owner, scale)

    def collect_best(self) -> Messages:
        """The messages of every batch with maxima in place of sums."""
        messages: Messages = []
        for batch in self.schedule.batches:
            rest = tuple(range(1, len(batch.sizes)))
            inputs = self._inputs(batch, messages)
            values = _sums(LOG_MAX_PRODUCT, batch.sizes, inputs, [rest])[0]
            messages.append(ScaledTable.from_logs(values))
        return messages

    def distribute(self, messages: Messages) -> None:
        """Replaces every pack's values by the probabilities over its axes.

        Messages are used up: each is dropped when it has been read in both directions.
        """
        down: Messages = [None] * self.schedule.downs
        for b in reversed(range(len(self.schedule.batches))):
            batch, messages[b] = self.schedule.batches[b], None
            inputs = self._inputs(batch, messages)
            tables = inputs
            if batch.above is not None:
                rest = tuple(range(1, len(batch.sizes)))
                tables = [*inputs, (batch.above.gather(down), rest)]
            for stack in batch.release:
                down[stack] = None
            arithmetic = safe_arithmetic([table for table, _ in tables])
            totals = _sums(arithmetic, batch.sizes, tables, [axes for _, axes in inputs])
            for (form, start, _), total in zip(batch.packs, totals, strict=False):
                place = self.packs[form].values.narrow(0, start, len(batch))
                place.copy_(_probabilities(arithmetic, total))
            first = len(batch.packs)
            for child, ((table, _), total) in enumerate(
                zip(inputs[first:], totals[first:], strict=True)
            ):
                quotient = _divide(arithmetic, total, table.within(arithmetic))
                down[batch.down + child] = ScaledTable.of(arithmetic, quotient)

    def trace(
        self, messages: Messages, states: Int[Tensor, "v k"], choose: Callable[[Tensor], Tensor]
    ) -> None:
        """Fills in the states of all variables, each chosen by its log-odds given those before."""
        for batch in reversed(self.schedule.batches):
            own, *above = batch.variables.T
            chosen = [states.index_select(0, variables) for variables in above]
            odds = sum(
                _given(table, [chosen[axis - 1] for axis in axes[1:]], states.shape[1])
                for table, axes in self._inputs(batch, messages)
            )
            states.index_copy_(0, own, choose(torch.as_tensor(odds)))

    def _inputs(self, batch: Batch, messages: Messages) -> list[tuple[ScaledTable, Axes]]:
        inputs = []
        for form, start, axes in batch.packs:
            pack = self.packs[form]
            values = pack.values.narrow(0, start, len(batch))
            inputs.append((ScaledTable(values, pack.logs, pack.depth, pack.scale), axes))
        return [*inputs, *((where.gather(messages), axes) for axes, where in batch.children)]


def _sums(
    arithmetic: Semiring,
    sizes: tuple[int, ...],
    inputs: Sequence[tuple[ScaledTable, Axes]],
    wanted: Sequence[Axes],
) -> list[Tensor]:
    """The products of the inputs, summed onto each of the wanted axes."""
    tables = [(table.within(arithmetic), axes) for table, axes in inputs]
    if prod(sizes) > BLOCK or (len(sizes) > FEW_AXES and len(tables[0][0]) == 1):
        return _sums_by_blocks(arithmetic, sizes, tables, wanted)
    views = [
        values[(slice(None), *(slice(None) if i in axes else None for i in range(len(sizes))))]
        for values, axes in sorted(tables, key=lambda pair: pair[0].numel())
    ]
    block = reduce(arithmetic.times, views)
    sums = []
    for keep in wanted:
        others = tuple(1 + i for i in range(len(sizes)) if i not in keep)
        sums.append(arithmetic.total(block, others) if others else block)
    return sums


def _sums_by_blocks(
    arithmetic: Semiring,
    sizes: tuple[int, ...],
    tables: Sequence[tuple[Tensor, Axes]],
    wanted: Sequence[Axes],
) -> list[Tensor]:
    """The same for one large clique, whose table is never formed whole.

    One block for every state of its leading variables, small enough for the processor's cache.
    """
    fixed, entries = 0, prod(sizes)
    while entries > BLOCK:
        entries //= sizes[fixed]
        fixed += 1
    axes = tuple(range(fixed, len(sizes)))
    operands = [(values.movedim(0, -1), present) for values, present in tables]
    sums = [
        operands[0][0].new_full((*(sizes[axis] for axis in keep), 1), arithmetic.zero)
        for keep in wanted
    ]
    for states in product(*(range(size) for size in sizes[:fixed])):
        inner = [_at(*operand, states) for operand in operands]
        block = multiply(arithmetic, inner, axes, sizes[fixed:])
        for total, keep in zip(sums, wanted, strict=True):
            slot, left = _at(total, keep, states)
            arithmetic.plus(slot, sum_out(arithmetic, block, axes, sizes[fixed:], left), out=slot)
    return [total.movedim(-1, 0) for total in sums]


def _at(table: Tensor, axes: Axes, states: Sequence[int]) -> tuple[Tensor, Axes]:
    """The part of a table where the leading variables are in given states, and its axes."""
    place = tuple(states[axis] for axis in axes if axis < len(states))
    return table[place], axes[len(place) :]


def _given(
    table: ScaledTable, others: Sequence[Int[Tensor, "n k"]], count: int
) -> Float[Tensor, "s n k"]:
    """The logs of tables along their first axis, the other variables in their k chosen states."""
    (n, states, *sizes), values = table.values.shape, table.values.reshape(-1)
    stride = cells = prod(sizes)
    place = torch.arange(n, device=values.device).unsqueeze(1) * (states * cells)
    for chosen, size in zip(others, sizes, strict=True):
        stride //= size
        place = place + stride * chosen
    first = torch.arange(states, device=values.device) * cells
    place = first[:, None, None] + place.expand(n, count)
    if table.logs:
        return values[place].double()
    few = len(values) < place.numel()
    return values.double().log()[place] if few else values[place].double().log()


# Exact inference where the graph has a small width: log Z, marginals, best states, samples.


GIB = 2**30


@final
@dataclass(frozen=True, slots=True)
class JunctionTree:
    """Exact answers by eliminating variables one by one, within a limit on memory (in bytes).

    Components are worked on together, as many at a time as the limit allows.
    """

    memory_limit: int = 4 * GIB
    warm_starts: ClassVar[bool] = False

    def refuses(self, graph: FactorGraph) -> str | None:
        """Why this graph cannot be handled: the width found and the memory it would take."""
        for plan, replicas in graph.planned(find_plans):
            reason = self._too_much(plan)
            if reason:
                return (
                    f"component {int(replicas.components[0])} is too wide for exact inference: "
                    f"{reason}; the limit is {_size(self.memory_limit)} (memory_limit). "
                    "Raise it, or try BeliefPropagation() for an approximation."
                )
        return None

    def _too_much(self, plan: EliminationPlan | TooWide) -> str | None:
        if isinstance(plan, TooWide):
            size = _size(8 * 2 ** min(plan.log2_entries, 64.0))
            return (
                f"every elimination order tried meets a table over {plan.variables} variables "
                f"or more ({size})"
            )
        needed = plan.entries * 8
        if needed <= self.memory_limit:
            return None
        return f"width {plan.elimination.width} was found, which takes {_size(needed)}"

    @one_thread()
    @torch.no_grad()
    def __call__(
        self,
        potentials: Potentials,
        warm: Tensor | None = None,  # noqa: ARG002 - nothing to start from
    ) -> Beliefs:
        """Exact log Z, variable marginals and factor beliefs."""
        insist(self, potentials.graph)
        graph = potentials.graph
        value = torch.zeros(graph.components, dtype=potentials.dtype, device=graph.device)
        variables = value.new_zeros(graph.variables, graph.most_states)
        factors = tuple(
            value.new_empty(len(group), *table.shape[1:])
            for group, table in zip(graph.groups, potentials.tables, strict=True)
        )
        for schedule in self._schedules(graph):
            tree = CliqueTree.of(schedule, potentials)
            messages, log_partition = tree.collect(graph.components)
            value += log_partition.to(value.dtype)
            tree.distribute(messages)
            # Where one part of a component is impossible, so are the parts not joined to it.
            possible = log_partition > -torch.inf
            for form, pack in zip(schedule.packs, tree.packs, strict=True):
                belief = pack.values
                if not bool(possible.all()):
                    belief = belief * _spread(possible[form.component].to(belief.dtype), belief)
                form.deliver(belief, variables, factors)
        with torch.enable_grad():
            return with_gradient(potentials, Beliefs(value, variables, factors, kind="exact"))

    @one_thread()
    @torch.no_grad()
    def best(self, potentials: Potentials) -> Decoding:
        """The assignment of highest score."""
        insist(self, potentials.graph)
        assignment = self._trace(potentials, 1, None)[0]
        return Decoding(assignment, potentials.score(assignment), kind="exact")

    @one_thread()
    @torch.no_grad()
    def sample(
        self, potentials: Potentials, count: int, generator: torch.Generator
    ) -> Int[Tensor, "n v"]:
        """Independent exact samples of every component."""
        insist(self, potentials.graph)
        return self._trace(potentials, count, generator)

    def _trace(
        self, potentials: Potentials, count: int, generator: torch.Generator | None
    ) -> Int[Tensor, "n v"]:
        """Sampled assignments, or the best one where there is no generator."""
        graph = potentials.graph
        states = torch.zeros(graph.variables, count, dtype=torch.int64, device=graph.device)
        for schedule in self._schedules(graph):
            tree = CliqueTree.of(schedule, potentials)
            if generator is None:
                messages = tree.collect_best()
            else:
                messages, log_partition = tree.collect(graph.components)
                insist_possible(log_partition)
            tree.trace(messages, states, lambda odds: _choose(odds, generator))
        return states.T.contiguous()

    def _schedules(self, graph: FactorGraph) -> list[Schedule]:
        return graph.planned(make_schedules, self.memory_limit)


def make_schedules(graph: FactorGraph, memory_limit: int) -> list[Schedule]:
    """Components of a graph, as many together as memory allows, planned."""
    portions: list[list[tuple[EliminationPlan, Replicas]]] = [[]]
    held = work = 0
    for plan, replicas in graph.planned(find_plans):
        assert isinstance(plan, EliminationPlan)  # noqa: S101 - refused before otherwise
        start, count = 0, len(replicas.components)
        while start < count:
            work = max(work, plan.work)
            room = (memory_limit // 8 - work - held) // max(1, plan.held)
            if room < 1 and portions[-1]:
                portions.append([])
                held = work = 0
                continue
            stop = min(count, start + max(1, room))
            portions[-1].append((plan, replicas.part(start, stop)))
            held += (stop - start) * plan.held
            start = stop
    return [make_schedule(parts, graph.device) for parts in portions if parts]


def _size(count: float) -> str:
    """Bytes as people say them."""
    if count >= 2**60:
        return "more than any machine has"
    units = {"TiB": 2**40, "GiB": GIB, "MiB": 2**20}
    unit = next((name for name, size in units.items() if count >= size), "MiB")
    return f"{count / units[unit]:,.1f} {unit}"


def _choose(odds: Float[Tensor, "s n k"], generator: torch.Generator | None) -> Int[Tensor, "n k"]:
    """The best state or, with a generator, one at random by its log-odds."""
    if generator is None:
        return odds.argmax(dim=0)
    rising = (odds - odds.amax(dim=0)).exp().cumsum(dim=0)
    point = torch.rand(
        rising.shape[1:], dtype=rising.dtype, generator=generator, device=generator.device
    )
    return (rising <= point.to(rising.device) * rising[-1]).sum(dim=0)

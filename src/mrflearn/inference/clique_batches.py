"""The plan of a junction tree: which cliques are worked on together, and where inputs come from.

Cliques of one height in the tree, one shape and one pattern of inputs form a batch, over all
components of a graph.  Batches are made once a graph; an evaluation then takes a few tensor
operations for each.

Letters in shapes: n: cliques (or packs) of one batch, always the first axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.graph.elimination import BLOCK, Axes, EliminationPlan, Replicas, find_plans
from mrflearn.graph.factor_graph import FactorGraph, Integers
from mrflearn.graph.potentials import Potentials
from mrflearn.kernels.table_algebra import LOG_SUM_PRODUCT, SUM_PRODUCT, ScaledTable

Messages = list[ScaledTable | None]
SMALL = 64  # entries of a table; stacks of such small ones are stored with n as the inner axis


@dataclass(frozen=True, eq=False)
class Pieces:
    """Where n tables lie: rows of earlier stacks (None: all), end to end, and then in order."""

    parts: tuple[tuple[int, Int[Tensor, " m"] | None], ...]
    order: Int[Tensor, " n"] | None

    @classmethod
    def of(cls, places: Integers, sizes: Sequence[int], device: torch.device) -> Pieces:
        """The tables at the (stack, row) given, in stacks of the given sizes."""
        stack, row = places.T
        by_stack = np.argsort(stack, kind="stable")
        numbers, starts = np.unique(stack[by_stack], return_index=True)
        parts = []
        for number, places in zip(numbers.tolist(), np.split(by_stack, starts[1:]), strict=True):
            every = np.array_equal(row[places], np.arange(sizes[number]))
            rows = None if every else torch.as_tensor(row[places], device=device)
            parts.append((number, rows))
        order = np.argsort(by_stack, kind="stable")
        sorted_ = np.array_equal(order, np.arange(len(order)))
        return cls(tuple(parts), None if sorted_ else torch.as_tensor(order, device=device))

    def gather(self, stacks: Messages) -> ScaledTable:
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


class PackForm(NamedTuple):
    """What products of factors have in common: sizes of axes, and for each factor its group.

    Beside the group stand the order of the factor's own axes in the pack, and which of the pack's
    axes they are.
    """

    sizes: tuple[int, ...]
    members: tuple[tuple[int, tuple[int, ...], Axes], ...]


@dataclass(frozen=True, eq=False)
class Packs:
    """All products of factors of one form in the graph, in the order of their cliques."""

    form: PackForm
    variable: Int[Tensor, " n"]  # on the first axis
    component: Int[Tensor, " n"]
    factors: tuple[Int[Tensor, " n"], ...]  # of each member

    def scores(self, potentials: Potentials) -> Float[Tensor, " n *sizes"]:
        """The sums of the members' scores."""
        sizes = self.form.sizes
        total: Tensor | None = None
        for (group, order, axes), factor in zip(self.form.members, self.factors, strict=True):
            rows = potentials.graph.groups[group].table[factor]
            own = potentials.tables[group].dense().detach().index_select(0, rows)
            own = own.permute(0, *(1 + axis for axis in order))
            own = own.reshape(-1, *(n if i in axes else 1 for i, n in enumerate(sizes)))
            total = own if total is None else total + own
        if total is None:
            shape = (len(self.variable), *sizes)
            total = torch.zeros(shape, dtype=potentials.dtype, device=self.variable.device)
        if prod(sizes) <= SMALL:  # for long inner loops
            return total.movedim(0, -1).contiguous().movedim(-1, 0)
        return total

    def deliver(
        self, belief: Float[Tensor, " n *sizes"], variables: Tensor, factors: Sequence[Tensor]
    ) -> None:
        """Writes the marginals of the first variables and of all members."""
        axes = tuple(range(1, belief.ndim))
        variables[self.variable, : belief.shape[1]] = belief.sum(axes[1:]) if axes[1:] else belief
        for (group, order, inside), factor in zip(self.form.members, self.factors, strict=True):
            others = tuple(i for i in axes if i - 1 not in inside)
            own = belief.sum(others) if others else belief
            own = own.reshape(-1, *(factors[group].shape[1 + axis] for axis in order))
            back = sorted(range(len(order)), key=order.__getitem__)
            factors[group].index_copy_(0, factor, own.permute(0, *(1 + axis for axis in back)))


@dataclass(frozen=True, eq=False)
class CliqueBatch:
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
    variables: Int[Tensor, "a n"]
    component: Int[Tensor, " n"]

    def __len__(self) -> int:
        return len(self.component)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Everything about some components of a graph that does not depend on numbers."""

    packs: tuple[Packs, ...]
    batches: tuple[CliqueBatch, ...]
    downs: int
    owner: Int[Tensor, " k"]  # the component of every pack, then of every clique


class _Kind(NamedTuple):
    """What cliques of one batch have in common; packs are (form, axes)."""

    height: int
    sizes: tuple[int, ...]
    packs: tuple[tuple[int, Axes], ...]
    children: tuple[Axes, ...]


def make_schedule(
    parts: Sequence[tuple[EliminationPlan, Replicas]], device: torch.device
) -> Schedule:
    """Batches of cliques, children before parents."""
    forms: dict[PackForm, int] = {}
    by_kind: dict[_Kind, list[Integers]] = {}
    total = 0
    for plan, replicas in parts:
        for kind, columns in _cliques(plan, replicas, total, forms):
            by_kind.setdefault(kind, []).append(columns)
        total += len(plan.steps) * len(replicas.components)
    up, down = np.full((2, total, 2), -1)  # the stack and the row of the message of each clique
    drafts: list[tuple[_Kind, Integers, list[tuple[int, int, Axes]], int]] = []
    packs: list[list[Integers]] = [[] for _ in forms]
    lengths, members = [0] * len(forms), [len(form.members) for form in forms]
    sizes_down: list[int] = []
    for kind in sorted(by_kind, key=lambda kind: kind.height):
        joined, arity = np.concatenate(by_kind[kind], axis=1), len(kind.sizes)
        order = np.arange(joined.shape[1])
        if kind.children:  # one input at least then comes in order
            order = np.lexsort(up[joined[2 + arity]].T[::-1])
        most = max(1, BLOCK // prod(kind.sizes))
        for start in range(0, len(order), most):
            own = joined[:, order[start : start + most]]
            row, placed = np.arange(own.shape[1]), []
            at = 2 + arity + len(kind.children)
            for form, axes in kind.packs:
                placed.append((form, lengths[form], axes))
                packs[form].append(np.stack([own[2], own[1], *own[at : at + members[form]]]))
                lengths[form] += len(row)
                at += members[form]
            up[own[0]] = np.stack([np.full_like(row, len(drafts)), row], axis=1)
            drafts.append((kind, own, placed, len(sizes_down)))
            for child in own[2 + arity : 2 + arity + len(kind.children)]:
                down[child] = np.stack([np.full_like(row, len(sizes_down)), row], axis=1)
                sizes_down.append(len(row))
    sizes_up = [own.shape[1] for _, own, _, _ in drafts]
    batches: list[CliqueBatch] = []
    read: set[int] = set()
    for kind, own, placed, first in drafts:
        above = None
        if down[own[0, 0], 0] >= 0:
            above = Pieces.of(down[own[0]], sizes_down, device)
        # Batches are gone through from the last on the way down: the first to name a stack is the
        # last to read it.
        stacks = {stack for stack, _ in above.parts} if above else set()
        end = 2 + len(kind.sizes)
        messages = (Pieces.of(up[child], sizes_up, device) for child in own[end:])
        children = tuple(zip(kind.children, messages, strict=False))
        rows = torch.as_tensor(own[1:end], device=device)
        component, variables = rows[0], rows[1:]
        batches.append(
            CliqueBatch(
                kind.sizes,
                tuple(placed),
                children,
                above,
                first,
                tuple(stacks - read),
                variables,
                component,
            )
        )
        read |= stacks
    found = []
    for known, arrays in zip(forms, packs, strict=True):  # forms are numbered as they came
        rows = torch.as_tensor(np.concatenate(arrays, axis=1), device=device)
        found.append(Packs(known, rows[0], rows[1], tuple(rows[2:])))
    owner = [own.component for own in found] + [own.component for own in batches]
    return Schedule(tuple(found), tuple(batches), len(sizes_down), torch.cat(owner))


def _cliques(
    plan: EliminationPlan, replicas: Replicas, first: int, forms: dict[PackForm, int]
) -> Iterator[tuple[_Kind, Integers]]:
    """The cliques of every step of an elimination, numbered from `first` on, one column each.

    Its rows: the number, the component, the variables, the children, the factors of all packs.
    """
    component, variables = replicas.components, replicas.variables.T
    factors = [own.T for own in replicas.factors]
    replica, heights = np.arange(len(component)), plan.elimination.heights
    for k, step in enumerate(plan.steps):
        children = sorted((_within(plan.steps[c].axes[1:], step.axes), c) for c in step.children)
        packs, members = [], []
        for axes, inside in step.packs:
            place = _within(axes, step.axes)
            of_factors = tuple(
                (replicas.places[f][0], plan.orders[f], _within(plan.factor_axes[f], axes))
                for f in inside
            )
            form = PackForm(tuple(step.sizes[i] for i in place), of_factors)
            packs.append((forms.setdefault(form, len(forms)), place))
            members += [factors[g][i] for g, i in (replicas.places[f] for f in inside)]
        kind = _Kind(heights[k], step.sizes, tuple(packs), tuple(axes for axes, _ in children))
        numbers = [first + c * len(replica) + replica for c in (k, *(c for _, c in children))]
        own = variables[list(plan.elimination.cliques[k])]
        yield kind, np.stack([numbers[0], component, *own, *numbers[1:], *members])


def _within(axes: Axes, clique: Axes) -> Axes:
    """The places of some axes among all."""
    return tuple(clique.index(axis) for axis in axes)


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

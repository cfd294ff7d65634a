"""Sums of local conditional likelihoods: pl, edge-pl, pw, pwpl.

    value = sum over problems of log sum exp(scores) - score of the labels
    gradient = expected minus observed counts of every weight

Both differences are taken problem by problem, before anything is added up: most problems are all
but certain, and sums of scores, taken apart, would lose in float32 what is left to gain.

Letters in shapes: p: all weights of a model; n: problems of a block; l: cells of their free
variables; g: distinct (problem, label) pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, TypeVar, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.execution.resources import Threads
from mrflearn.features.index import cells_of, joint_mask
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.incidence import (
    Bags,
    FeatureIncidence,
    Members,
    Singles,
    SlicePlan,
    WeightIncidence,
    whole_incidence,
)
from mrflearn.models.loglinear import LogLinearField
from mrflearn.objectives.base import Autograd, Evaluation, Objective, Vector
from mrflearn.objectives.local_problems import ProblemPart, Problems

# Local problems cut into blocks that fit the cache.

NUMBERS_IN_BLOCK = 700_000  # problems times cells: a handful of such arrays stays near the cores
NUMBERS_IN_POOL = 2**26  # a larger pool is not held: its scores are computed where they are read
LEAST_READERS = 1.5  # of each row of a pool, on average
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows of scores that several problems read, computed once: on a chain a token is in two pairs.

    Row i has the features and given states of `codes[i]`; `parts` have the rows in order.
    """

    plan: SlicePlan
    codes: Int64[Tensor, " r"]
    parts: list[ScoredRows]

    @classmethod
    def of(
        cls, group: int, plan: SlicePlan, codes: Int64[Tensor, " r"], place: Callable[..., Any]
    ) -> Pool:
        parts, shape = [], (plan.weights.labels,)
        for own in codes.split(max(1, NUMBERS_IN_BLOCK // plan.weights.labels)):
            placed = place(group, plan, plan.members(own))
            parts.append(ScoredRows(shape, len(own), (Source(group, plan, placed, shape),)))
        return cls(plan, codes, parts)

    def gather(self, members: Members) -> FeatureIncidence:
        """Which rows problems read."""
        code = members.row * self.plan.others + members.other
        row = torch.searchsorted(self.codes, code).int()
        counts = torch.bincount(members.problem, minlength=members.problems)
        bags = Bags(row, (counts.cumsum(0) - counts).int(), None)
        none = Singles(row[:0], row[:0], None)
        return FeatureIncidence(self.plan, WeightIncidence(bags, none).with_back(), None, members)


class Source(NamedTuple):
    """What the factors of one template add to the scores of a block, in the shape of `view`.

    `table` has the rows that the incidence adds up: wide weights, or scores of a pool.
    """

    group: int
    table: SlicePlan | Pool
    incidence: FeatureIncidence
    view: tuple[int, ...]


Tables = dict[SlicePlan | Pool, Tensor]


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows whose scores, a table of a `shape` each, add up what the sources say."""

    shape: tuple[int, ...]
    count: int
    sources: tuple[Source, ...]

    @torch.no_grad()
    def scores(self, model: LogLinearField, tables: Tables) -> Float[Tensor, "n l"]:
        """The scores of every cell of the rows, in memory of their own."""
        total: Tensor | None = None
        for group, table, incidence, view in self.sources:
            weights, dense = model.weights[group], model.dense[group]
            own = incidence.scores(weights, tables[table], dense).view(-1, *view)
            if total is not None:
                total += own
            else:
                total = own if view == self.shape else own.expand(-1, *self.shape).contiguous()
        if total is None:  # variables without any factor: every state is as likely
            total = torch.zeros(self.count, *self.shape, dtype=model.dtype)
        return total.flatten(1)

    def add_gradient(
        self, scores: Float[Tensor, "n l"], gradient: LogLinearField, tables: Tables
    ) -> None:
        """Carries the gradient of the scores back to what they are made of."""
        shaped = scores.view(-1, *self.shape)
        for group, table, incidence, view in self.sources:
            summed = [1 + axis for axis, size in enumerate(view) if size == 1]
            own = shaped if view == self.shape else shaped.sum(dim=summed)
            weights, dense = gradient.weights[group], gradient.dense[group]
            incidence.add_gradient(own.reshape(len(scores), -1), weights, tables[table], dense)


@dataclass(frozen=True, eq=False)
class LocalBlock(ScoredRows):
    """Problems of known labels: label `cell[i]` of `problem[i]` was seen `times[i]` times."""

    weight: Float[Tensor, " n"]  # how often each problem counts
    problem: Int64[Tensor, " g"]
    cell: Int64[Tensor, " g"]
    times: Float[Tensor, " g"]
    place: tuple[int, slice]  # which record of problems, and where in it


LocalLoss = Callable[[Tensor, LocalBlock], Tensor]  # scores become its gradient, in place


@final
@dataclass(frozen=True, eq=False)
class LocalLikelihood(Objective[LogLinearField]):
    """Minus the sum of log p(free | given) over blocks of problems, on all cores."""

    model: LogLinearField  # templates and type count; its weights do not
    blocks: list[LocalBlock]
    threads: Threads

    @classmethod
    def of(
        cls,
        model: LogLinearField,
        batch: FieldBatch,
        problems: list[Problems],
        threads: Threads,
        *,
        merge: bool = True,
    ) -> LocalLikelihood:
        """Problems of known labels; with `merge`, those that read the same scores become one."""
        blocks = _blocks(model, batch, problems, max(1, threads.count), merge)
        return cls(model, list(blocks), threads)

    def __call__(self, vector: Vector) -> Evaluation:
        """Nats, summed over the weights of the problems; and the gradient."""
        value, gradient = self.sums(vector, losses)
        return Evaluation(value, gradient.to(vector.dtype))

    @torch.no_grad()
    def sums(self, vector: Vector, loss: LocalLoss) -> tuple[Tensor, Tensor]:
        """The sum of a loss over all blocks, and its gradient, in float64."""
        model = self.at(vector)
        sources = [source for block in self.blocks for source in block.sources]
        pools = [own for own in {s.table: None for s in sources} if isinstance(own, Pool)]
        plans = {source.incidence.plan: source.group for source in sources}
        tables: Tables = {p: p.weights.table(model.weights[k]) for p, k in plans.items()}
        parts = [part for pool in pools for part in pool.parts]
        rows = iter(self.threads.map(lambda part: part.scores(model, tables), parts))
        for pool in pools:
            tables[pool] = torch.cat(list(islice(rows, len(pool.parts))))

        @torch.no_grad()
        def solve(blocks: list[LocalBlock]) -> tuple[Tensor, Tensor, Tables]:
            value, gradient = torch.zeros((), dtype=torch.float64), _Gradient(model, tables)
            for block in blocks:
                scores = block.scores(model, tables)
                value += loss(scores, block)
                block.add_gradient(scores, gradient.model, gradient.tables)
            return value, gradient.flat(plans), gradient.tables

        @torch.no_grad()
        def carry(tasks: list[tuple[ScoredRows, Tensor]]) -> Tensor:
            gradient = _Gradient(model, {plan: tables[plan] for plan in plans})
            for part, rows in tasks:
                part.add_gradient(rows, gradient.model, gradient.tables)
            return gradient.flat(plans)

        found = self.threads.map(solve, self._dealt(self.blocks))
        value = sum((own[0] for own in found), torch.zeros((), dtype=torch.float64))
        pulled: list[Tensor] = []  # the gradient of the rows of every part
        for pool in pools:
            whole = sum(own[2][pool] for own in found[1:]) + found[0][2][pool]
            pulled += whole.split([part.count for part in pool.parts])
        work = list(zip(parts, pulled, strict=True))
        size = sum(own.numel() for own in (*model.weights, *model.dense))
        gradient = torch.zeros(size, dtype=torch.float64)
        for part in (*(own[1] for own in found), *self.threads.map(carry, self._dealt(work))):
            gradient += part
        return value, gradient

    def _dealt(self, work: list[T]) -> list[list[T]]:
        """A share of the work for every core."""
        count = max(1, self.threads.count)
        return [own for start in range(count) if (own := work[start::count])]


class _Gradient:
    """Gradients under way: of weights, in the form of a model, and of the rows of tables."""

    def __init__(self, model: LogLinearField, tables: Tables) -> None:
        weights, dense = (tuple(map(torch.zeros_like, own)) for own in (model.weights, model.dense))
        self.model = replace(model, weights=weights, dense=dense, shares=None)
        self.tables: Tables = {key: torch.zeros_like(table) for key, table in tables.items()}

    def flat(self, plans: dict[SlicePlan, int]) -> Vector:
        """The gradients of all weights as one vector; asked for once."""
        for plan, group in plans.items():
            plan.weights.add_wide(self.tables[plan], self.model.weights[group])
        return torch.cat([own.flatten() for own in self.model.parameters().values()])


def _blocks(
    model: LogLinearField, batch: FieldBatch, problems: list[Problems], least: int, merge: bool
) -> Iterator[LocalBlock]:
    """At least `least` blocks of each record of problems, where that can be."""
    plans: dict[tuple[int, tuple[int, ...]], SlicePlan] = {}
    used: dict[tuple[int, tuple[int, ...]], list[Tensor]] = {}
    everyone: list[list[Members]] = [[] for _ in problems]
    for own, members in zip(problems, everyone, strict=True):
        for part in own.parts:
            key = part.group, part.free
            if key not in plans:
                plans[key] = SlicePlan.of(model.templates[part.group], part.free)
            group, plan = batch.graph.groups[part.group], plans[key]
            other = plan.other(batch.states[group.scope[part.factor]])
            read = Members(len(own), part.problem, group.table[part.factor], other)
            members.append(read)
            used.setdefault(key, []).append(read.row * plan.others + other)

    def place(group: int, plan: SlicePlan, members: Members) -> FeatureIncidence:
        return plan.place(batch.features[group], members, model.dtype)

    pools = {}
    for key, codes in used.items() if merge else ():
        distinct = torch.cat(codes).unique()
        several = len(codes) > 1 and sum(map(len, codes)) >= LEAST_READERS * len(distinct)
        if several and len(distinct) * plans[key].weights.labels <= NUMBERS_IN_POOL:
            pools[key] = Pool.of(key[0], plans[key], distinct, place)
    for number, (own, members) in enumerate(zip(problems, everyone, strict=True)):
        shape = tuple(int(n) for n in batch.graph.states[own.scope[0]])
        cells = math.prod(shape)
        merged = torch.arange(len(own))  # the number of each problem, those merged sharing one
        if merge and len(members) == 1 and len(members[0].row) == len(own):
            plan = plans[own.parts[0].group, own.parts[0].free]
            code = members[0].row * plan.others + members[0].other
            distinct, merged = code.unique(return_inverse=True)
            members = [plan.members(distinct)]
        weight = torch.bincount(merged, own.weight)
        labels = cells_of(batch.states[own.scope], shape)
        labelled, number_of = torch.unique(merged * cells + labels, return_inverse=True)
        problem, cell = labelled.div(cells, rounding_mode="floor"), labelled % cells
        times = torch.bincount(number_of, own.weight)
        most = max(1, min(NUMBERS_IN_BLOCK // cells, -(-len(weight) // least)))
        for begin in range(0, len(weight), most):
            end = min(begin + most, len(weight))
            here = _between(problem, begin, end)
            sources = []
            for part, some in zip(own.parts, members, strict=True):
                inside = _between(some.problem, begin, end)
                if inside.stop > inside.start:
                    own_rows = some.problem[inside] - begin, some.row[inside], some.other[inside]
                    read, key = Members(end - begin, *own_rows), (part.group, part.free)
                    view = tuple(n if k in part.covers else 1 for k, n in enumerate(shape))
                    pool, plan = pools.get(key), plans[key]
                    if pool is None:
                        source = Source(part.group, plan, place(part.group, plan, read), view)
                    else:
                        source = Source(part.group, pool, pool.gather(read), view)
                    sources.append(source)
            sources.sort(key=lambda source: source.view != shape)  # full tables need no expanding
            yield LocalBlock(
                shape,
                end - begin,
                tuple(sources),
                weight[begin:end].to(model.dtype),
                problem[here] - begin,
                cell[here],
                times[here].to(model.dtype),
                (number, slice(begin, end)),
            )


def _between(ascending: Int64[Tensor, " k"], begin: int, end: int) -> slice:
    """Where the entries from `begin` on and below `end` stand."""
    return slice(*torch.searchsorted(ascending, torch.tensor([begin, end])).tolist())


def known_labels(scores: Float[Tensor, "n l"], block: LocalBlock) -> Float[Tensor, ""]:
    """The loss whose gradient says how often each weight counts in the scores of known labels."""
    value = block.times.double() @ scores[block.problem, block.cell].double()
    scores.zero_()[block.problem, block.cell] = block.times
    return value


def losses(scores: Float[Tensor, "n l"], block: LocalBlock) -> Float[Tensor, ""]:
    """The summed -log p of the known labels; the scores become its gradient, in place."""
    scores -= scores.amax(dim=1, keepdim=True)
    reached = scores[block.problem, block.cell].double()
    total = scores.exp_().sum(dim=1)
    value = block.times.double() @ (total.double().log()[block.problem] - reached)
    scores /= (total / block.weight)[:, None]
    scores[block.problem, block.cell] -= block.times
    return value


# Local problems around labels that are not known for certain, by autograd: they are few.
#
# A factor sums over the completions of its own missing labels; free variables sum over the allowed
# ones in the numerator and over all in the denominator:
#
#     log p = LSE over allowed free of u  -  LSE over all free of u
#     u(free) = sum over factors of LSE over the allowed states of what is given
#
# For a piece of one factor this is the conditional probability of its labels; where missing
# neighbours belong to one factor each, it is that of the variable given what is known around it.


# Factors that play one part: where their weights are, which axes are given, what these may be.
_Contribution = tuple[ProblemPart, FeatureIncidence, list[int], Bool[Tensor, "m o"]]


def uncertain_likelihood(
    model: LogLinearField, batch: FieldBatch, problems: list[Problems]
) -> Objective[LogLinearField]:
    """-log p of problems with uncertain labels, as a function of the flat vector of weights."""
    allowed = batch.allowed_states()

    def contribution(part: ProblemPart) -> _Contribution:
        group, features = batch.graph.groups[part.group], batch.features[part.group]
        plan, rows = model.plans.whole[part.group], group.table[part.factor]
        shape = plan.template.shape
        given = [axis for axis in range(len(shape)) if axis not in part.free]
        scope, sizes = group.scope[part.factor][:, given], tuple(shape[axis] for axis in given)
        placed = whole_incidence(plan, features, model.dtype, rows)
        return part, placed, given, joint_mask(allowed, scope, sizes)

    parts = [(own, list(map(contribution, own.parts))) for own in problems]

    def loss(model: LogLinearField, batch: FieldBatch) -> Float[Tensor, ""]:
        """Nats, summed over the weights of the problems."""
        total = sum((0.0 * own.double().sum() for own in model.weights), torch.zeros(()))
        for own, contributions in parts:
            shape = tuple(int(n) for n in batch.graph.states[own.scope[0]])
            scores = torch.zeros(len(own), *shape, dtype=model.dtype)
            for part, incidence, given, may_be in contributions:
                table = model.table(part.group, incidence)
                order = [0, *(1 + axis for axis in (*part.free, *given))]
                flat = table.permute(order).reshape(len(table), -1, may_be.shape[1])
                free = flat.masked_fill(~may_be.unsqueeze(1), -torch.inf).logsumexp(dim=2)
                view = [n if axis in part.covers else 1 for axis, n in enumerate(shape)]
                added = free.reshape(-1, *view).expand(-1, *shape)
                scores = scores.index_add(0, part.problem, added)
            flat = scores.flatten(1)
            possible = flat.masked_fill(~joint_mask(allowed, own.scope, shape), -torch.inf)
            lost = flat.logsumexp(dim=1) - possible.logsumexp(dim=1)
            total = total + (lost.double() * own.weight).sum()
        return total

    return Autograd(model, [batch], loss)


def uncertain_problems(batch: FieldBatch, own: Problems) -> Bool[Tensor, " n"]:
    """The problems with an uncertain label, free or given."""
    unknown = ~batch.known()
    found = unknown[own.scope].any(dim=1)
    for part in own.parts:
        scope = batch.graph.groups[part.group].scope[part.factor]
        found[part.problem[unknown[scope].any(dim=1)]] = True
    return found

"""Sums of local conditional likelihoods: pl, edge-pl, pw, pwpl.

    value = sum over problems of log sum exp(scores) - score of the labels
    gradient = expected minus observed counts of every weight

Both differences are taken problem by problem, before anything is added up: most problems are all
but certain, and sums of scores, taken apart, would lose in float32 what is left to gain.

Letters in shapes: p: all weights of a model; n: problems of a block; l: cells of their free
variables; r: rows of a pool.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.execution.resources import Threads
from mrflearn.features.index import joint_mask
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
from mrflearn.models.loglinear import DENSE, SHARES, LogLinearField
from mrflearn.objectives.base import Autograd, Evaluation, Layout, Objective
from mrflearn.objectives.local_problems import ProblemPart, Problems

# Scores that several problems read, computed once: on a chain a token is in two pieces.


NUMBERS_IN_POOL = 2**26  # a larger pool is not held: its scores are computed where they are read
NUMBERS_AT_ONCE = 700_000
LEAST_READERS = 1.5  # of each row, on average


class Key(NamedTuple):
    """A template and its free axes; `pool`: scores of a pool, not weights."""

    group: int
    free: tuple[int, ...]
    pool: bool = False

    def pooled(self) -> Key:
        """The scores of the pool of this plan."""
        return self._replace(pool=True)


@dataclass(frozen=True, eq=False)
class Pool:
    """Distinct (features, given states) of a plan: their codes, and blocks of their incidences."""

    codes: Int64[Tensor, " r"]
    plan: SlicePlan
    blocks: list[tuple[slice, FeatureIncidence]]

    def gather(self, members: Members) -> FeatureIncidence:
        """Which rows problems read."""
        code = members.row * self.plan.others + members.other
        row = torch.searchsorted(self.codes, code).int()
        counts = torch.bincount(members.problem, minlength=members.problems)
        bags = Bags(row, (counts.cumsum(0) - counts).int(), None)
        none = Singles(row[:0], row[:0], None)
        return FeatureIncidence(self.plan, WeightIncidence(bags, none).with_back(), None, members)


def find_pools(
    model: LogLinearField,
    batch: FieldBatch,
    plans: dict[Key, SlicePlan],
    used: dict[Key, list[Members]],
) -> dict[Key, Pool]:
    """A pool for every plan whose rows have several readers."""
    pools = {}
    for key, plan in plans.items():
        codes = torch.cat([own.row * plan.others + own.other for own in used[key]])
        distinct = codes.unique()
        cells = plan.weights.labels
        several = len(used[key]) > 1 and len(codes) >= LEAST_READERS * len(distinct)
        if several and len(distinct) * cells <= NUMBERS_IN_POOL:
            pools[key] = _pool(model, batch, key, plan, distinct)
    return pools


def _pool(
    model: LogLinearField, batch: FieldBatch, key: Key, plan: SlicePlan, codes: Int64[Tensor, " r"]
) -> Pool:
    cells, blocks = plan.weights.labels, []
    most = max(1, NUMBERS_AT_ONCE // cells)
    for begin in range(0, len(codes), most):
        own = codes[begin : begin + most]
        number = torch.arange(len(own))
        row, other = own.div(plan.others, rounding_mode="floor"), own % plan.others
        placed = plan.place(
            batch.features[key.group], Members(len(own), number, row, other), model.dtype
        )
        blocks.append((slice(begin, begin + len(own)), placed))
    return Pool(codes, plan, blocks)


# Local problems cut into blocks that fit the cache, and blocks dealt out to cores.


NUMBERS_IN_BLOCK = 700_000  # problems times cells: a handful of such arrays stays near the cores


@dataclass(frozen=True, eq=False)
class Source:
    """What one kind of factor adds to the scores of a block, in the shape of `view`."""

    key: Key
    incidence: FeatureIncidence
    view: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Gold:
    """The known labels of problems: each (problem, cell) once, and how often it was seen."""

    problem: Int64[Tensor, " g"]
    cell: Int64[Tensor, " g"]
    times: Float[Tensor, " g"]

    @classmethod
    def of(cls, batch: FieldBatch, own: Problems) -> Gold:
        cell = torch.zeros(len(own), dtype=torch.int64)
        for variables in own.scope.T:
            cell = cell * batch.graph.states[variables] + batch.states[variables]
        return cls(torch.arange(len(own)), cell, own.weight)

    def merged(self, number: Int64[Tensor, " g"], cells: int) -> Gold:
        """The same labels, problem i being problem `number[i]` now."""
        code, place = torch.unique(number * cells + self.cell, return_inverse=True)
        times = torch.zeros(len(code), dtype=torch.float64).index_add_(0, place, self.times)
        return Gold(code.div(cells, rounding_mode="floor"), code % cells, times)

    def between(self, begin: int, end: int, kind: torch.dtype) -> Gold:
        """The labels of the problems from `begin` on and before `end`, numbered from 0."""
        low, high = torch.searchsorted(self.problem, torch.tensor([begin, end])).tolist()
        some = slice(low, high)
        return Gold(self.problem[some] - begin, self.cell[some], self.times[some].to(kind))


@dataclass(frozen=True, eq=False)
class LocalBlock:
    """Problems whose labels are known: their scores add up what the sources say."""

    count: int
    shape: tuple[int, ...]
    weight: Float[Tensor, " n"] | None  # None: each counts once
    sources: tuple[Source, ...]
    gold: Gold
    place: tuple[int, slice]  # which record of problems, and where in it


@dataclass(frozen=True, eq=False)
class LocalLayout:
    """Blocks, and the plans and pools they use."""

    plans: dict[Key, SlicePlan]
    pools: dict[Key, Pool]
    blocks: list[LocalBlock]


def lay_out(
    model: LogLinearField,
    batch: FieldBatch,
    problems: list[Problems],
    *,
    least: int = 1,
    merge: bool = True,
) -> LocalLayout:
    """Problems of known labels, ready to be solved; at least `least` blocks where that can be.

    With `merge`, problems that read the same scores become one that counts so many times.
    """
    plans: dict[Key, SlicePlan] = {}
    used: dict[Key, list[Members]] = {}
    members: list[list[Members]] = [[] for _ in problems]
    for own, inside in zip(problems, members, strict=True):
        for part in own.parts:
            key = Key(part.group, part.free)
            if key not in plans:
                plans[key] = SlicePlan.of(model.templates[part.group], part.free)
            inside.append(_members(batch, part, plans[key]))
            used.setdefault(key, []).append(inside[-1])
    pools = find_pools(model, batch, plans, used) if merge else {}

    def source(part: ProblemPart, inside: Members, shape: tuple[int, ...]) -> Source:
        key = Key(part.group, part.free)
        view = tuple(n if k in part.covers else 1 for k, n in enumerate(shape))
        if key in pools:
            return Source(key.pooled(), pools[key].gather(inside), view)
        placed = plans[key].place(batch.features[part.group], inside, model.dtype)
        return Source(key, placed, view)

    blocks: list[LocalBlock] = []
    for number, (own, inside) in enumerate(zip(problems, members, strict=True)):
        shape = tuple(int(n) for n in batch.graph.states[own.scope[0]])
        gold = Gold.of(batch, own)
        if merge:
            own, inside, gold = _merged(own, inside, gold, math.prod(shape))
        count = len(own.weight)
        most = max(1, min(NUMBERS_IN_BLOCK // math.prod(shape), -(-count // least)))
        weight = None if bool((own.weight == 1).all()) else own.weight.to(model.dtype)
        for begin in range(0, count, most):
            end = min(begin + most, count)
            here = slice(begin, end)
            parts = zip(own.parts, (_between(some, begin, end) for some in inside), strict=True)
            sources = tuple(source(part, some, shape) for part, some in parts if len(some.row))
            labels, counts = gold.between(begin, end, model.dtype), weight
            if weight is not None:
                counts = weight[here]
            blocks.append(LocalBlock(end - begin, shape, counts, sources, labels, (number, here)))
    return LocalLayout(plans, pools, blocks)


def _members(batch: FieldBatch, part: ProblemPart, plan: SlicePlan) -> Members:
    group = batch.graph.groups[part.group]
    other = plan.other(batch.states[group.scope[part.factor]])
    return Members(int(part.problem.max()) + 1, part.problem, group.table[part.factor], other)


def _merged(
    own: Problems, members: list[Members], gold: Gold, cells: int
) -> tuple[Problems, list[Members], Gold]:
    """The same problems, those of one member that read the same scores merged into one."""
    if len(members) != 1 or len(members[0].row) != len(own):
        return own, members, gold
    alike = torch.stack([members[0].row, members[0].other], dim=1)
    distinct, number = alike.unique(dim=0, return_inverse=True)
    if len(distinct) == len(own):
        return own, members, gold
    weight = torch.zeros(len(distinct), dtype=torch.float64).index_add_(0, number, own.weight)
    row, other = distinct.unbind(dim=1)
    merged = Members(len(row), torch.arange(len(row)), row, other)
    problems = Problems(own.scope[: len(row)], weight, own.parts)
    return problems, [merged], gold.merged(number, cells)


def _between(members: Members, begin: int, end: int) -> Members:
    low, high = torch.searchsorted(members.problem, torch.tensor([begin, end])).tolist()
    inside = slice(low, high)
    problem: Int64[Tensor, " k"] = members.problem[inside] - begin
    return Members(end - begin, problem, members.row[inside], members.other[inside])


# Minus the sum of log p(free | given) over local problems: value and gradient, on all cores.


T = TypeVar("T")
LocalLoss = Callable[[Tensor, LocalBlock], Tensor]  # scores become its gradient, in place


@final
@dataclass(frozen=True, eq=False)
class LocalLikelihood(Objective[LogLinearField]):
    """The sum over all blocks as a function of the flat vector of weights."""

    model: LogLinearField  # templates and type count; its weights do not
    laid: LocalLayout
    threads: Threads

    def __call__(self, vector: Float[Tensor, " p"]) -> Evaluation:
        """Nats, summed over the weights of the problems; and the gradient."""
        value, gradient = self.sums(vector, losses)
        return Evaluation(value, gradient.to(vector.dtype))

    @torch.no_grad()
    def sums(self, vector: Float[Tensor, " p"], loss: LocalLoss) -> tuple[Tensor, Tensor]:
        """The sum of a loss over all blocks, and its gradient, in float64."""
        model = self.at(vector)
        tables = {
            key: plan.weights.table(model.weights[key.group])
            for key, plan in self.laid.plans.items()
        }
        tables |= self._pools(model, tables)
        found = self.threads.map(
            lambda blocks: self._solve(model, tables, blocks, loss), self._dealt(self.laid.blocks)
        )
        size = sum(own.numel() for own in (*model.weights, *model.dense))
        value, gradient = (torch.zeros(own, dtype=torch.float64) for own in ((), size))
        for more, own in found:
            value += more
            gradient += own.gradient(self.laid, self.layout)
        for more in self._back(model, tables, [own for _, own in found]):
            gradient += more
        return value, gradient

    def _dealt(self, work: list[T]) -> list[list[T]]:
        """A share of the work for every core."""
        count = max(1, self.threads.count)
        return [own for start in range(count) if (own := work[start::count])]

    def _pools(self, model: LogLinearField, tables: dict[Key, Tensor]) -> dict[Key, Tensor]:
        """The scores of the rows that several problems read."""
        work = [(key, *own) for key, pool in self.laid.pools.items() for own in pool.blocks]
        held = {
            key.pooled(): torch.empty(len(pool.codes), pool.plan.weights.labels, dtype=model.dtype)
            for key, pool in self.laid.pools.items()
        }

        @torch.no_grad()
        def fill(task: tuple[Key, slice, FeatureIncidence]) -> None:
            key, rows, placed = task
            held[key.pooled()][rows] = placed.scores(
                model.weights[key.group], tables[key], model.dense[key.group]
            )

        self.threads.map(fill, work)
        return held

    @torch.no_grad()
    def _solve(
        self,
        model: LogLinearField,
        tables: dict[Key, Tensor],
        blocks: list[LocalBlock],
        loss: LocalLoss,
    ) -> tuple[Tensor, LocalGradient]:
        value = torch.zeros((), dtype=torch.float64)
        gradient = LocalGradient.zeros(model, tables)
        for block in blocks:
            scores = _scores(model, tables, block)
            value += loss(scores, block)
            gradient.add(block, scores)
        return value, gradient

    def _back(
        self, model: LogLinearField, tables: dict[Key, Tensor], found: list[LocalGradient]
    ) -> list[Float[Tensor, " p"]]:
        """The gradients of what pools are made of."""
        if not self.laid.pools:
            return []
        total = {}
        for key in self.laid.pools:
            total[key], *others = (own.tables[key.pooled()] for own in found)
            for more in others:
                total[key] += more
        work = [(key, *own) for key, pool in self.laid.pools.items() for own in pool.blocks]

        @torch.no_grad()
        def carry(tasks: list[tuple[Key, slice, FeatureIncidence]]) -> Tensor:
            own = LocalGradient.zeros(model, {key: tables[key] for key in self.laid.plans})
            for key, rows, placed in tasks:
                at = (own.weights[key.group], own.tables[key], own.dense[key.group])
                placed.add_gradient(total[key][rows], *at)
            return own.gradient(self.laid, self.layout)

        return self.threads.map(carry, self._dealt(work))


@dataclass(frozen=True, eq=False)
class LocalGradient:
    """Gradients under way: of single weights and dense ones, and of the rows of each plan."""

    weights: tuple[Tensor, ...]
    dense: tuple[Tensor, ...]
    tables: dict[Key, Tensor]

    @classmethod
    def zeros(cls, model: LogLinearField, tables: dict[Key, Tensor]) -> LocalGradient:
        return cls(
            tuple(torch.zeros_like(own) for own in model.weights),
            tuple(torch.zeros_like(own) for own in model.dense),
            {key: torch.zeros_like(table) for key, table in tables.items()},
        )

    def add(self, block: LocalBlock, scores: Float[Tensor, "n l"]) -> None:
        """Carries the gradient of a block's scores back to what they are made of."""
        shaped = scores.view(-1, *block.shape)
        for source in block.sources:
            summed = [1 + axis for axis, size in enumerate(source.view) if size == 1]
            own = shaped.sum(dim=summed) if _partial(block, source.view) else shaped
            flat = own.reshape(len(scores), -1)
            group = source.key[0]
            source.incidence.add_gradient(
                flat, self.weights[group], self.tables[source.key], self.dense[group]
            )

    def gradient(self, laid: LocalLayout, layout: Layout) -> Float[Tensor, " p"]:
        """The gradients of all weights as one flat vector."""
        totals = [weights.clone() for weights in self.weights]
        for key, own in laid.plans.items():
            own.weights.add_wide(self.tables[key], totals[key.group])
        named: dict[str, Tensor] = {}
        order = [name for name in layout.names if not name.endswith(DENSE) and name != SHARES]
        for name, weights, dense in zip(order, totals, self.dense, strict=True):
            named |= {name: weights, name + DENSE: dense}
        return torch.cat([named[name].flatten() for name in layout.names if name != SHARES])


def _scores(
    model: LogLinearField, tables: dict[Key, Tensor], block: LocalBlock
) -> Float[Tensor, "n l"]:
    """The scores of every cell of a block's problems, in memory of their own."""
    total: Tensor | None = None
    for source in block.sources:
        group = source.key[0]
        own = source.incidence.scores(
            model.weights[group], tables[source.key], model.dense[group]
        ).view(-1, *source.view)
        if total is not None:
            total += own
        elif _partial(block, source.view):
            total = own.expand(-1, *block.shape).contiguous()
        else:
            total = own
    if total is None:  # variables without any factor: every state is as likely
        total = torch.zeros(block.count, *block.shape, dtype=model.dtype)
    return total.flatten(1)


def known_labels(scores: Float[Tensor, "n l"], block: LocalBlock) -> Float[Tensor, ""]:
    """The loss whose gradient says how often each weight counts in the scores of known labels."""
    gold = block.gold
    value = gold.times.double() @ scores[gold.problem, gold.cell].double()
    scores.zero_()[gold.problem, gold.cell] = gold.times
    return value


def losses(scores: Float[Tensor, "n l"], block: LocalBlock) -> Float[Tensor, ""]:
    """The summed -log p of the known labels; the scores become its gradient, in place."""
    gold = block.gold
    scores -= scores.amax(dim=1, keepdim=True)
    reached = scores[gold.problem, gold.cell].double()
    total = scores.exp_().sum(dim=1)
    value = gold.times.double() @ (total.double().log()[gold.problem] - reached)
    if block.weight is not None:
        total = total / block.weight
    scores /= total[:, None]
    scores[gold.problem, gold.cell] -= gold.times
    return value


def _partial(block: LocalBlock, view: tuple[int, ...]) -> bool:
    return view != block.shape


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


@dataclass(frozen=True, eq=False)
class _Contribution:
    """Factors that play one part: where their weights are, and what their given axes may be."""

    part: ProblemPart
    incidence: FeatureIncidence
    given: Bool[Tensor, "m o"]

    def marginal_scores(self, model: LogLinearField) -> Float[Tensor, "m l"]:
        """The scores of their free axes, summed over what the others may be."""
        table = model.table(self.part.group, self.incidence)
        axes = range(table.ndim - 1)
        given = [axis for axis in axes if axis not in self.part.free]
        order = [0, *(1 + axis for axis in (*self.part.free, *given))]
        flat = table.permute(order).reshape(len(table), -1, self.given.shape[1])
        return flat.masked_fill(~self.given.unsqueeze(1), -torch.inf).logsumexp(dim=2)


def uncertain_likelihood(
    model: LogLinearField, batch: FieldBatch, problems: list[Problems]
) -> Objective[LogLinearField]:
    """-log p of problems with uncertain labels, as a function of the flat vector of weights."""
    parts = [(own, [_contribution(model, batch, part) for part in own.parts]) for own in problems]

    def loss(model: LogLinearField, batch: FieldBatch) -> Float[Tensor, ""]:
        """Nats, summed over the weights of the problems."""
        total = sum((0.0 * own.double().sum() for own in model.weights), torch.zeros(()))
        for own, contributions in parts:
            shape = tuple(int(n) for n in batch.graph.states[own.scope[0]])
            scores = torch.zeros(len(own), *shape, dtype=model.dtype)
            for each in contributions:
                view = [n if axis in each.part.covers else 1 for axis, n in enumerate(shape)]
                added = each.marginal_scores(model).reshape(-1, *view).expand(-1, *shape)
                scores = scores.index_add(0, each.part.problem, added)
            flat = scores.flatten(1)
            mask = joint_mask(batch.allowed_states(), own.scope, shape)
            bound = flat.masked_fill(~mask, -torch.inf).logsumexp(dim=1)
            total = total + ((flat.logsumexp(dim=1) - bound).double() * own.weight).sum()
        return total

    return Autograd(model, [batch], loss)


def _contribution(model: LogLinearField, batch: FieldBatch, part: ProblemPart) -> _Contribution:
    group, shape = batch.graph.groups[part.group], model.templates[part.group].shape
    rows = group.table[part.factor]
    plan, features = model.plans.whole[part.group], batch.features[part.group]
    placed = whole_incidence(plan, features, model.dtype, rows)
    given = [axis for axis in range(len(shape)) if axis not in part.free]
    sizes = tuple(shape[axis] for axis in given)
    scope = group.scope[part.factor][:, given]
    return _Contribution(part, placed, joint_mask(batch.allowed_states(), scope, sizes))


def uncertain_problems(batch: FieldBatch, own: Problems) -> Bool[Tensor, " n"]:
    """The problems with an uncertain label, free or given."""
    unknown = ~batch.known()
    found = unknown[own.scope].any(dim=1)
    for part in own.parts:
        scope = batch.graph.groups[part.group].scope[part.factor]
        found[part.problem[unknown[scope].any(dim=1)]] = True
    return found

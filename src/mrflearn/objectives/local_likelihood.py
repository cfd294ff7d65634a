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
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.execution.resources import Threads
from mrflearn.features.index import cells_of, joint_mask
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.incidence import FeatureIncidence, Members, SlicePlan, whole_incidence
from mrflearn.models.loglinear import LogLinearField
from mrflearn.objectives.base import Autograd, Evaluation, Objective
from mrflearn.objectives.local_problems import ProblemPart, Problems

# Local problems cut into blocks that fit the cache.

NUMBERS_IN_BLOCK = 700_000  # problems times cells: a handful of such arrays stays near the cores


class Source(NamedTuple):
    """What the factors of one template add to the scores of a block, in the shape of `view`."""

    group: int
    incidence: FeatureIncidence
    view: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class LocalBlock:
    """Problems whose labels are known: their scores add up what the sources say.

    Label `cell[i]` of problem `problem[i]` was seen `times[i]` times.
    """

    shape: tuple[int, ...]
    weight: Float[Tensor, " n"]  # how often each problem counts
    sources: tuple[Source, ...]
    problem: Int64[Tensor, " g"]
    cell: Int64[Tensor, " g"]
    times: Float[Tensor, " g"]
    place: tuple[int, slice]  # which record of problems, and where in it

    def scores(
        self, model: LogLinearField, tables: dict[SlicePlan, Tensor]
    ) -> Float[Tensor, "n l"]:
        """The scores of every cell of the problems, in memory of their own."""
        total: Tensor | None = None
        for group, incidence, view in self.sources:
            weights, dense = model.weights[group], model.dense[group]
            own = incidence.scores(weights, tables[incidence.plan], dense).view(-1, *view)
            if total is not None:
                total += own
            else:
                total = own if view == self.shape else own.expand(-1, *self.shape).contiguous()
        if total is None:  # variables without any factor: every state is as likely
            total = torch.zeros(len(self.weight), *self.shape, dtype=model.dtype)
        return total.flatten(1)

    def add_gradient(
        self,
        scores: Float[Tensor, "n l"],
        gradient: LogLinearField,
        tables: dict[SlicePlan, Tensor],
    ) -> None:
        """Carries the gradient of the scores back to what they are made of."""
        shaped = scores.view(-1, *self.shape)
        for group, incidence, view in self.sources:
            summed = [1 + axis for axis, size in enumerate(view) if size == 1]
            own = shaped if view == self.shape else shaped.sum(dim=summed)
            weights, dense = gradient.weights[group], gradient.dense[group]
            table = tables[incidence.plan]
            incidence.add_gradient(own.reshape(len(scores), -1), weights, table, dense)


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

    def __call__(self, vector: Float[Tensor, " p"]) -> Evaluation:
        """Nats, summed over the weights of the problems; and the gradient."""
        value, gradient = self.sums(vector, losses)
        return Evaluation(value, gradient.to(vector.dtype))

    @torch.no_grad()
    def sums(self, vector: Float[Tensor, " p"], loss: LocalLoss) -> tuple[Tensor, Tensor]:
        """The sum of a loss over all blocks, and its gradient, in float64."""
        model = self.at(vector)
        sources = (source for block in self.blocks for source in block.sources)
        groups = {incidence.plan: group for group, incidence, _ in sources}
        tables = {plan: plan.weights.table(model.weights[k]) for plan, k in groups.items()}

        @torch.no_grad()
        def solve(blocks: list[LocalBlock]) -> tuple[Tensor, Tensor]:
            value = torch.zeros((), dtype=torch.float64)
            weights, dense = (
                tuple(map(torch.zeros_like, own)) for own in (model.weights, model.dense)
            )
            gradient = replace(model, weights=weights, dense=dense, shares=None)
            rows = {plan: torch.zeros_like(table) for plan, table in tables.items()}
            for block in blocks:
                scores = block.scores(model, tables)
                value += loss(scores, block)
                block.add_gradient(scores, gradient, rows)
            for plan, group in groups.items():
                plan.weights.add_wide(rows[plan], gradient.weights[group])
            return value, torch.cat([own.flatten() for own in gradient.parameters().values()])

        count = max(1, self.threads.count)
        shares = [share for start in range(count) if (share := self.blocks[start::count])]
        value = torch.zeros((), dtype=torch.float64)
        size = sum(own.numel() for own in (*model.weights, *model.dense))
        gradient = torch.zeros(size, dtype=torch.float64)
        for more, part in self.threads.map(solve, shares):
            value += more
            gradient += part
        return value, gradient


def _blocks(
    model: LogLinearField, batch: FieldBatch, problems: list[Problems], least: int, merge: bool
) -> Iterator[LocalBlock]:
    """At least `least` blocks of each record of problems, where that can be."""
    plans: dict[tuple[int, tuple[int, ...]], SlicePlan] = {}
    for number, own in enumerate(problems):
        shape = tuple(int(n) for n in batch.graph.states[own.scope[0]])
        cells = math.prod(shape)
        members = []
        for part in own.parts:
            key = part.group, part.free
            if key not in plans:
                plans[key] = SlicePlan.of(model.templates[part.group], part.free)
            group = batch.graph.groups[part.group]
            other = plans[key].other(batch.states[group.scope[part.factor]])
            members.append(Members(len(own), part.problem, group.table[part.factor], other))
        merged = torch.arange(len(own))  # the number of each problem, those merged sharing one
        if merge and len(members) == 1 and len(members[0].row) == len(own):
            others = plans[key].others
            distinct, merged = (members[0].row * others + members[0].other).unique(
                return_inverse=True
            )
            read = distinct.div(others, rounding_mode="floor"), distinct % others
            members = [Members(len(distinct), torch.arange(len(distinct)), *read)]
        weight = torch.bincount(merged, own.weight)
        labels = cells_of(batch.states[own.scope], shape)
        codes, place = torch.unique(merged * cells + labels, return_inverse=True)
        problem, cell = codes.div(cells, rounding_mode="floor"), codes % cells
        times = torch.bincount(place, own.weight)
        most = max(1, min(NUMBERS_IN_BLOCK // cells, -(-len(weight) // least)))
        for begin in range(0, len(weight), most):
            end = min(begin + most, len(weight))
            here = _between(problem, begin, end)
            sources = []
            for part, some in zip(own.parts, members, strict=True):
                inside = _between(some.problem, begin, end)
                if inside.stop > inside.start:
                    own_rows = some.problem[inside] - begin, some.row[inside], some.other[inside]
                    plan, features = plans[part.group, part.free], batch.features[part.group]
                    placed = plan.place(features, Members(end - begin, *own_rows), model.dtype)
                    view = tuple(n if k in part.covers else 1 for k, n in enumerate(shape))
                    sources.append(Source(part.group, placed, view))
            sources.sort(key=lambda source: source.view != shape)  # full tables need no expanding
            yield LocalBlock(
                shape,
                weight[begin:end].to(model.dtype),
                tuple(sources),
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


class _Contribution(NamedTuple):
    """Factors that play one part: where their weights are, and what their given axes may be."""

    part: ProblemPart
    incidence: FeatureIncidence
    given: Bool[Tensor, "m o"]

    def marginal_scores(self, model: LogLinearField) -> Float[Tensor, "m l"]:
        """The scores of their free axes, summed over what the others may be."""
        table = model.table(self.part.group, self.incidence)
        given = [axis for axis in range(table.ndim - 1) if axis not in self.part.free]
        order = [0, *(1 + axis for axis in (*self.part.free, *given))]
        flat = table.permute(order).reshape(len(table), -1, self.given.shape[1])
        return flat.masked_fill(~self.given.unsqueeze(1), -torch.inf).logsumexp(dim=2)


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
        return _Contribution(part, placed, joint_mask(allowed, scope, sizes))

    parts = [(own, list(map(contribution, own.parts))) for own in problems]

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

"""Local problems cut into blocks that fit the cache, and blocks dealt out to cores.

Letters in shapes: n: problems of one block; l: cells of their free variables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField
from mrflearn.models.slices import Incidence, Members, SlicePlan
from mrflearn.objectives.local_pools import Gathered, Key, Pool, find_pools
from mrflearn.objectives.local_problems import Part, Problems
from mrflearn.objectives.observed import observed_counts, times_of

NUMBERS_IN_BLOCK = 700_000  # problems times cells: a handful of such arrays stays near the cores


@dataclass(frozen=True, eq=False)
class Source:
    """What one kind of factor adds to the scores of a block, in the shape of `view`."""

    key: Key
    incidence: Incidence | Gathered
    view: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Gold:
    """The known labels of problems: each (problem, cell) once, and how often it was seen."""

    problem: Int64[Tensor, "g"]
    cell: Int64[Tensor, "g"]
    times: Float[Tensor, "g"]

    @classmethod
    def of(cls, batch: FieldBatch, own: Problems) -> Gold:
        cell = torch.zeros(len(own), dtype=torch.int64)
        for variables in own.scope.T:
            cell = cell * batch.graph.states[variables] + batch.states[variables]
        return cls(torch.arange(len(own)), cell, own.weight)

    def merged(self, number: Int64[Tensor, "g"], cells: int) -> Gold:
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
class Block:
    """Problems whose labels are known: their scores add up what the sources say."""

    count: int
    shape: tuple[int, ...]
    weight: Float[Tensor, "n"] | None  # None: each counts once
    sources: tuple[Source, ...]
    gold: Gold
    place: tuple[int, slice]  # which record of problems, and where in it


@dataclass(frozen=True, eq=False)
class Laid:
    """Blocks, the plans and pools they use, and the sum of the features of the known labels."""

    plans: dict[Key, SlicePlan]
    pools: dict[Key, Pool]
    blocks: list[Block]
    observed: Float[Tensor, "p"]


def lay_out(
    model: LogLinearField,
    batch: FieldBatch,
    problems: list[Problems],
    *,
    least: int = 1,
    merge: bool = True,
) -> Laid:
    """Problems of known labels, ready to be solved; at least `least` blocks where that can be.

    With `merge`, problems that read the same scores become one that counts so many times.
    """
    plans: dict[Key, SlicePlan] = {}
    members: list[list[Members]] = []
    for own in problems:
        for part in own.parts:
            key = Key(part.group, part.free)
            if key not in plans:
                plans[key] = SlicePlan.of(model.templates[part.group], part.free)
        members.append(
            [_members(batch, part, plans[Key(part.group, part.free)]) for part in own.parts]
        )
    used: dict[Key, list[Members]] = {}
    for own, inside in zip(problems, members, strict=True):
        for part, member in zip(own.parts, inside, strict=True):
            used.setdefault(Key(part.group, part.free), []).append(member)
    pools = find_pools(model, batch, plans, used) if merge else {}
    blocks: list[Block] = []
    for number, (own, inside) in enumerate(zip(problems, members, strict=True)):
        cut = _Cut(model, batch, plans, pools, least, merge)
        blocks.extend(cut(own, inside, number))
    return Laid(plans, pools, blocks, observed_counts(model, batch, times_of(batch, problems)))


@dataclass(frozen=True, eq=False)
class _Cut:
    """How problems are cut into blocks."""

    model: LogLinearField
    batch: FieldBatch
    plans: dict[Key, SlicePlan]
    pools: dict[Key, Pool]
    least: int
    merge: bool

    def __call__(self, own: Problems, members: list[Members], number: int) -> Iterator[Block]:
        shape = tuple(int(n) for n in self.batch.graph.states[own.scope[0]])
        gold = Gold.of(self.batch, own)
        if self.merge:
            own, members, gold = _merged(own, members, gold, math.prod(shape))
        count = len(own.weight)
        most = max(1, min(NUMBERS_IN_BLOCK // math.prod(shape), -(-count // self.least)))
        plain = bool((own.weight == 1).all())
        for begin in range(0, count, most):
            end = min(begin + most, count)
            parts = zip(
                own.parts, (_between(member, begin, end) for member in members), strict=True
            )
            yield Block(
                end - begin,
                shape,
                None if plain else own.weight[begin:end].to(self.model.dtype),
                tuple(
                    self._source(part, inside, shape) for part, inside in parts if len(inside.row)
                ),
                gold.between(begin, end, self.model.dtype),
                (number, slice(begin, end)),
            )

    def _source(self, part: Part, inside: Members, shape: tuple[int, ...]) -> Source:
        key = Key(part.group, part.free)
        view = tuple(n if k in part.covers else 1 for k, n in enumerate(shape))
        if key in self.pools:
            return Source(key.pooled(), self.pools[key].gather(inside), view)
        features = self.batch.features[part.group]
        return Source(key, self.plans[key].place(features, inside, self.model.dtype), view)


def _members(batch: FieldBatch, part: Part, plan: SlicePlan) -> Members:
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
    problem: Int64[Tensor, "k"] = members.problem[inside] - begin
    return Members(end - begin, problem, members.row[inside], members.other[inside])

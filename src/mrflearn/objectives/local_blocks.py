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
from mrflearn.models.templates import attributes_of, cells_of
from mrflearn.objectives.local_problems import Part, Problems

NUMBERS_IN_BLOCK = 700_000  # problems times cells: a handful of such arrays stays near the cores
Key = tuple[int, tuple[int, ...]]  # template and free axes


@dataclass(frozen=True, eq=False)
class Source:
    """What one kind of factor adds to the scores of a block, in the shape of `view`."""

    key: Key
    incidence: Incidence
    view: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Block:
    """Problems whose labels are known: their scores add up what the sources say."""

    count: int
    shape: tuple[int, ...]
    weight: Float[Tensor, "n"] | None  # None: each counts once
    sources: tuple[Source, ...]
    place: tuple[int, slice]  # which record of problems, and where in it


@dataclass(frozen=True, eq=False)
class Laid:
    """Blocks, the plans they use, and the sum of the features of the known labels."""

    plans: dict[Key, SlicePlan]
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
    blocks: list[Block] = []
    for number, own in enumerate(problems):
        for part in own.parts:
            key = (part.group, part.free)
            if key not in plans:
                plans[key] = SlicePlan.of(model.templates[part.group], part.free)
        blocks.extend(_blocks(model, batch, own, number, plans, least, merge))
    return Laid(plans, blocks, observed_counts(model, batch, _times(batch, problems)))


def observed_counts(
    model: LogLinearField, batch: FieldBatch, counts: list[Float[Tensor, "f"]]
) -> Float[Tensor, "p"]:
    """How often each weight counts in the scores of known labels, given how often factors do."""
    pieces: list[Tensor] = []
    for index, (count, template) in enumerate(zip(counts, model.templates, strict=True)):
        seen = count.nonzero().squeeze(1)
        scope = batch.graph.groups[index].scope[seen]
        cell = cells_of(batch.states[scope], template.shape)
        pieces.extend(_observed(model, batch, index, seen, cell, count[seen]))
    return torch.cat(pieces)


def _times(batch: FieldBatch, problems: list[Problems]) -> list[Float[Tensor, "f"]]:
    """How often each factor takes part in problems."""
    counts = [torch.zeros(len(own), dtype=torch.float64) for own in batch.graph.groups]
    for own in problems:
        for part in own.parts:
            counts[part.group].index_add_(0, part.factor, own.weight[part.problem])
    return counts


def _observed(
    model: LogLinearField,
    batch: FieldBatch,
    index: int,
    seen: Tensor,
    cell: Tensor,
    count: Tensor,
) -> Iterator[Tensor]:
    template, features = model.templates[index], batch.features[index]
    row = batch.graph.groups[index].table[seen]
    place, owner = attributes_of(features, row)
    code = features.attributes[place].long() * template.cells + cell[owner]
    value = count[owner]
    if features.values is not None:
        value = value * features.values[place]
    codes = template.attribute * template.cells + template.cell
    total = torch.zeros(len(codes), dtype=torch.float64)
    if len(codes):
        found = torch.searchsorted(codes, code).clamp(max=len(codes) - 1)
        kept = codes[found] == code
        total.index_add_(0, found[kept], value[kept])
    yield total
    if len(model.dense[index]):
        dense = torch.zeros(template.cells, len(template.columns), dtype=torch.float64)
        assert features.dense is not None  # noqa: S101 - its columns have weights
        dense.index_add_(0, cell, features.dense[row].double() * count[:, None])
        yield dense.t().flatten()


def _blocks(
    model: LogLinearField,
    batch: FieldBatch,
    own: Problems,
    number: int,
    plans: dict[Key, SlicePlan],
    least: int,
    merge: bool,
) -> Iterator[Block]:
    shape = tuple(int(n) for n in batch.graph.states[own.scope[0]])
    members = [_members(batch, part, plans[part.group, part.free]) for part in own.parts]
    if merge:
        own, members = _merged(own, members)
    count = len(own.weight)
    most = max(1, min(NUMBERS_IN_BLOCK // math.prod(shape), -(-count // least)))
    plain = bool((own.weight == 1).all())
    for begin in range(0, count, most):
        end = min(begin + most, count)
        sources = []
        for part, member in zip(own.parts, members, strict=True):
            inside = _between(member, begin, end)
            if len(inside.row):
                key = (part.group, part.free)
                placed = plans[key].place(batch.features[part.group], inside, model.dtype)
                view = tuple(n if k in part.covers else 1 for k, n in enumerate(shape))
                sources.append(Source(key, placed, view))
        yield Block(
            end - begin,
            shape,
            None if plain else own.weight[begin:end].to(model.dtype),
            tuple(sources),
            (number, slice(begin, end)),
        )


def _members(batch: FieldBatch, part: Part, plan: SlicePlan) -> Members:
    group = batch.graph.groups[part.group]
    other = plan.other(batch.states[group.scope[part.factor]])
    return Members(int(part.problem.max()) + 1, part.problem, group.table[part.factor], other)


def _merged(own: Problems, members: list[Members]) -> tuple[Problems, list[Members]]:
    """The same problems, those of one member that read the same scores merged into one."""
    if len(members) != 1 or len(members[0].row) != len(own):
        return own, members
    alike = torch.stack([members[0].row, members[0].other], dim=1)
    distinct, number = alike.unique(dim=0, return_inverse=True)
    if len(distinct) == len(own):
        return own, members
    weight = torch.zeros(len(distinct), dtype=torch.float64).index_add_(0, number, own.weight)
    row, other = distinct.unbind(dim=1)
    merged = Members(len(row), torch.arange(len(row)), row, other)
    return Problems(own.scope[: len(row)], weight, own.parts), [merged]


def _between(members: Members, begin: int, end: int) -> Members:
    low, high = torch.searchsorted(members.problem, torch.tensor([begin, end])).tolist()
    inside = slice(low, high)
    problem: Int64[Tensor, "k"] = members.problem[inside] - begin
    return Members(end - begin, problem, members.row[inside], members.other[inside])

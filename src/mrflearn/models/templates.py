"""Which attributes have a weight for which labels of a factor, decided by what was seen.

A template is a kind of factor: its weights are tied, one for each supported pair of an attribute
and a cell (a tuple of labels, numbered like the entries of a table of that shape).

Letters in shapes: w: weights; f: factors; a: their arity; z: attributes of all factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int64
from scipy.sparse import coo_array
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.features.compiled import CompiledFeatures
from mrflearn.features.features import UNKNOWN, Numbering
from mrflearn.models.field_batch import FieldBatch


@dataclass(frozen=True, eq=False)
class Template:
    """The weighted pairs of one kind of factor, ordered by attribute and cell.

    Every dense column has a weight for every cell.
    """

    name: str
    shape: tuple[int, ...]
    names: Numbering
    columns: tuple[str, ...]
    attribute: Int64[Tensor, "w"]
    cell: Int64[Tensor, "w"]

    @property
    def cells(self) -> int:
        """How many tuples of labels there are."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        return len(self.attribute)


def find_templates(
    batch: FieldBatch, *, min_freq: float = 0.0, everything: bool = False
) -> tuple[Template, ...]:
    """A template for every group: the pairs whose values sum to `min_freq` or more.

    Pairs never seen together are left out unless `everything` is asked for.  A factor counts for
    each tuple that its sets of labels allow, and for none where a label is wholly unknown.
    """
    found = []
    for index, (group, features) in enumerate(zip(batch.graph.groups, batch.features, strict=True)):
        most = batch.graph.most_states  # all that is known of factors never met
        shape = batch.graph.shape(group) if len(group) else (most,) * group.arity
        pairs = _pairs(batch, index, shape, min_freq, everything)
        names = features.names
        if not names.closed:
            names = Numbering(names, closed=True)
        found.append(Template(group.name, shape, names, features.columns, *pairs))
    return tuple(found)


def cells_of(
    states: Int64[Tensor, "f a"], shape: tuple[int, ...] | list[int]
) -> Int64[Tensor, "f"]:
    """Which entry of a flattened table of this shape each row of states names."""
    cells = torch.zeros(len(states), dtype=torch.int64)
    for axis, size in enumerate(shape):
        cells = cells * size + states[:, axis]
    return cells


def attributes_of(
    features: CompiledFeatures, rows: Int64[Tensor, "f"]
) -> tuple[Int64[Tensor, "z"], Int64[Tensor, "z"]]:
    """For the attributes of these rows, one after the other: where they stand, and whose they are.

    The first answer counts the places of `features.attributes`, the second those of `rows`.
    """
    ends = features.ends[rows]
    begins = torch.where(rows > 0, features.ends[(rows - 1).clamp(min=0)], 0)
    size = ends - begins
    owner = torch.arange(len(rows)).repeat_interleave(size)
    shift = begins - (size.cumsum(0) - size)
    return torch.arange(len(owner)) + shift[owner], owner


def shared_pairs(one: Template, other: Template) -> tuple[Int64[Tensor, "n"], Int64[Tensor, "n"]]:
    """Where the pairs that two templates of one shape both have stand in each."""
    if one.shape != other.shape:
        raise GraphError(
            f"factors '{one.name}' have {one.shape} labels in one model, {other.shape} in another."
        )
    number = torch.tensor([other.names.get(name, UNKNOWN) for name in one.names]).long()
    renamed = number[one.attribute]
    here = (renamed != UNKNOWN).nonzero().squeeze(1)
    code = renamed[here] * one.cells + one.cell[here]
    codes = other.attribute * other.cells + other.cell
    if not len(codes):
        return here[:0], here[:0]
    there = torch.searchsorted(codes, code).clamp(max=len(codes) - 1)
    both = codes[there] == code
    return here[both], there[both]


def _pairs(
    batch: FieldBatch, index: int, shape: tuple[int, ...], min_freq: float, everything: bool
) -> tuple[Tensor, Tensor]:
    features, size = batch.features[index], math.prod(shape)
    count = len(features.names)
    if everything:
        code = torch.arange(count * size)
        return code.div(size, rounding_mode="floor"), code % size
    factor, cell = _seen(batch, index, shape)
    place, owner = attributes_of(features, batch.graph.groups[index].table[factor])
    value = np.ones(len(place)) if features.values is None else features.values[place].numpy()
    attribute, seen = features.attributes[place].numpy(), cell[owner].numpy()
    total = coo_array((value, (attribute, seen)), (count, size)).tocsr()
    total.sort_indices()
    kept = total.data >= min_freq
    attribute = np.repeat(np.arange(count), np.diff(total.indptr))[kept]
    return torch.from_numpy(attribute), torch.from_numpy(total.indices[kept].astype(np.int64))


def _seen(
    batch: FieldBatch, index: int, shape: tuple[int, ...]
) -> tuple[Int64[Tensor, "n"], Int64[Tensor, "n"]]:
    """Factors of a group and the cells their labels allow."""
    scope = batch.graph.groups[index].scope
    sure = batch.known()[scope].all(dim=1)
    factor = sure.nonzero().squeeze(1)
    cell = cells_of(batch.states[scope[factor]], shape)
    if bool(sure.all()):
        return factor, cell
    allowed, legal = batch.allowed_states(), batch.graph.legal()
    told = (allowed == legal).all(dim=1).logical_not() | (batch.graph.states == 1)
    open_ones = (~sure & told[scope].all(dim=1)).nonzero().squeeze(1)
    row, more = joint_mask(allowed, scope[open_ones], shape).nonzero().unbind(dim=1)
    return torch.cat([factor, open_ones[row]]), torch.cat([cell, more])


def joint_mask(
    allowed: Bool[Tensor, "v s"], scope: Int64[Tensor, "f a"], shape: tuple[int, ...]
) -> Bool[Tensor, "f cells"]:
    """Which cells of each factor have an allowed state on every axis."""
    mask = torch.ones(len(scope), 1, dtype=torch.bool)
    for axis, size in enumerate(shape):
        own = allowed[scope[:, axis], :size]
        mask = (mask.unsqueeze(2) & own.unsqueeze(1)).flatten(1)
    return mask

"""Weights of attribute-label pairs laid out for speed: frequent attributes as rows of a table.

Most attributes of text are rare and were seen with one label; their weights are kept one by one.
The others get a row of all labels in a table small enough for the cache, so that the scores of a
token are a sum of rows.

Letters in shapes: f: weights; a: attributes; s: labels; w, n: weights kept wide (in the table) and
narrow (one by one), f = w + n; r: rows of the table; k: tokens; z: attributes of all tokens;
u: rows in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int, Int32, Int64
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn.functional import embedding_bag

from mrflearn.features.features import CompiledFeatures
from mrflearn.features.support import Support

# An attribute is narrow if it has weights for at most this share of the labels (or for one only).
NARROW_SHARE = 16
LONGEST_PIECE = 256  # of a bag on a GPU, where one thread adds up a piece


@dataclass(frozen=True, eq=False)
class WeightPlan:
    """Where each weight lies; -1 in `row`: the attribute is narrow."""

    labels: int
    rows: int
    row: Int32[Tensor, " a"]
    wide: Int64[Tensor, " w"]
    place: Int64[Tensor, " w"]  # row * labels + label
    narrow: Int64[Tensor, " n"]
    narrow_label: Int64[Tensor, " n"]
    narrow_first: Int64[Tensor, " a+1"]

    @classmethod
    def of(cls, support: Support) -> WeightPlan:
        """The plan of the weights of attributes and labels."""
        sizes = len(support.attributes), len(support.labels)
        return cls.over(support.attribute, support.label, *sizes)

    @classmethod
    def over(
        cls,
        attribute: Int64[Tensor, " f"],
        label: Int64[Tensor, " f"],
        attributes: int,
        labels: int,
    ) -> WeightPlan:
        """The plan of weights in ascending order of their attributes."""
        count = torch.bincount(attribute, minlength=attributes)
        is_wide = count > max(1, labels // NARROW_SHARE)
        row = torch.where(is_wide, is_wide.cumsum(0) - 1, -1).int()
        chosen = is_wide[attribute]
        wide, narrow = chosen.nonzero().squeeze(1), (~chosen).nonzero().squeeze(1)
        place = row[attribute[wide]].long() * labels + label[wide]
        first = torch.zeros(attributes + 1, dtype=torch.int64)
        first[1:] = torch.where(is_wide, 0, count).cumsum(0)
        return cls(labels, int(is_wide.sum()), row, wide, place, narrow, label[narrow], first)

    def table(self, weights: Float[Tensor, " f"]) -> Float[Tensor, "r s"]:
        """The wide weights as rows; 0 where a label has none."""
        flat = weights.new_zeros(self.rows * self.labels)
        flat.index_copy_(0, self.place, weights.index_select(0, self.wide))
        return flat.view(self.rows, self.labels)

    def to(self, device: torch.device) -> WeightPlan:
        """The same plan on another device."""
        tensors = (self.row, self.wide, self.place, self.narrow, self.narrow_label)
        moved = (tensor.to(device) for tensor in (*tensors, self.narrow_first))
        return WeightPlan(self.labels, self.rows, *moved)


@dataclass(frozen=True, eq=False)
class Bags:
    """Sums of rows of a table: bag i adds rows index[begin[i]] up to the next beginning.

    With `owner` these are pieces, and bag owner[i] is the sum of its pieces.
    """

    index: Int[Tensor, " z"]
    begin: Int[Tensor, " k"]
    value: Float[Tensor, " z"] | None
    owner: Int64[Tensor, " k"] | None = None

    def sums(self, table: Float[Tensor, "r s"]) -> Float[Tensor, "k s"]:
        """One row a bag."""
        if not len(table) or not len(self.begin):
            return table.new_zeros(len(self.begin), table.shape[1])
        value = None if self.value is None else self.value.to(table.dtype)
        total: Tensor = embedding_bag(
            self.index, table, self.begin, mode="sum", per_sample_weights=value
        )
        if self.owner is None:
            return total
        whole = total.new_zeros(self.count, table.shape[1])
        return whole.index_add_(0, self.owner, total)

    @cached_property
    def count(self) -> int:
        """How many bags there are."""
        if self.owner is None:
            return len(self.begin)
        return int(self.owner[-1]) + 1 if len(self.owner) else 0

    def in_pieces(self, longest: int) -> Bags:
        """The same sums, no piece longer than this: an attribute of all tokens is no bottleneck."""
        ends = torch.cat([self.begin[1:], self.begin.new_tensor([len(self.index)])])
        pieces = (ends - self.begin + longest - 1).div(longest, rounding_mode="floor").clamp(min=1)
        owner = torch.arange(len(pieces)).repeat_interleave(pieces)
        within = torch.arange(len(owner)) - (pieces.cumsum(0) - pieces)[owner]
        begin = self.begin[owner] + (within * longest).to(self.begin.dtype)
        return Bags(self.index, begin, self.value, owner)

    def transposed(self) -> tuple[Int64[Tensor, " u"], Bags]:
        """The rows in use, and a bag over tokens for each: what carries gradients back."""
        ends = np.append(self.begin.numpy(), len(self.index))
        value = torch.ones(len(self.index)) if self.value is None else self.value
        shape = (len(self.begin), int(self.index.max()) + 1 if len(self.index) else 0)
        turned = csr_array((value.numpy(), self.index.numpy(), ends), shape).tocsc()
        begin = torch.from_numpy(turned.indptr)
        used = begin.diff().nonzero().squeeze(1)
        back = Bags(
            torch.from_numpy(turned.indices),
            begin[used],
            None if self.value is None else torch.from_numpy(turned.data),
        )
        return used, back

    def to(self, device: torch.device) -> Bags:
        """The same bags on another device."""
        value, owner = (
            None if part is None else part.to(device) for part in (self.value, self.owner)
        )
        return Bags(self.index.to(device), self.begin.to(device), value, owner)


@dataclass(frozen=True, eq=False)
class Singles:
    """Single weights: weight[i] counts `value[i]` times at place[i] = token * labels + label."""

    place: Int[Tensor, " z"]
    weight: Int[Tensor, " z"]
    value: Float[Tensor, " z"] | None

    def add_scores(self, weights: Float[Tensor, " f"], scores: Float[Tensor, "k s"]) -> None:
        """Adds the weights to the scores of their tokens and labels, in place."""
        chosen = weights.index_select(0, self.weight)
        if self.value is not None:
            chosen *= self.value
        scores.view(-1).index_add_(0, self.place, chosen)

    def add_gradient(self, slopes: Float[Tensor, "k s"], gradient: Float[Tensor, " f"]) -> None:
        """Adds to each weight's gradient the slopes of the scores it is in, in place."""
        chosen = slopes.view(-1).index_select(0, self.place)
        if self.value is not None:
            chosen *= self.value
        gradient.index_add_(0, self.weight, chosen)

    def sorted(self) -> Singles:
        """The same, weight by weight."""
        order = self.weight.argsort(stable=True)
        value = None if self.value is None else self.value[order]
        return Singles(self.place[order], self.weight[order], value)

    def to(self, device: torch.device) -> Singles:
        """The same on another device."""
        value = None if self.value is None else self.value.to(device)
        return Singles(self.place.to(device), self.weight.to(device), value)


def incidence(
    plan: WeightPlan, tokens: CompiledFeatures, dtype: torch.dtype
) -> tuple[Bags, Singles]:
    """Which weights the scores of these tokens are made of."""
    kind = _index_type(max(len(tokens.attributes), tokens.tokens * plan.labels))
    row, owner = plan.row[tokens.attributes], tokens.owner
    values = None if tokens.values is None else tokens.values.to(dtype)
    wide = row >= 0
    counts = torch.bincount(owner[wide], minlength=tokens.tokens)
    bags = Bags(
        row[wide].to(kind),
        (counts.cumsum(0) - counts).to(kind),
        None if values is None else values[wide],
    )
    narrow = ~wide
    attribute = tokens.attributes[narrow]
    begin, many = plan.narrow_first[attribute], plan.narrow_first.diff()[attribute]
    within = torch.arange(int(many.sum())) - (many.cumsum(0) - many).repeat_interleave(many)
    position = begin.repeat_interleave(many) + within
    place = owner[narrow].to(kind).repeat_interleave(many) * plan.labels
    singles = Singles(
        place + plan.narrow_label[position].to(kind),
        plan.narrow[position].to(kind),
        None if values is None else values[narrow].repeat_interleave(many),
    )
    return bags, singles


def joined(
    parts: Sequence[tuple[Bags, Singles]], begins: Sequence[int], labels: int
) -> tuple[Bags, Singles]:
    """Bags and singles of several blocks as of one, block i beginning at token begins[i]."""
    kind = _index_type(max(sum(len(bags.index) for bags, _ in parts), (begins[-1] + 1) * labels))
    shift = np.cumsum([0, *(len(bags.index) for bags, _ in parts)])
    bags = Bags(
        torch.cat([bags.index for bags, _ in parts]),
        torch.cat(
            [bags.begin.to(kind) + int(n) for (bags, _), n in zip(parts, shift, strict=False)]
        ),
        _cat([bags.value for bags, _ in parts]),
    )
    places = [s.place.to(kind) + n * labels for (_, s), n in zip(parts, begins, strict=True)]
    weights = torch.cat([singles.weight for _, singles in parts])
    return bags, Singles(torch.cat(places), weights, _cat([s.value for _, s in parts]))


def _cat(values: list[Tensor | None]) -> Tensor | None:
    held = [value for value in values if value is not None]
    return torch.cat(held) if held else None


def _index_type(largest: int) -> torch.dtype:
    return torch.int32 if largest < 2**31 else torch.int64

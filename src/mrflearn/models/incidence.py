"""Sparse sums of weights: which weights the scores of a row are made of, and the way back.

Most attributes of text are rare and were seen with one label; their weights are kept one by one.
The others get a row of all labels in a table small enough for the cache, so that the scores of a
token are a sum of rows.  What is said of labels here holds for any cells of a factor.

Letters in shapes: f: weights; a: attributes; s: labels; w, n: weights kept wide (in the table) and
narrow (one by one), f = w + n; r: rows of the table; k: tokens; z: attributes of all tokens;
u: rows in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int, Int32, Int64
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn.functional import embedding_bag

from mrflearn.features.features import CompiledFeatures

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
    def of(
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

    def add_wide(self, table: Float[Tensor, "r s"], gradient: Float[Tensor, " f"]) -> None:
        """Adds the gradient of the rows of the table to that of the weights, in place."""
        gradient.index_add_(0, self.wide, table.view(-1).index_select(0, self.place))


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

    def add_gradient(self, scores: Float[Tensor, "k s"], gradient: Float[Tensor, " f"]) -> None:
        """Adds to each weight's gradient those of the scores it is in, in place."""
        chosen = scores.view(-1).index_select(0, self.place)
        if self.value is not None:
            chosen *= self.value
        gradient.index_add_(0, self.weight, chosen)

    def sorted(self) -> Singles:
        """The same, weight by weight."""
        order = self.weight.argsort(stable=True)
        value = None if self.value is None else self.value[order]
        return Singles(self.place[order], self.weight[order], value)


@dataclass(frozen=True, eq=False)
class WeightIncidence:
    """The weights that the scores of rows are made of: rows of a table, and single weights.

    `back` has the rows of the table in use, and a bag over the rows here for each of them.
    """

    bags: Bags
    singles: Singles
    back: tuple[Int64[Tensor, " u"], Bags] | None = None

    @classmethod
    def of(cls, plan: WeightPlan, tokens: CompiledFeatures, dtype: torch.dtype) -> WeightIncidence:
        """The incidence of every row of features, without a way back."""
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
        return cls(bags, singles)

    @classmethod
    def joined(
        cls, parts: Sequence[WeightIncidence], begins: Sequence[int], labels: int
    ) -> WeightIncidence:
        """Several incidences as one, that of part i beginning at row begins[i]."""
        bags, singles = [own.bags for own in parts], [own.singles for own in parts]
        kind = _index_type(max(sum(len(own.index) for own in bags), (begins[-1] + 1) * labels))
        shift = np.cumsum([0, *(len(own.index) for own in bags)]).tolist()
        wide = Bags(
            torch.cat([own.index for own in bags]),
            torch.cat([own.begin.to(kind) + n for own, n in zip(bags, shift, strict=False)]),
            _cat([own.value for own in bags]),
        )
        place = [own.place.to(kind) + n * labels for own, n in zip(singles, begins, strict=True)]
        narrow = Singles(
            torch.cat(place),
            torch.cat([own.weight for own in singles]),
            _cat([own.value for own in singles]),
        )
        return cls(wide, narrow)

    def with_back(self, longest: int | None = None) -> WeightIncidence:
        """The same with its way back, in pieces no longer than this."""
        used, bags = self.bags.transposed()
        back = bags if longest is None else bags.in_pieces(longest)
        return replace(self, back=(used, back))

    def only_back(self, longest: int | None = None) -> WeightIncidence:
        """The way back alone, single weights in the order in which gradients add them up."""
        nothing = self.bags.index[:0]
        back = self.with_back(longest).back
        return WeightIncidence(Bags(nothing, nothing, None), self.singles.sorted(), back)

    def scores(
        self, weights: Float[Tensor, " f"], table: Float[Tensor, "r s"]
    ) -> Float[Tensor, "k s"]:
        """The scores of the labels of every row, in memory of their own."""
        scores = self.bags.sums(table)
        self.singles.add_scores(weights, scores)
        return scores

    def add_gradient(
        self,
        gradient: Float[Tensor, "k s"],
        weights: Float[Tensor, " f"],
        table: Float[Tensor, "r s"],
    ) -> None:
        """Adds the gradient of scores to those of single weights and of rows of the table."""
        assert self.back is not None  # noqa: S101 - made for training
        used, bags = self.back
        if len(used):
            table.index_add_(0, used, bags.sums(gradient))
        self.singles.add_gradient(gradient, weights)


def _cat(values: list[Tensor | None]) -> Tensor | None:
    held = [value for value in values if value is not None]
    return torch.cat(held) if held else None


def _index_type(largest: int) -> torch.dtype:
    return torch.int32 if largest < 2**31 else torch.int64

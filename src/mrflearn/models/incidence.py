"""Sparse sums of weights: which weights the scores of a row are made of, and the way back.

Most attributes of text are rare and were seen with one label; their weights are kept one by one.
The others get a row of all labels in a table small enough for the cache, so that the scores of a
token are a sum of rows.  What is said of labels here holds for any cells of a factor.

With the states of some axes given and folded into the attribute (`attribute * others + other`) a
slice of a factor is what a token is to a chain: a bag of attributes with weights for labels.  So
one layout serves for complete tables (nothing given) as for single rows and columns.

Letters in shapes: f: weights; a: attributes; s: labels; w, n: weights kept wide (in the table) and
narrow (one by one), f = w + n; r: rows of the table; k: tokens; z: attributes of all tokens;
u: rows in use.  Of slices, n: problems; l: cells of the free axes; k: members, each the part that
one factor plays in one problem; d: dense columns; t: all cells of the template.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int, Int32, Int64
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn.functional import embedding_bag

from mrflearn.features.features import CompiledFeatures, Numbering, attributes_of
from mrflearn.features.index import FactorTemplate, Pairs, cells_of

# An attribute is narrow if it has weights for at most this share of the labels (or for one only).
NARROW_SHARE = 16
LONGEST_PIECE = 256  # of a bag on a GPU, where one thread adds up a piece

Weights = Float[Tensor, " f"]
WideRows = Float[Tensor, "r s"]  # the weights of wide attributes, a row each
DenseWeights = Float[Tensor, "d t"]
Scores = Float[Tensor, "k s"]  # of the labels of rows


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
    def of(cls, pairs: Pairs, attributes: int, labels: int) -> WeightPlan:
        """The plan of the weights of pairs (attribute, label) that rise by attribute."""
        attribute, label = pairs
        count = torch.bincount(attribute, minlength=attributes)
        is_wide = count > max(1, labels // NARROW_SHARE)
        row = torch.where(is_wide, is_wide.cumsum(0) - 1, -1).int()
        chosen = is_wide[attribute]
        wide, narrow = chosen.nonzero().squeeze(1), (~chosen).nonzero().squeeze(1)
        place = row[attribute[wide]].long() * labels + label[wide]
        first = torch.zeros(attributes + 1, dtype=torch.int64)
        first[1:] = torch.where(is_wide, 0, count).cumsum(0)
        return cls(labels, int(is_wide.sum()), row, wide, place, narrow, label[narrow], first)

    def table(self, weights: Weights) -> WideRows:
        """The wide weights as rows; 0 where a label has none."""
        flat = weights.new_zeros(self.rows * self.labels)
        flat.index_copy_(0, self.place, weights.index_select(0, self.wide))
        return flat.view(self.rows, self.labels)

    def add_wide(self, table: WideRows, gradient: Weights) -> None:
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

    def sums(self, table: WideRows) -> Scores:
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
        values = None if self.value is None else torch.from_numpy(turned.data)
        return used, Bags(torch.from_numpy(turned.indices), begin[used], values)


@dataclass(frozen=True, eq=False)
class Singles:
    """Single weights: weight[i] counts `value[i]` times at place[i] = token * labels + label."""

    place: Int[Tensor, " z"]
    weight: Int[Tensor, " z"]
    value: Float[Tensor, " z"] | None

    def add_scores(self, weights: Weights, scores: Scores) -> None:
        """Adds the weights to the scores of their tokens and labels, in place."""
        chosen = weights.index_select(0, self.weight)
        if self.value is not None:
            chosen *= self.value
        scores.view(-1).index_add_(0, self.place, chosen)

    def add_gradient(self, scores: Scores, gradient: Weights) -> None:
        """Adds to each weight's gradient those of the scores it is in, in place."""
        chosen = scores.view(-1).index_select(0, self.place)
        if self.value is not None:
            chosen *= self.value
        gradient.index_add_(0, self.weight, chosen)


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
        most = max(len(tokens.attributes), tokens.tokens * plan.labels)
        kind = torch.int32 if most < 2**31 else torch.int64
        attributes, owner, values = tokens.attributes, tokens.owner, tokens.values
        if values is not None:
            counted = values.nonzero().squeeze(1)  # what is False adds nothing
            attributes, owner = attributes[counted], owner[counted]
            ones = bool((values[counted] == 1).all())
            values = None if ones else values[counted].to(dtype)
        row = plan.row[attributes]
        wide, narrow = row >= 0, row < 0
        counts = torch.bincount(owner[wide], minlength=tokens.tokens)
        begin = (counts.cumsum(0) - counts).to(kind)
        bags = Bags(row[wide].to(kind), begin, None if values is None else values[wide])
        attribute = attributes[narrow]
        many = plan.narrow_first.diff()[attribute]
        shift = plan.narrow_first[attribute] - (many.cumsum(0) - many)
        position = torch.arange(int(many.sum())) + shift.repeat_interleave(many)
        place = owner[narrow].to(kind).repeat_interleave(many) * plan.labels
        singles = Singles(
            place + plan.narrow_label[position].to(kind),
            plan.narrow[position].to(kind),
            None if values is None else values[narrow].repeat_interleave(many),
        )
        return cls(bags, singles)

    def rows(self, first: int, end: int, labels: int) -> WeightIncidence:
        """That of the rows from `first` on and before `end`, without a way back."""
        bags, singles = self.bags, self.singles
        begin = bags.begin[first:end]
        low, high = (
            int(bags.begin[k]) if k < len(bags.begin) else len(bags.index) for k in (first, end)
        )
        wide, place = slice(low, high), singles.place
        bounds = place.new_tensor([first * labels, end * labels])
        narrow = slice(*torch.searchsorted(place, bounds).tolist())
        return WeightIncidence(
            Bags(bags.index[wide], begin - low, None if bags.value is None else bags.value[wide]),
            Singles(
                place[narrow] - first * labels,
                singles.weight[narrow],
                None if singles.value is None else singles.value[narrow],
            ),
        )

    def with_back(self, longest: int | None = None) -> WeightIncidence:
        """The same with its way back, in pieces no longer than this."""
        used, bags = self.bags.transposed()
        return replace(self, back=(used, bags if longest is None else bags.in_pieces(longest)))

    def only_back(self, longest: int | None = None) -> WeightIncidence:
        """The way back alone, single weights in the order in which gradients add them up."""
        own, order = self.singles, self.singles.weight.argsort(stable=True)
        value = None if own.value is None else own.value[order]
        singles = Singles(own.place[order], own.weight[order], value)
        return WeightIncidence(self.rows(0, 0, 1).bags, singles, self.with_back(longest).back)

    def scores(self, weights: Weights, table: WideRows) -> Scores:
        """The scores of the labels of every row, in memory of their own."""
        scores = self.bags.sums(table)
        self.singles.add_scores(weights, scores)
        return scores

    def add_gradient(self, gradient: Scores, weights: Weights, table: WideRows) -> None:
        """Adds the gradient of scores to those of single weights and of rows of the table."""
        assert self.back is not None  # noqa: S101 - made for training
        used, bags = self.back
        if len(used):
            table.index_add_(0, used, bags.sums(gradient))
        self.singles.add_gradient(gradient, weights)

    def pulled_back(self, gradient: Scores, plan: WeightPlan, found: Weights) -> Weights:
        """The gradient of all weights from that of the scores, written over zeros."""
        assert self.back is not None  # noqa: S101 - made for training
        used, bags = self.back
        table = bags.sums(gradient)
        if len(used) < plan.rows:
            table = table.new_zeros(plan.rows, plan.labels).index_copy_(0, used, table)
        found.index_copy_(0, plan.wide, table.view(-1).index_select(0, plan.place))
        self.singles.add_gradient(gradient, found)
        return found


# Scores of some axes of a template's factors, the states on the other axes being given.


NO_NAMES = Numbering(closed=True)


@dataclass(frozen=True, eq=False)
class SlicePlan:
    """Where the weights of a template lie, seen from its `free` axes (in that order)."""

    template: FactorTemplate
    cells: Int64[Tensor, "o l"]  # of the template, by the states of its given and its free axes
    codes: Int64[Tensor, " u"] | None  # attribute * others + other, ascending; None: the attribute
    weights: WeightPlan
    given: list[int]  # the axes that are not free

    @classmethod
    def of(cls, template: FactorTemplate, free: tuple[int, ...]) -> SlicePlan:
        given = [axis for axis in range(len(template.shape)) if axis not in free]
        size = math.prod(template.shape[axis] for axis in free)
        shaped = torch.arange(template.cells).view(template.shape)
        cells = shaped.permute(*given, *free).reshape(-1, size)
        if len(cells) == 1 and bool((cells[0].diff() > 0).all()):
            pairs = (template.attribute, template.cell)
            plan = WeightPlan.of(pairs, len(template.names), template.cells)
            return cls(template, cells, None, plan, given)
        place = cells.flatten().argsort()[template.cell]
        other, label = place.div(size, rounding_mode="floor"), place % size
        codes, number = torch.unique(template.attribute * len(cells) + other, return_inverse=True)
        order = (number * size + label).argsort()
        plan = WeightPlan.of((number[order], label[order]), len(codes), size)
        plan = replace(plan, wide=order[plan.wide], narrow=order[plan.narrow])
        return cls(template, cells, codes, plan, given)

    @property
    def others(self) -> int:
        """How many tuples of states the given axes have."""
        return len(self.cells)

    def other(self, states: Int64[Tensor, "k a"]) -> Int64[Tensor, " k"]:
        """Which tuple the given axes are in."""
        return cells_of(states[:, self.given], [self.template.shape[axis] for axis in self.given])

    def members(self, codes: Int64[Tensor, " k"]) -> Members:
        """One member for each code: row of features * others + other."""
        row, other = codes.div(self.others, rounding_mode="floor"), codes % self.others
        return Members(len(codes), torch.arange(len(codes)), row, other)

    def place(
        self, features: CompiledFeatures, members: Members, dtype: torch.dtype
    ) -> FeatureIncidence:
        """Which weights the scores of these problems are made of."""
        place, owner = attributes_of(features, members.row)
        found, kept = features.attributes[place], torch.ones(len(place), dtype=torch.bool)
        if self.codes is not None:
            code = found.long() * self.others + members.other[owner]
            found = torch.searchsorted(self.codes, code).clamp(max=max(len(self.codes) - 1, 0))
            kept = self.codes[found] == code if len(self.codes) else ~kept
        problem = members.problem[owner[kept]]
        counts = torch.bincount(problem, minlength=members.problems)
        values = None if features.values is None else features.values[place[kept]]
        bag = CompiledFeatures(
            NO_NAMES, (), counts, counts.cumsum(0), found[kept].int(), values, None
        )
        dense = None if features.dense is None else features.dense[members.row].to(dtype)
        incidence = WeightIncidence.of(self.weights, bag, dtype).with_back()
        return FeatureIncidence(self, incidence, dense, members)


@dataclass(frozen=True, eq=False)
class Members:
    """Parts of factors in problems, in the order of the problems.

    `row` names the features of the factor, `other` the tuple its given axes are in.
    """

    problems: int
    problem: Int64[Tensor, " k"]
    row: Int64[Tensor, " k"]
    other: Int64[Tensor, " k"]


@dataclass(frozen=True, eq=False)
class FeatureIncidence:
    """The weights that problems read, dense ones too, and the way their gradients take back."""

    plan: SlicePlan
    incidence: WeightIncidence
    dense: Float[Tensor, "k d"] | None
    members: Members

    def scores(self, weights: Weights, table: WideRows, dense: DenseWeights) -> Scores:
        """The scores of the free cells of every problem."""
        scores = self.incidence.scores(weights, table)
        if self.dense is not None and len(dense):
            own = self.dense @ dense
            own = own if self.plan.codes is None else own.gather(1, self.cells)
            scores.index_add_(0, self.members.problem, own)
        return scores

    @property
    def cells(self) -> Int64[Tensor, "k l"]:
        """The cells of the template that each member's free ones are."""
        return self.plan.cells[self.members.other]

    def add_gradient(
        self, gradient: Scores, weights: Weights, table: WideRows, dense: DenseWeights
    ) -> None:
        """Adds to the gradients of single weights, of table rows and of dense weights."""
        self.incidence.add_gradient(gradient, weights, table)
        self.add_dense_gradient(gradient, dense)

    def add_dense_gradient(self, gradient: Scores, dense: DenseWeights) -> None:
        """Adds to the gradient of dense weights."""
        if self.dense is not None and len(dense):
            own = gradient[self.members.problem]
            if self.plan.codes is not None:
                full = own.new_zeros(len(own), self.plan.template.cells)
                own = full.scatter_(1, self.cells, own)
            dense.addmm_(self.dense.t(), own)


def whole_incidence(
    plan: SlicePlan,
    features: CompiledFeatures,
    dtype: torch.dtype,
    rows: Int64[Tensor, " n"] | None = None,
) -> FeatureIncidence:
    """The incidence of whole tables, one for each of these rows of features (None: for all)."""
    rows = torch.arange(features.tokens) if rows is None else rows
    members = Members(len(rows), torch.arange(len(rows)), rows, torch.zeros_like(rows))
    return plan.place(features, members, dtype)

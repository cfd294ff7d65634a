"""Rules of a grammar, and the two ways to apply them: as dense tables or as sparse matrices.

A part of one word is a preterminal and a longer one a phrase, so that a rule A -> B C is of use
only where its parts have the right lengths: there are four blocks of rules.  A rule has three
roles (parent, left and right part), and a chart asks the same four things of each role: the
products of the symbols in the other two, summed over splits (`pairs`); their sums over rules
(`apply`); how often rules were used (`count`); and what the rules become beside a known word in
this role (`beside`), to `add` what the other part and the parent give each other.

Letters in shapes: b: sentences, the longest of n words; m: spans of one width; k: splits; a:
parents; x, y: symbols of one role; q: pairs of symbols in the two other roles; r: rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.kernels.low_rank import compressed

RULE_COLUMNS = ("parent", "left", "right")
AT_ONCE, AT_ONCE_ON_GPU = 2**13, 2**26  # elements that the products of a step may have
PairValues = Float[Tensor, "q m b"]
Totals = Float[Tensor, "y m b"]
Room: TypeAlias = Literal["everywhere", "before the end", "after the start"]


class Splits(NamedTuple):
    """What is multiplied for each span and summed over its splits."""

    first: Float[Tensor, "b m k x"]
    second: Float[Tensor, "b m k y"]
    share: Float[Tensor, "b m k"] | None  # factors that bring all splits to one scale
    room: Room = "everywhere"  # the further from there, the fewer splits a span has

    @classmethod
    def single(cls, first: Float[Tensor, "b m x"], second: Float[Tensor, "b m y"]) -> Splits:
        """One split per span."""
        return cls(first.unsqueeze(2), second.unsqueeze(2), None)


class RuleBlock(NamedTuple):
    """The three roles in rules whose parts are of two certain sorts."""

    parent: DenseRole | SparseRole
    left: DenseRole | SparseRole
    right: DenseRole | SparseRole


@dataclass(frozen=True, eq=False)
class AppliedRules:
    """Rules with their weights in four blocks, by whether a part is a phrase or a word."""

    weight: Tensor
    places: Sequence[Any]  # of the blocks among the weights
    semiring: Semiring
    phrases: RuleBlock
    word_left: RuleBlock
    word_right: RuleBlock
    words: RuleBlock

    def weighed(self, counts: Sequence[Tensor]) -> Float[Tensor, " r"]:
        """The counts of each block, as `count` has them, times the weights, in the rules' order."""
        total = torch.zeros_like(self.weight)
        for place, own in zip(self.places, counts, strict=True):
            total[place] = own * self.weight[place]
        return total.flatten()


def applied_rules(
    shape: RuleShape,
    weight: Float[Tensor, " r"],
    *,
    dense: bool = False,
    semiring: Semiring | None = None,
    at_once: int | None = None,
) -> AppliedRules:
    """The rules of a full grammar as tables, of any as sparse matrices; see `SparseRole`.

    Weights are logarithms for maxima, which are sparse.
    """
    semiring = semiring or SUM
    if dense:
        weight = weight.view(shape.phrases, shape.symbols, shape.symbols)
        sorts = slice(0, shape.phrases), slice(shape.phrases, None)
        tables = [(slice(None), left, right) for right in sorts for left in sorts]
        blocks = [RuleBlock(*(DenseRole(weight[t], k) for k in range(3))) for t in tables]
        return AppliedRules(weight, tables, semiring, *blocks)
    at_once = at_once if at_once is not None else AT_ONCE_ON_GPU if weight.is_cuda else AT_ONCE
    blocks = []
    for rule, roles in shape.blocks:
        own = weight[rule]
        blocks.append(RuleBlock(*(SparseRole(role, own, semiring, at_once) for role in roles)))
    return AppliedRules(weight, [rule for rule, _ in shape.blocks], semiring, *blocks)


# Which binary rules a grammar has: the wiring of a chart, without any probabilities.


@dataclass(frozen=True, eq=False)
class RuleShape:
    """Rules `parent -> left right`; whatever belongs to a rule is a vector in this order.

    Symbols come in two sorts, numbered in one row: phrases first, each rewritten as two symbols,
    then preterminals, each rewritten as one word [Wang 2005, eq. 2].
    """

    phrases: int
    preterminals: int
    parent: Int[Tensor, " r"]
    left: Int[Tensor, " r"]
    right: Int[Tensor, " r"]
    dense: bool = False  # every phrase has every pair of symbols, in row-major order

    def __post_init__(self) -> None:
        if self.preterminals < 1 or self.phrases < 0:
            raise GraphError(
                f"{self.phrases} phrases and {self.preterminals} preterminals: a grammar needs at "
                "least one preterminal, or it has no words."
            )
        limits = self.phrases, self.symbols, self.symbols
        for name, limit in zip(RULE_COLUMNS, limits, strict=True):
            column: Tensor = getattr(self, name)
            wrong = column[(column < 0) | (column >= limit)]
            if len(wrong):
                raise GraphError(
                    f"a rule's {name} is symbol {int(wrong[0])}, but only 0 to {limit - 1} can "
                    "stand there; phrases are numbered before preterminals."
                )

    @classmethod
    def full(cls, phrases: int, preterminals: int) -> RuleShape:
        """All rules there can be; a vector of them is a (phrases, symbols, symbols) table."""
        symbols = torch.arange(phrases + preterminals)
        every = torch.cartesian_prod(symbols[:phrases], symbols, symbols)
        parent, left, right = every.t().contiguous()
        return cls(phrases, preterminals, parent, left, right, dense=True)

    @property
    def symbols(self) -> int:
        """The number of phrases and preterminals together."""
        return self.phrases + self.preterminals

    @cached_property
    def blocks(self) -> list[tuple[Int[Tensor, " r"], list[ListedRole]]]:
        """The rules by the sorts of their parts, in the order of `AppliedRules`.

        Which rules, and their roles; preterminals are counted from 0 there.
        """
        word_left, word_right = self.left >= self.phrases, self.right >= self.phrases
        left, right = self.left - self.phrases * word_left, self.right - self.phrases * word_right
        sizes = self.phrases, self.preterminals
        found = []
        for second, first in ((False, False), (False, True), (True, False), (True, True)):
            rule = ((word_left == first) & (word_right == second)).nonzero()[:, 0]
            symbols = [column[rule] for column in (self.parent, left, right)]
            sorts = (sizes[0], sizes[first], sizes[second])
            found.append((rule, [ListedRole.of(role, symbols, sorts) for role in range(3)]))
        return found

    def to(self, device: torch.device) -> RuleShape:
        """The same rules on a device."""
        if self.parent.device == device:
            return self
        return replace(self, **{name: getattr(self, name).to(device) for name in RULE_COLUMNS})

    def __len__(self) -> int:
        return len(self.parent)


@dataclass(frozen=True, eq=False)
class RuleLists:
    """Rules sorted by parent: those of phrase a stand from first[a] to first[a + 1]."""

    first: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    score: NDArray[np.float64]

    @classmethod
    def of(cls, shape: RuleShape, score: NDArray[np.float64]) -> RuleLists:
        """The lists of a grammar's rules and their scores."""
        parent, left, right = (x.cpu().numpy() for x in (shape.parent, shape.left, shape.right))
        order = np.argsort(parent, kind="stable")
        first = np.searchsorted(parent[order], np.arange(shape.phrases + 1))
        return cls(first, left[order], right[order], score[order])


# Dense rules: products of matrices.


@dataclass(frozen=True, eq=False)
class DenseRole:
    """One role in a block of rules that all have a weight."""

    weight: Float[Tensor, "a x y"]
    role: int

    @cached_property
    def last(self) -> Float[Tensor, "x y z"]:
        """The weights with this role's symbols last."""
        return self.weight.movedim(self.role, 2).contiguous()

    def pairs(self, splits: Splits) -> Float[Tensor, "b m q"]:
        """All products of a symbol in each of the other two roles, summed over splits."""
        first = splits.first
        first = first if splits.share is None else first * splits.share.unsqueeze(-1)
        return (first.transpose(-1, -2) @ splits.second).flatten(-2)

    def apply(self, pairs: Float[Tensor, "b m q"]) -> Float[Tensor, "b m x"]:
        """The weighed sum over the pairs of each symbol."""
        return pairs @ self.last.flatten(0, 1)

    def count(self, own: Float[Tensor, "b m x"], pairs: Float[Tensor, "b m q"]) -> Tensor:
        """Products of a symbol in this role and a pair, over all spans."""
        found = own.flatten(0, 1).t() @ pairs.flatten(0, 1)
        return found.view(len(found), *self.last.shape[:2]).movedim(0, self.role)

    def beside(self, words: Float[Tensor, "b n x"]) -> Float[Tensor, "b n a x"]:
        """For each word in this role a matrix from the other part to the parent."""
        table = words @ self.last.flatten(0, 1).t()
        return table.view(*words.shape[:2], *self.last.shape[:2])

    def add(self, total: Tensor, values: Tensor, beside: Tensor, words: slice, *, up: bool) -> None:
        """Adds to parents what the other part gives them beside some words, or the other way."""
        table = beside[:, words] if up else beside[:, words].transpose(-1, -2)
        total += (table @ values.unsqueeze(-1))[..., 0]


# Sparse rules: products are formed for the pairs of symbols that some rule has, once a pair, and
# summed over splits before rules are looked at.


@dataclass(frozen=True, eq=False)
class SparseSums:
    """Summand r adds its weight times `source[r]` to `target[r]`; None: itself, unweighed."""

    target: Int[Tensor, " r"]
    source: Int[Tensor, " r"] | None
    targets: int
    sources: int

    @cached_property
    def _rows(self) -> tuple[Int[Tensor, " y+1"], Int[Tensor, " r"], Int[Tensor, " r"]]:
        """Where the summands of each target begin, their sources, and the order that sorts them."""
        order = torch.argsort(self.target, stable=True)
        bounds = torch.arange(self.targets + 1, device=order.device)
        first = torch.searchsorted(self.target[order], bounds)
        source = order if self.source is None else self.source[order]
        # The libraries below want 32 bits, and would convert longer ones with every product.
        return first.int(), source.int(), order

    def matrix(self, weight: Float[Tensor, " r"]) -> Tensor:
        """The sums as a matrix of weights."""
        first, source, order = self._rows
        return compressed(first, source, weight[order], (self.targets, self.sources))


@dataclass(frozen=True, eq=False)
class ListedRole:
    """One role in a list of rules: the symbol there, and the pair in the other two roles."""

    symbol: Int[Tensor, " r"]
    pair: Int[Tensor, " r"]
    pairs: tuple[Int[Tensor, " q"], Int[Tensor, " q"]]  # the distinct ones, by their symbols
    sizes: tuple[int, int, int]  # how many symbols can be in this role, and in the others

    @classmethod
    def of(
        cls, role: int, symbols: Sequence[Int[Tensor, " r"]], sizes: Sequence[int]
    ) -> ListedRole:
        """Rules by the columns of their symbols."""
        one, other = (k for k in range(3) if k != role)
        width = max(sizes[other], 1)
        code, pair = torch.unique(symbols[one] * width + symbols[other], return_inverse=True)
        pairs = code // width, code % width
        return cls(symbols[role], pair, pairs, (sizes[role], sizes[one], sizes[other]))

    @cached_property
    def gathered(self) -> SparseSums:
        """From pairs to the symbols of this role."""
        return SparseSums(self.symbol, self.pair, self.sizes[0], len(self.pairs[0]))

    @cached_property
    def spread(self) -> SparseSums:
        """From symbols of this role to pairs."""
        return SparseSums(self.pair, self.symbol, len(self.pairs[0]), self.sizes[0])

    @cached_property
    def ends(self) -> tuple[SparseSums, ...]:
        """From pairs to the first symbol of each, and to the second."""
        each = zip(self.pairs, self.sizes[1:], strict=True)
        return tuple(SparseSums(symbol, None, size, len(symbol)) for symbol, size in each)


class Semiring(NamedTuple):
    """Two ways to sum over parses: products and sums of numbers, or sums and maxima of logarithms.

    `times_`, `add_` and `add_products_` are in place; `prepare` and `apply` are for sums over
    rules, which are added to a total if there is one.
    """

    zero: float
    times_: Callable[[Tensor, Tensor], Tensor]
    add_: Callable[[Tensor, Tensor], Tensor]
    add_products_: Callable[[Tensor, Tensor, Tensor], Tensor]
    total: Callable[[Tensor, int], Tensor]
    prepare: Callable[[SparseSums, Tensor], Any]
    apply: Callable[[Any, Tensor, Tensor | None], Tensor]


def _apply_matrix(matrix: Tensor, values: PairValues, total: Totals | None) -> Totals:
    size = len(matrix), *values.shape[1:]
    if not matrix.shape[1] or not values[0].numel():
        return values.new_zeros(size) if total is None else total
    found = (matrix @ values.flatten(1)).view(size)
    return found if total is None else total.add_(found)


def _apply_maxima(
    sums: tuple[SparseSums, Float[Tensor, " r"]], values: PairValues, total: Totals | None
) -> Totals:
    listed, weight = sums
    if listed.source is not None:
        values = values.index_select(0, listed.source).add_(weight[:, None, None])
    if total is None:
        total = values.new_full((listed.targets, *values.shape[1:]), -torch.inf)
    row = listed.target[:, None, None].expand_as(values)
    return total.scatter_reduce_(0, row, values, "amax")


def _raise_(total: Tensor, value: Tensor) -> Tensor:
    return torch.maximum(total, value, out=total)


SUM = Semiring(
    0.0, Tensor.mul_, Tensor.add_, Tensor.addcmul_, torch.sum, SparseSums.matrix, _apply_matrix
)
MAX = Semiring(
    -torch.inf,
    Tensor.add_,
    _raise_,
    lambda total, first, second: _raise_(total, first.add_(second)),
    torch.amax,
    lambda sums, weight: (sums, weight),
    _apply_maxima,
)


def _turned(values: Float[Tensor, "b m x"]) -> Float[Tensor, "x m b"]:
    """With symbols first and sentences last, so that picking a symbol copies one long row."""
    return values.permute(2, 1, 0)


@dataclass(frozen=True, eq=False)
class SparseRole:
    """One role in a list of rules with weights.

    Splits come in groups whose products hold about `at_once` numbers: few, so that they stay in a
    processor's caches; a GPU wants them all.
    """

    listed: ListedRole
    weight: Float[Tensor, " r"]
    semiring: Semiring
    at_once: int

    @cached_property
    def gathered(self) -> Any:
        """From pairs to symbols."""
        return self.semiring.prepare(self.listed.gathered, self.weight)

    @cached_property
    def ends(self) -> tuple[Any, ...]:
        """From pairs to the symbols they are made of."""
        ones = self.weight.new_ones(len(self.listed.pairs[0]))
        return tuple(self.semiring.prepare(end, ones) for end in self.listed.ends)

    def pairs(self, splits: Splits) -> PairValues:
        """Products of the pairs that rules have, summed over splits."""
        one, other = self.listed.pairs
        first, second = (x.permute(3, 2, 1, 0) for x in (splits.first, splits.second))
        share = None if splits.share is None else splits.share.permute(2, 1, 0)
        count, m, b = first.shape[1:]
        if share is None and count == 1:
            found = first[:, 0].index_select(0, one)
            return self.semiring.times_(found, second[:, 0].index_select(0, other))
        total = first.new_full((len(one), m, b), self.semiring.zero)
        step = max(1, self.at_once // max(total.numel(), 1))
        for i in range(0, count, step):
            j = min(i + step, count)
            spans = _spans_with_room(splits.room, m, i, j)
            group = i if j == i + 1 else slice(i, j)
            found = first[:, group, spans].index_select(0, one)
            if share is not None:
                found.mul_(share[group, spans])
            factor = second[:, group, spans].index_select(0, other)
            if j == i + 1:
                self.semiring.add_products_(total[:, spans], found, factor)
            else:
                products = self.semiring.times_(found, factor)
                self.semiring.add_(total[:, spans], self.semiring.total(products, 1))
        return total

    def apply(self, pairs: PairValues) -> Float[Tensor, "b m x"]:
        """The weighed sum over the pairs of each symbol."""
        return self.semiring.apply(self.gathered, pairs, None).permute(2, 1, 0)

    def count(self, own: Float[Tensor, "b m x"], pairs: PairValues) -> Float[Tensor, " r"]:
        """Products of the symbol and the pair of each rule, over all spans."""
        found = _turned(own).index_select(0, self.listed.symbol)
        return found.mul_(pairs.index_select(0, self.listed.pair)).sum(dim=(1, 2))

    def beside(self, words: Float[Tensor, "b n x"]) -> Float[Tensor, "q n b"]:
        """For each word in this role a number for each pair of parent and other part."""
        sums = self.semiring.prepare(self.listed.spread, self.weight)
        return self.semiring.apply(sums, _turned(words), None)

    def add(self, total: Tensor, values: Tensor, beside: Tensor, words: slice, *, up: bool) -> None:
        """Adds to parents what the other part gives them beside some words, or the other way."""
        pairs = _turned(values).index_select(0, self.listed.pairs[up])
        self.semiring.times_(pairs, beside[:, words])
        self.semiring.apply(self.ends[not up], pairs, _turned(total))


def _spans_with_room(room: Room, m: int, i: int, j: int) -> slice:
    """Of m spans, those for which some of the splits from i up to j exist."""
    if room == "before the end":
        return slice(0, m - 2 - i)
    return slice(m - j, m) if room == "after the start" else slice(0, m)

"""Where the elements of a chart lie: spans by width, rows, slices and words.

Letters in shapes: b: sentences of length n; m: spans of one width; x: symbols.
A span's numbers are divided by their largest, whose logarithm is kept beside them: no sentence is
so long that anything underflows, and no logarithm stands in an inner loop.  Scales grow with the
length, and are in double precision whatever the numbers are.

Tables as small as can be, and one split at a time, so that products stay in the caches.
`span_slices` is the twin for GPUs.

Letters in shapes: x: symbols; b: sentences of length n; m: spans of one width, by first word; q:
pairs of symbols that some rule asks for.  Symbols come first and sentences last, so that picking a
symbol copies one long row.

A GPU waits for its next operation most of the time if each has one split of one width to do.
`span_rows` is the twin for processors, which lack the memory traffic for such tables.

Letters in shapes: x: symbols; b: sentences of length n; m: spans of one width; k: splits; q: pairs
of symbols that some rule asks for.  Symbols come first and sentences last, so that picking a symbol
copies long rows.

Letters in shapes: b: sentences of length n; m: spans of one width; p: preterminals; a: phrases; q:
pairs of parent and other part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.kernels.rules import ListedRules, Pairs, add_sums

# Numbers for every span of sentences of one length, scaled span by span.


@dataclass(frozen=True, eq=False)
class SpanTable:
    """Spans by their first word and width, and again by their end and falling width.

    With both at hand, all left parts of a span are one slice, and so are all its right parts, and
    the two slices are in step.  Spans that do not exist are zero, with a scale of -inf.
    """

    by_start: Float[Tensor, "b n+1 n+1 x"]  # [:, i, w] begins at word i and has w words
    by_end: Float[Tensor, "b n+1 n+1 x"]  # [:, e, n - w] ends before word e and has w words
    start_scale: Float[Tensor, "b n+1 n+1"]
    end_scale: Float[Tensor, "b n+1 n+1"]

    @classmethod
    def empty(cls, like: Tensor, sentences: int, length: int, symbols: int) -> SpanTable:
        """A table of zeros, of the type and on the device of a tensor."""
        size = (sentences, length + 1, length + 1)
        numbers = [like.new_zeros((*size, symbols)) for _ in range(2)]
        scales = [like.new_full(size, -torch.inf, dtype=torch.float64) for _ in range(2)]
        return cls(*numbers, *scales)

    @property
    def length(self) -> int:
        """The number of words of each sentence."""
        return self.by_start.shape[1] - 1

    def put(self, width: int, value: Float[Tensor, "b m x"], scale: Float[Tensor, "b m"]) -> None:
        """Takes value * exp(scale) for all spans of a width, and scales it anew."""
        largest = value.amax(dim=-1)
        value = value / torch.where(largest > 0, largest, 1.0).unsqueeze(-1)
        scale = scale + largest.log()
        end = self.length - width
        self.by_start[:, : end + 1, width] = value
        self.by_end[:, width:, end] = value
        self.start_scale[:, : end + 1, width] = scale
        self.end_scale[:, width:, end] = scale

    def at(self, width: int) -> tuple[Float[Tensor, "b m x"], Float[Tensor, "b m"]]:
        """The scaled numbers and the scales of all spans of a width."""
        spans = slice(0, self.length - width + 1)
        return self.by_start[:, spans, width], self.start_scale[:, spans, width]


def largest_of(*scales: Float[Tensor, "b m *k"]) -> Float[Tensor, "b m"]:
    """Each span's largest scale of all that is to be summed for it; 0 where there is none."""
    tops = [scale if scale.ndim == 2 else scale.amax(dim=-1) for scale in scales if scale.numel()]
    top = torch.stack(tops).amax(dim=0)
    return torch.where(top > -torch.inf, top, 0.0)


def factor(scale: Tensor, top: Tensor, dtype: torch.dtype) -> Tensor:
    """What numbers of one scale are multiplied by to have another, larger one."""
    return (scale - top).exp().to(dtype)


def bounded_exp(scale: Tensor, dtype: torch.dtype) -> Tensor:
    """exp(scale), but finite.

    Where rules have no weight for what stands inside and outside of a span, the product of both can
    be beyond all numbers; it is multiplied by that zero in the end and must not be infinite before.
    """
    return scale.clamp(max=math.log(torch.finfo(dtype).max) / 2).exp().to(dtype)


# Numbers for every span of sentences of one length, one table a width: for processors.


@dataclass(frozen=True, eq=False)
class SpanRows:
    """Scaled numbers for all spans by width w: value[w] * exp(scale[w])."""

    value: list[Float[Tensor, "x m b"]]
    scale: list[Float[Tensor, "m b"]]

    @classmethod
    def empty(cls, length: int) -> SpanRows:
        """Room for every width up to a length."""
        return cls([torch.empty(0)] * (length + 1), [torch.empty(0)] * (length + 1))

    def blank(self) -> SpanRows:
        """Room for as many spans."""
        return SpanRows.empty(self.length)

    @property
    def length(self) -> int:
        """The number of words of each sentence."""
        return len(self.value) - 1

    def put(self, width: int, value: Float[Tensor, "x m b"], scale: Float[Tensor, "m b"]) -> None:
        """Takes value * exp(scale) for all spans of a width, and scales it anew, in place."""
        largest = value.amax(dim=0)
        self.value[width] = value.div_(torch.where(largest > 0, largest, 1.0))
        self.scale[width] = scale + largest.log()

    def at(self, width: int) -> tuple[Float[Tensor, "x m b"], Float[Tensor, "m b"]]:
        """The scaled numbers and the scales of all spans of a width."""
        return self.value[width], self.scale[width]

    def logarithm(self) -> Float[Tensor, "x b n+1 n+1"]:
        """The logarithms of all numbers, by first word and width."""
        value, n = self.value[-1], self.length
        size = (len(value), value.shape[2], n + 1, n + 1)
        table = value.new_full(size, -torch.inf, dtype=torch.float64)
        for width in range(2, n + 1):
            logs = self.value[width].log() + self.scale[width]
            table[:, :, : n - width + 1, width] = logs.transpose(1, 2)
        return table

    def products(
        self, width: int, pairs: Pairs
    ) -> tuple[Float[Tensor, "q m b"], Float[Tensor, "m b"]]:
        """Left parts times right parts of two words or more, summed over splits, and the scale."""
        m = self.length - width + 1
        shorter, scale = self.at(width - 1)
        splits = [self.scale[k][:m] + self.scale[width - k][k : k + m] for k in range(2, width - 1)]
        top = _largest(scale[1:], scale[:-1], *splits)
        total = shorter.new_zeros(len(pairs), *top.shape)
        for k, split in enumerate(splits, start=2):
            left, right = self.value[k][:, :m], self.value[width - k][:, k : k + m]
            pairs.add_products(total, left, right, factor(split, top, total.dtype))
        return total, top

    def parents(self, outside: SpanRows, width: int) -> RowParents:
        """Where the spans of a width may stand; these are the insides."""
        return RowParents(self, outside, width)


@dataclass(frozen=True, eq=False)
class RowParents:
    """All longer spans that spans of one width may be a part of, with the other part."""

    inside: SpanRows
    outside: SpanRows
    width: int

    @cached_property
    def top(self) -> Float[Tensor, "m b"]:
        """The scale of everything that is summed for a span."""
        above = self.outside.scale[self.width + 1]
        none = torch.full_like(above[:1], -torch.inf)
        scales = [torch.cat([none, above]), torch.cat([above, none])]  # the other part is one word
        for other, above, inside in self._others():
            edge = none.expand(other, -1)
            scales.append(torch.cat([above + inside[self.width :], edge]))
            scales.append(torch.cat([edge, above + inside[: len(above)]]))
        return _largest(*scales)

    def as_left(self, pairs: Pairs) -> Float[Tensor, "q m b"]:
        """Parents times right parts of two words or more, for spans that are the left part."""
        total = self._nothing(pairs)
        for other, above, inside in self._others():
            m, parent = len(above), self.outside.value[self.width + other]
            share = factor(above + inside[self.width :], self.top[:m], parent.dtype)
            after = self.inside.value[other][:, self.width :]
            pairs.add_products(total[:, :m], parent, after, share)
        return total

    def as_right(self, pairs: Pairs) -> Float[Tensor, "q m b"]:
        """Parents times left parts of two words or more, for spans that are the right part."""
        total = self._nothing(pairs)
        for other, above, inside in self._others():
            m, parent = len(above), self.outside.value[self.width + other]
            share = factor(above + inside[:m], self.top[other:], parent.dtype)
            before = self.inside.value[other][:, :m]
            pairs.add_products(total[:, other:], parent, before, share)
        return total

    def _others(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """(words of the other part, scales of its parents, scales of such parts)."""
        for other in range(2, self.inside.length - self.width + 1):
            yield other, self.outside.scale[self.width + other], self.inside.scale[other]

    def _nothing(self, pairs: Pairs) -> Float[Tensor, "q m b"]:
        return self.outside.value[-1].new_zeros(len(pairs), *self.top.shape)


def _largest(*scales: Float[Tensor, "m b"]) -> Float[Tensor, "m b"]:
    """The largest of several scales; 0 where there is none."""
    top = torch.stack(scales).amax(dim=0)
    return torch.where(top > -torch.inf, top, 0.0)


# Numbers for every span of sentences of one length, all splits of a width at once: for GPUs.


AT_ONCE = 2**26  # numbers that the products of a step may take


@dataclass(frozen=True, eq=False)
class SpanSlices:
    """Spans by their first word and width, and again by their end and falling width.

    All left parts of a span are one slice, and so are all its right parts, and the two slices are
    in step.  Spans that do not exist are zero, with a scale of -inf.
    """

    by_start: Float[Tensor, "x n+1 n+1 b"]  # [:, i, w] begins at word i and has w words
    by_end: Float[Tensor, "x n+1 n+1 b"]  # [:, e, n - w] ends before word e and has w words
    start_scale: Float[Tensor, "n+1 n+1 b"]
    end_scale: Float[Tensor, "n+1 n+1 b"]

    @classmethod
    def empty(cls, words: Float[Tensor, "p n b"], symbols: int) -> SpanSlices:
        """A table of zeros for the sentences of a tensor of words."""
        size = (words.shape[1] + 1, words.shape[1] + 1, words.shape[2])
        numbers = [words.new_zeros((symbols, *size)) for _ in range(2)]
        scales = [words.new_full(size, -torch.inf, dtype=torch.float64) for _ in range(2)]
        return cls(*numbers, *scales)

    def blank(self) -> SpanSlices:
        """A table of zeros for as many spans."""
        numbers = [torch.zeros_like(self.by_start) for _ in range(2)]
        return SpanSlices(
            *numbers, *(torch.full_like(self.start_scale, -torch.inf) for _ in range(2))
        )

    @property
    def length(self) -> int:
        """The number of words of each sentence."""
        return self.by_start.shape[1] - 1

    def put(self, width: int, value: Float[Tensor, "x m b"], scale: Float[Tensor, "m b"]) -> None:
        """Takes value * exp(scale) for all spans of a width, and scales it anew."""
        largest = value.amax(dim=0)
        value = value / torch.where(largest > 0, largest, 1.0)
        scale = scale + largest.log()
        end = self.length - width
        self.by_start[:, : end + 1, width] = value
        self.by_end[:, width:, end] = value
        self.start_scale[: end + 1, width] = scale
        self.end_scale[width:, end] = scale

    def at(self, width: int) -> tuple[Float[Tensor, "x m b"], Float[Tensor, "m b"]]:
        """The scaled numbers and the scales of all spans of a width."""
        spans = slice(0, self.length - width + 1)
        return self.by_start[:, spans, width], self.start_scale[spans, width]

    def logarithm(self) -> Float[Tensor, "x b n+1 n+1"]:
        """The logarithms of all numbers, by first word and width."""
        return (self.by_start.log() + self.start_scale).movedim(-1, 1)

    def products(
        self, width: int, pairs: Pairs
    ) -> tuple[Float[Tensor, "q m b"], Float[Tensor, "m b"]]:
        """Left parts times right parts of two words or more, summed over splits, and the scale."""
        n = self.length
        m = n - width + 1
        scale = self.at(width - 1)[1]
        # Parts of 2 ... width - 2 words on the left, so of width - 2 ... 2 on the right.
        on_left, on_right = slice(2, width - 1), slice(n - width + 2, n - 1)
        splits = self.start_scale[:m, on_left] + self.end_scale[width:, on_right]
        top = _largest_of(splits, scale[1:], scale[:-1])
        shares = factor(splits, top.unsqueeze(1), self.by_start.dtype)
        left, right = self.by_start[:, :m, on_left], self.by_end[:, width:, on_right]
        total = left.new_zeros(len(pairs), *top.shape)
        for i, j in _groups(width - 3, total.numel()):
            total += pairs.products(left[:, :, i:j], right[:, :, i:j], shares[:, i:j])
        return total, top

    def parents(self, outside: SpanSlices, width: int) -> SliceParents:
        """Where the spans of a width may stand; these are the insides."""
        n = self.length
        m = n - width + 1
        # In step: parents of width + 2 ... n words and other parts of 2 ... n - width words; and
        # in step the other way round where spans are kept by their ends.
        as_left = outside.start_scale[:m, width + 2 :] + self.start_scale[width:, 2:m]
        as_right = outside.end_scale[width:, : max(m - 2, 0)] + self.end_scale[:m, width : n - 1]
        above = outside.at(width + 1)[1]
        edges = (pad(above, (0, 0, *side), value=-torch.inf) for side in ((1, 0), (0, 1)))
        top = _largest_of(as_left, as_right, *edges)
        kind, under = self.by_start.dtype, top.unsqueeze(1)
        shares = factor(as_left, under, kind), factor(as_right, under, kind)
        return SliceParents(self, outside, width, *shares, top)


@dataclass(frozen=True, eq=False)
class SliceParents:
    """All longer spans that spans of one width may be a part of, with the other part."""

    inside: SpanSlices
    outside: SpanSlices
    width: int
    left: Float[Tensor, "m k b"]  # factors where the span is the left part, by the other's width
    right: Float[Tensor, "m k b"]  # where it is the right part, by the other's falling width
    top: Float[Tensor, "m b"]  # the scale of everything that is summed for a span

    def as_left(self, pairs: Pairs) -> Float[Tensor, "q m b"]:
        """Parents times right parts of two words or more, for spans that are the left part."""
        width, m = self.width, len(self.top)
        parents = self.outside.by_start[:, :m, width + 2 :]
        others = self.inside.by_start[:, width:, 2:m]
        total = parents.new_zeros(len(pairs), *self.top.shape)
        for i, j in _groups(m - 2, total.numel()):
            left = m - 2 - i  # spans further right have no room for another part of so many words
            total[:, :left] += pairs.products(
                parents[:, :left, i:j], others[:, :left, i:j], self.left[:left, i:j]
            )
        return total

    def as_right(self, pairs: Pairs) -> Float[Tensor, "q m b"]:
        """Parents times left parts of two words or more, for spans that are the right part."""
        width, m = self.width, len(self.top)
        parents = self.outside.by_end[:, width:, : max(m - 2, 0)]
        others = self.inside.by_end[:, :m, width : self.inside.length - 1]
        total = parents.new_zeros(len(pairs), *self.top.shape)
        for i, j in _groups(m - 2, total.numel()):
            skip = m - j  # spans further left have no room for another part of so many words
            total[:, skip:] += pairs.products(
                parents[:, skip:, i:j], others[:, skip:, i:j], self.right[skip:, i:j]
            )
        return total


def _groups(splits: int, numbers: int) -> Iterator[tuple[int, int]]:
    """All splits in groups, first and end, where each one of a group makes so many numbers."""
    step = max(1, AT_ONCE // max(numbers, 1))
    for first in range(0, splits, step):
        yield first, min(first + step, splits)


def _largest_of(*scales: Float[Tensor, "m *k b"]) -> Float[Tensor, "m b"]:
    """Each span's largest scale of all that is to be summed for it; 0 where there is none."""
    tops = [scale if scale.ndim == 2 else scale.amax(dim=1) for scale in scales if scale.numel()]
    top = torch.stack(tops).amax(dim=0)
    return torch.where(top > -torch.inf, top, 0.0)


# What the rules of a listed grammar become beside each word of sentences of one length.


@dataclass(frozen=True, eq=False)
class WordRows:
    """What the rules become beside a word: a number for each parent and other part."""

    rules: ListedRules
    left: Float[Tensor, "q n b"]  # the word is the left part
    right: Float[Tensor, "q n b"]  # the word is the right part

    @classmethod
    def of(cls, rules: ListedRules, words: Float[Tensor, "p n b"]) -> WordRows:
        """The numbers of all words."""
        left, right = rules.word_left, rules.word_right
        beside_left, beside_right = (
            words.new_zeros(len(pairs), *words.shape[1:])
            for pairs in (left.block.above_right, right.block.above_left)
        )
        return cls(
            rules,
            add_sums(beside_left, left.beside_left, words),
            add_sums(beside_right, right.beside_right, words),
        )

    def add_inside(
        self,
        value: Float[Tensor, "a m b"],
        shorter: Float[Tensor, "a m+1 b"],
        scale: Float[Tensor, "m+1 b"],
        top: Float[Tensor, "m b"],
    ) -> None:
        """Add what spans are worth with a word split off; `shorter` are those of one word less."""
        left, right = self.rules.word_left, self.rules.word_right
        other = left.block.above_right.second
        after = (shorter[:, 1:] * factor(scale[1:], top, value.dtype)).index_select(0, other)
        add_sums(value, left.right_ends[0], after.mul_(self.left[:, : len(top)]))
        other = right.block.above_left.second
        before = (shorter[:, :-1] * factor(scale[:-1], top, value.dtype)).index_select(0, other)
        add_sums(value, right.left_ends[0], before.mul_(self.right[:, -len(top) :]))

    def add_outside(
        self,
        value: Float[Tensor, "a m b"],
        parent: Float[Tensor, "a m-1 b"],
        scale: Float[Tensor, "m-1 b"],
        top: Float[Tensor, "m b"],
    ) -> None:
        """Add what spans get from `parent`, those of one word more: that word, beside them."""
        left, right = self.rules.word_left, self.rules.word_right
        above = parent * factor(scale, top[1:], parent.dtype)
        found = above.index_select(0, left.block.above_right.first)
        found.mul_(self.left[:, : len(scale)])
        value[:, 1:] += add_sums(torch.zeros_like(parent), left.right_ends[1], found)
        above = parent * factor(scale, top[:-1], parent.dtype)
        found = above.index_select(0, right.block.above_left.first)
        found.mul_(self.right[:, -len(scale) :])
        value[:, :-1] += add_sums(torch.zeros_like(parent), right.left_ends[1], found)

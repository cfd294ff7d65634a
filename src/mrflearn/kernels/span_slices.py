"""Numbers for every span of sentences of one length, all splits of a width at once: for GPUs.

A GPU waits for its next operation most of the time if each has one split of one width to do.
`span_rows` is the twin for processors, which lack the memory traffic for such tables.

Letters in shapes: x: symbols; b: sentences of length n; m: spans of one width; k: splits; q: pairs
of symbols that some rule asks for.  Symbols come first and sentences last, so that picking a symbol
copies long rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.kernels.rule_blocks import Pairs
from mrflearn.kernels.span_table import factor

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

"""Numbers for every span of sentences of one length, one table a width: for processors.

Tables as small as can be, and one split at a time, so that products stay in the caches.
`span_slices` is the twin for GPUs.

Letters in shapes: x: symbols; b: sentences of length n; m: spans of one width, by first word; q:
pairs of symbols that some rule asks for.  Symbols come first and sentences last, so that picking a
symbol copies one long row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.rule_blocks import Pairs
from mrflearn.kernels.span_table import factor


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

"""Numbers for every span of sentences of one length, scaled span by span, symbols first.

Letters in shapes: x: symbols; b: sentences of length n; m: spans of one width; k: splits.  Symbols
come first and sentences last, so that picking a symbol copies long rows; else as `span_table`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

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
    def empty(cls, like: Float[Tensor, "p n b"], symbols: int) -> SpanSlices:
        """A table of zeros for the sentences of a tensor of words."""
        size = (like.shape[1] + 1, like.shape[1] + 1, like.shape[2])
        numbers = [like.new_zeros((symbols, *size)) for _ in range(2)]
        scales = [like.new_full(size, -torch.inf, dtype=torch.float64) for _ in range(2)]
        return cls(*numbers, *scales)

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


def split_groups(splits: int, numbers: int) -> Iterator[tuple[int, int]]:
    """All splits in groups, first and end, where each one of a group makes so many numbers."""
    step = max(1, AT_ONCE // max(numbers, 1))
    for first in range(0, splits, step):
        yield first, min(first + step, splits)


def largest_of(*scales: Float[Tensor, "m *k b"]) -> Float[Tensor, "m b"]:
    """Each span's largest scale of all that is to be summed for it; 0 where there is none."""
    tops = [scale if scale.ndim == 2 else scale.amax(dim=1) for scale in scales if scale.numel()]
    top = torch.stack(tops).amax(dim=0)
    return torch.where(top > -torch.inf, top, 0.0)

"""Numbers for every span of sentences of one length, scaled span by span.

Letters in shapes: b: sentences of length n; m: spans of one width; x: symbols.
A span's numbers are divided by their largest, whose logarithm is kept beside them: no sentence is
so long that anything underflows, and no logarithm stands in an inner loop.  Scales grow with the
length, and are in double precision whatever the numbers are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


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

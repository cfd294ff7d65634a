"""Which kernel sums low-rank scores, by the device and type of the tensors."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels import low_rank_logsumexp_cpu

WIDEST_FOR_TRITON = 256  # dimensions whose tiles fit the shared memory of a multiprocessor


class Forward(Protocol):
    """Row values, softmax means of the right vectors (if asked for), what `Backward` reads."""

    def __call__(
        self,
        left: Float[Tensor, "k r d"],
        right: Float[Tensor, "k c d"],
        bias: Float[Tensor, "k c"],
        *,
        means: bool,
    ) -> tuple[Float[Tensor, "k r"], Float[Tensor, "k r d"], tuple[Tensor, ...]]: ...


class Backward(Protocol):
    """Gradients of sum(weight * value) by the right vectors and the bias."""

    def __call__(
        self,
        value: Float[Tensor, "k r"],
        weight: Float[Tensor, "k r"],
        saved: tuple[Tensor, ...],
    ) -> tuple[Float[Tensor, "k c d"], Float[Tensor, "k c"]]: ...


class LowRankKernels(NamedTuple):
    """The two passes of the row log-sum-exp of low-rank scores."""

    forward: Forward
    backward: Backward


def low_rank_logsumexp(left: Float[Tensor, "k r d"]) -> LowRankKernels:
    """The kernels for scores of vectors like these: Triton for float32 on CUDA, or else tiles."""
    fits = left.dtype == torch.float32 and left.shape[-1] <= WIDEST_FOR_TRITON
    if left.is_cuda and fits and _has_triton():
        from mrflearn.kernels import low_rank_logsumexp_triton as fused

        return LowRankKernels(fused.forward, fused.backward)
    return LowRankKernels(low_rank_logsumexp_cpu.forward, low_rank_logsumexp_cpu.backward)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None

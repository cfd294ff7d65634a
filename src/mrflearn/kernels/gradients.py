"""Gradients found by hand, which cannot be differentiated again and say so.

An unaware second derivative would take such a gradient for a constant: a silent zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Backward = Callable[..., tuple[Tensor | None, ...]]


def once(backward: Backward) -> Backward:
    """The `backward` of a function, whose results raise `RuntimeError` when differentiated."""

    @wraps(backward)
    def guarded(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            found = backward(ctx, *outputs)
        if not torch.is_grad_enabled():  # no second derivative is being prepared
            return found
        leaf = torch.zeros((), requires_grad=True)
        return tuple(None if own is None else _Refusing.apply(own, leaf) for own in found)  # type: ignore[no-untyped-call]

    return guarded


class _Refusing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, leaf: Tensor) -> Tensor:
        del ctx, leaf
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        del ctx, outputs
        raise RuntimeError(
            "the gradient of log Z is made of marginals, which have no derivative here: it cannot "
            "be differentiated twice. Is a penalty on gradients, or create_graph=True, needed?"
        )

"""Random low-rank scores, the slow twins of kernels, and their comparison in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def random_scores(
    offsets: int, rows: int, columns: int, dims: int, *, seed: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Left vectors that all offsets share, right vectors of each, and biases."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype)

    return normal(1, rows, dims), normal(offsets, columns, dims), 2 * normal(offsets, columns)


def value_and_gradients(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], weight: Tensor | float = 1.0
) -> list[Tensor]:
    """The value, then the gradient of sum(weight * value) by each input."""
    leaves = [value.detach().clone().requires_grad_() for value in inputs]
    value = function(*leaves)
    # An infinite value has no weight in a sum; leave it out, as every objective does.
    torch.where(value.isfinite(), value * weight, 0.0).sum().backward()
    return [value.detach(), *(leaf.grad for leaf in leaves)]


def assert_same_value_and_gradient(
    fast: Callable[..., Tensor],
    slow: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    weight: Tensor | float = 1.0,
    *,
    tolerance: float,
) -> None:
    """The fast function agrees with the slow one in float64, each array by its largest entry.

    Gradients are sums of a weight times an input times a probability, which may cancel: rounding
    is to be expected by the size of these terms, where that is more than what is left of them.
    """
    exact = value_and_gradients(slow, [value.double() for value in inputs], weight)
    sizes = [_largest(value) for value in inputs]
    term = _largest(torch.as_tensor(weight)) * min(1.0, *(size for size in sizes if size > 0))
    for found, wanted in zip(value_and_gradients(fast, inputs, weight), exact, strict=True):
        assert found.isnan().sum() == 0
        size = max(_largest(wanted), term)
        torch.testing.assert_close(found.double(), wanted, rtol=0.0, atol=tolerance * size)


def _largest(value: Tensor) -> float:
    finite = value[value.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def row_logsumexp_reference(
    left: Tensor, right: Tensor, bias: Tensor, scale: float | Tensor = 1.0
) -> Tensor:
    """What `row_logsumexp` computes, from the whole array of scores; with gradients."""
    factor = scale.view(-1, 1, 1) if isinstance(scale, Tensor) else scale
    scores = (left * factor).expand(len(bias), -1, -1) @ right.mT + bias.unsqueeze(1)
    empty = (bias == -torch.inf).all(1, keepdim=True)
    # Twice `where`: the gradient of the branch that is not taken must be finite too.
    value = torch.where(empty.unsqueeze(2), 0.0, scores).logsumexp(2)
    return torch.where(empty, -torch.inf, value)


def star_logsumexp_reference(
    left: Tensor, right: Tensor, bias: Tensor, centre: Tensor, scale: float | Tensor = 1.0
) -> Tensor:
    """What `star_logsumexp` computes."""
    return (centre + row_logsumexp_reference(left, right, bias, scale).sum(0)).logsumexp(0)


def power_step_reference(
    left: Tensor, right: Tensor, bias: Tensor, rows: Tensor, columns: Tensor
) -> tuple[Tensor, Tensor]:
    """What `power_step` computes."""
    scores = left @ right.mT + bias.unsqueeze(1)
    return (scores + rows.unsqueeze(2)).logsumexp(1), (scores + columns.unsqueeze(1)).logsumexp(2)

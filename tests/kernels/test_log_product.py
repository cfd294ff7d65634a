"""The logarithm of a product of matrices against its slow twin, values and gradients."""

from __future__ import annotations

import pytest
import torch

from mrflearn.kernels.log_product import log_product


def log_product_reference(a, b):
    """Every term held at once."""
    return (a.unsqueeze(1) + b).logsumexp(2)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 5), (33, 2, 17)])
@pytest.mark.parametrize("size", [1.0, 100.0])
def test_value_and_gradients_agree_with_the_slow_twin(shape, size):
    rows, columns, inner = shape
    generator = torch.Generator().manual_seed(rows)
    a = size * torch.randn(rows, inner, generator=generator, dtype=torch.float64)
    b = size * torch.randn(columns, inner, generator=generator, dtype=torch.float64)
    slope = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    answers = []
    for kernel in (log_product, log_product_reference):
        leaves = [part.clone().requires_grad_(True) for part in (a, b)]
        value = kernel(*leaves)
        answers.append((value.detach(), *torch.autograd.grad((value * slope).sum(), leaves)))
    for found, expected in zip(*answers, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_sums_below_the_range_stay_positive():
    a, b = torch.tensor([[0.0, -2000.0]]), torch.tensor([[-2000.0, 0.0]])
    assert bool(log_product(a, b).isfinite().all())


def test_rows_without_any_score_give_minus_infinity_and_no_gradient():
    a = torch.tensor([[0.0, 1.0], [-torch.inf, -torch.inf]], requires_grad=True)
    value = log_product(a, torch.zeros(3, 2))
    torch.testing.assert_close(value[0], torch.tensor([0.0, 1.0]).logsumexp(0).expand(3))
    assert value[1].tolist() == [-torch.inf] * 3
    (slope,) = torch.autograd.grad(value[0].sum(), a)
    torch.testing.assert_close(slope[0], 3 * torch.tensor([0.0, 1.0]).softmax(0))
    assert slope[1].tolist() == [0.0, 0.0]

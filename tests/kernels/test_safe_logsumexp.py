"""Sums of nothing have a value and a gradient."""

from __future__ import annotations

import torch

from mrflearn.kernels.chain_sums import safe_logsumexp


def test_columns_of_minus_infinity_have_gradient_zero() -> None:
    scores = torch.tensor([[0.0, -torch.inf], [1.0, -torch.inf], [-torch.inf, -torch.inf]])
    leaf = scores.requires_grad_()
    value = safe_logsumexp(leaf, 0)
    assert value[1] == -torch.inf
    torch.testing.assert_close(value[0], torch.tensor([0.0, 1.0]).logsumexp(0))
    (slope,) = torch.autograd.grad(value[0], leaf)
    torch.testing.assert_close(slope[:, 0], torch.tensor([0.0, 1.0, -torch.inf]).softmax(0))
    assert slope[:, 1].tolist() == [0.0, 0.0, 0.0]


def test_elsewhere_it_is_the_ordinary_one() -> None:
    scores = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(safe_logsumexp(scores, 0), scores.logsumexp(0))
    assert torch.autograd.gradcheck(lambda s: safe_logsumexp(s, 0), scores.requires_grad_())

"""Gradients by hand: right once, refused a second time."""

from __future__ import annotations

import pytest
import torch

from mrflearn.kernels.gradients import once


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        ctx.value = value
        return value.square().sum()

    @staticmethod
    @once
    def backward(ctx, *outputs):
        return (2 * ctx.value * outputs[0],)


def test_a_first_derivative():
    leaf = torch.tensor([1.0, 3.0], requires_grad=True)
    Square.apply(leaf).backward()
    assert leaf.grad.tolist() == [2.0, 6.0]
    (again,) = torch.autograd.grad(Square.apply(leaf), leaf, create_graph=True)
    assert again.tolist() == [2.0, 6.0]


def test_a_second_derivative_raises_even_beside_others():
    leaf = torch.tensor([1.0, 3.0], requires_grad=True)
    loss = Square.apply(leaf) + leaf.pow(3).sum()
    (gradient,) = torch.autograd.grad(loss, leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        (loss + gradient.square().sum()).backward()

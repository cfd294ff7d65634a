"""The gradient written out by hand is that of finite differences and of autograd."""

from __future__ import annotations

import torch

from mrflearn.models.log_bilinear import LogBilinearModel
from mrflearn.models.parameters import Layout
from mrflearn.objectives.log_bilinear import Predictions, value_and_gradient


def case() -> tuple[LogBilinearModel, Predictions]:
    generator = torch.Generator().manual_seed(0)
    bias = torch.randn(5, generator=generator, dtype=torch.float64)
    model = LogBilinearModel.start(bias, context=2, dims=3, generator=generator)
    contexts = torch.randint(5, (7, 2), generator=generator)
    contexts[0] = 1  # one word at both distances: its gradients add up
    return model, Predictions(contexts, torch.randint(5, (7,), generator=generator))


def test_value_and_gradient() -> None:
    model, batch = case()
    layout = Layout.of(model.parameters())
    vector = layout.flatten(model.parameters())
    function = value_and_gradient(layout, batch, torch.full_like(vector, 7.0))
    value, gradient = function(vector)
    gradient = gradient.clone()
    torch.testing.assert_close(value, -model.log_probabilities(*batch).sum())
    leaf = vector.clone().requires_grad_()
    by_hand = -LogBilinearModel(**layout.unflatten(leaf)).log_probabilities(*batch).sum()
    torch.testing.assert_close(gradient, torch.autograd.grad(by_hand, leaf)[0])
    for index in range(0, len(vector), 5):
        step = torch.zeros_like(vector)
        step[index] = 1e-6
        slope = (function(vector + step)[0] - function(vector - step)[0]) / 2e-6
        torch.testing.assert_close(gradient[index], slope, rtol=1e-6, atol=1e-8)


def test_probabilities_sum_to_one() -> None:
    model, batch = case()
    every = torch.arange(5).repeat(7)
    contexts = batch.contexts.repeat_interleave(5, 0)
    sums = model.log_probabilities(contexts, every).exp().view(7, 5).sum(1)
    torch.testing.assert_close(sums, torch.ones(7, dtype=torch.float64))

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.training.checkpoint import restore_into, tensors_of
from mrflearn.training.lbfgs import CurvaturePairs


def two_loop(pairs, vector):
    """-H v by the textbook recursion [Nocedal & Wright, Algorithm 7.4]."""
    q, alphas = vector.clone(), []
    for s, y in reversed(pairs):
        alphas.append(s.dot(q) / s.dot(y))
        q = q - alphas[-1] * y
    if pairs:
        s, y = pairs[-1]
        q = q * (s.dot(y) / y.dot(y))
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        q = q + s * (alpha - y.dot(q) / s.dot(y))
    return -q


def show(memory, step, gradients, steepest_is_gradient=True):
    """Tries a step that changes the gradient from `gradients[1]` to `gradients[0]`."""
    memory.step.copy_(step)
    memory.trial.copy_(gradients[0])
    measured = memory.measure(*gradients).double().numpy()
    assert memory.derivative(measured) == pytest.approx(float(step.dot(gradients[0])), rel=1e-3)
    memory.accept(measured, steepest_is_gradient=steepest_is_gradient)


def walk(size, history, steps, seed, dtype, steepest_is_gradient=True):
    """A memory that has seen a random walk on a convex quadratic, and all pairs of that walk."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.rand(size, generator=generator, dtype=torch.float64).to(dtype) + 0.1
    point, pairs = torch.randn(size, generator=generator, dtype=torch.float64).to(dtype), []
    memory = CurvaturePairs.of(history, point)
    memory.steepest.copy_(scale * point)
    memory.square = float((scale * point).dot(scale * point))
    for _ in range(steps):
        new = point + torch.randn(size, generator=generator, dtype=torch.float64).to(dtype)
        new_gradient, old_gradient = scale * new, scale * point
        show(memory, new - point, (new_gradient, old_gradient), steepest_is_gradient)
        pairs.append((new - point, new_gradient - old_gradient))
        point = new
    return memory, pairs[-history:], scale * point


@given(
    st.integers(1, 40), st.integers(1, 6), st.integers(0, 14), st.integers(0, 10**6), st.booleans()
)
def test_the_direction_is_that_of_the_two_loop_recursion(size, history, steps, seed, derived):
    memory, pairs, gradient = walk(size, history, steps, seed, torch.float64, derived)
    out = torch.empty_like(gradient)
    slope = memory.direction(out)
    expected = two_loop(pairs, gradient)
    # In few dimensions pairs repeat each other, and both ways lose digits.
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-7 * float(gradient.norm()))
    assert slope == pytest.approx(float(out.dot(gradient)), rel=1e-6)


@pytest.mark.parametrize("derived", [True, False])
def test_single_precision_keeps_single_accuracy(derived):
    memory, pairs, gradient = walk(5000, 10, 37, 3, torch.float32, derived)
    out = torch.empty_like(gradient)
    memory.direction(out)
    expected = two_loop([(s.double(), y.double()) for s, y in pairs], gradient.double())
    error = (out.double() - expected).norm() / expected.norm()
    assert float(error) < 1e-4


def test_inner_products_of_a_tiny_change_are_not_taken_from_differences():
    # |y| is 1e-6 |g| here: single precision would keep one digit of g'new.s - g'old.s.
    generator = torch.Generator().manual_seed(0)
    base = 1e3 * torch.randn(1000, generator=generator)
    memory = CurvaturePairs.of(3, base)
    memory.square = float(base.dot(base))
    old, pairs = base, []
    for _ in range(3):
        step = 1e-3 * torch.randn(1000, generator=generator)
        new = old + step
        show(memory, step, (new, old))
        pairs.append((step, new - old))
        old = new
    exact = (
        torch.stack([s for s, _ in pairs]).double() @ torch.stack([y for _, y in pairs]).double().T
    )
    ours = np.triu(memory.step_change[:3, :3])
    assert np.abs(ours - np.triu(exact.numpy())).max() < 1e-3 * float(exact.diagonal().max())


def test_a_pair_without_curvature_is_left_out():
    memory, pairs, gradient = walk(20, 4, 3, 0, torch.float64)
    bent = gradient - pairs[-1][0]
    show(memory, pairs[-1][0], (bent, gradient))
    assert memory.count == 3
    out = torch.empty_like(bent)
    memory.direction(out)
    torch.testing.assert_close(out, two_loop(pairs, bent))


def restored(memory, like):
    twin = CurvaturePairs.of(4, like)
    restore_into(twin, {name: value.clone() for name, value in tensors_of(memory).items()})
    twin.clear_what_was_tried()
    return twin


def test_restore_gives_the_same_bits():
    memory, _, gradient = walk(30, 4, 9, 1, torch.float64)
    twin = restored(memory, gradient)
    ours, theirs = torch.empty_like(gradient), torch.empty_like(gradient)
    assert memory.direction(ours) == twin.direction(theirs)
    assert torch.equal(ours, theirs)


def test_what_was_tried_and_refused_leaves_no_trace():
    memory, _, gradient = walk(30, 4, 2, 1, torch.float64)
    memory.step.fill_(torch.nan)
    memory.trial.fill_(torch.nan)
    memory.measure(memory.trial, gradient)
    twin = restored(memory, gradient)
    out = torch.empty_like(gradient)
    twin.direction(out)
    assert bool(out.isfinite().all())
    memory.forget()
    pairs, old = [], gradient
    for scale in (1.0, 2.0, 3.0):
        step = torch.linspace(scale, 5, 30, dtype=torch.float64)
        show(memory, step, (old + step * scale, old))
        pairs.append((step, step * scale))
        old = old + step * scale
        memory.direction(out)
        torch.testing.assert_close(out, two_loop(pairs, old))

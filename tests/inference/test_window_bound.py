"""Windows of two words against enumerated rings, with and without scores of triples."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.inference.lifted import Windows
from mrflearn.inference.perron import certify, follow, overlap
from mrflearn.inference.transfer import ring_log_partition as exact_log_partition
from mrflearn.models.lifted import NeighbourModel
from support.rings import random_model, ring_log_partition, with_triples

sizes = st.sampled_from([0.0, 0.3, 1.0, 3.0])


def model_of(states: int, seed: int, size: float, triples: bool) -> NeighbourModel:
    model = random_model(2, states, seed, size)
    return with_triples(model, seed, size) if triples else model


@given(
    shape=st.sampled_from([(4, 6), (3, 7), (2, 12), (1, 5)]),
    seed=st.integers(0, 10_000),
    size=sizes,
    triples=st.booleans(),
    start=sizes,
    steps=st.integers(1, 5),
)
def test_certified_windows_bound_log_z_from_any_start(shape, seed, size, triples, start, steps):
    states, positions = shape
    model = model_of(states, seed, size, triples)
    generator = torch.Generator().manual_seed(seed + 2)
    begin = start * torch.randn(1, states**2, dtype=torch.float64, generator=generator)
    found = certify(Windows().matrices(model.potentials()), begin, most=steps)
    assert found.lower <= found.upper
    rest = 2 * math.log(states) / positions
    assert found.upper + rest >= ring_log_partition(model, positions) / positions - 1e-9


@pytest.mark.parametrize("triples", [False, True])
def test_windows_are_all_but_exact_on_long_rings(triples):
    model = model_of(3, 5, 1.0, triples)
    ceiling = Windows().bound(model.potentials())
    scores = model.potentials()
    exact = exact_log_partition(scores, 5000) / 5000
    assert ceiling.slack <= 1e-6
    assert ceiling.value == pytest.approx(float(exact), abs=2e-6)
    assert ceiling.per_position(5000) >= float(exact)


@pytest.mark.parametrize("triples", [False, True])
def test_steps_are_products_with_the_whole_matrix(triples):
    model = model_of(4, 9, 1.0, triples)
    scores = model.potentials()
    windows = Windows().matrices(scores)
    whole = torch.zeros(16, 16, dtype=torch.float64)
    near, far = scores.tables()
    for x in range(4):
        for y in range(4):
            for z in range(4):
                score = scores.unary[z] + near[y, z] + far[x, z]
                score += 0.0 if scores.triples is None else scores.triples[x, y, z]
                whole[4 * x + y, 4 * y + z] = score.exp()
    left, right = torch.randn(2, 1, 16, dtype=torch.float64)
    after = windows.both_steps(torch.stack((left, right)))
    torch.testing.assert_close(after[1][0].exp(), whole @ right[0].exp())
    torch.testing.assert_close(after[0][0].exp(), whole.T @ left[0].exp())
    value = windows.quotients(torch.stack((left, right)))
    torch.testing.assert_close(value[0].exp(), left[0].exp() @ whole @ right[0].exp())


def test_power_steps_end_at_the_largest_eigenvalue():
    windows = Windows().matrices(model_of(3, 1, 1.0, triples=True).potentials())
    begin = torch.zeros(1, 9, dtype=torch.float64)
    found, _ = follow(windows, torch.stack((begin, begin)), tolerance=1e-13, most=500)
    growth = windows.quotients(found) - overlap(found)
    certified = certify(windows, found[1])
    assert certified.lower - 1e-9 <= float(growth) <= certified.upper + 1e-9

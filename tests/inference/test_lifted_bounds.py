"""Stars and chains against enumerated rings: bounds for every dual variable, on their side."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.inference.lifted import (
    Chains,
    LogPartitionBound,
    Stars,
    default_weights,
    rings_of_torus,
    star_log_partition,
)
from mrflearn.inference.perron import (
    LowRankMatrices,
    certify,
    follow,
    overlap,
    power_steps,
)
from mrflearn.models.lifted import NeighbourModel
from support.experiments import experiment_module
from support.rings import all_rings, random_duals, random_model, ring_log_partition

tighten = experiment_module("lifted_lm", "alternating_bound").tighten

sizes = st.sampled_from([0.0, 0.3, 1.0, 3.0])
seeds = st.integers(0, 10_000)


def scores_of(model: NeighbourModel, duals: torch.Tensor, weights: torch.Tensor) -> LowRankMatrices:
    return Chains(weights).matrices(model.potentials()._replace(duals=duals))


def of_rings(value: float, weights, states: int, positions: int) -> float:
    """The bound on log Z / N of a ring whose chains have this value."""
    offsets = tuple(range(1, len(weights) + 1))
    every = (states,) * len(weights)
    found = LogPartitionBound(value, 0.0, tuple(weights.tolist()), offsets, every)
    return found.per_position(positions)


@given(
    shape=st.sampled_from([(1, 4, 6), (1, 2, 12), (2, 4, 6), (2, 3, 9), (3, 4, 4), (3, 2, 8)]),
    seed=seeds,
    score_size=sizes,
    dual_size=sizes,
)
def test_stars_bound_log_z_for_any_duals(shape, seed, score_size, dual_size):
    offsets, states, positions = shape
    model = random_model(offsets, states, seed, score_size)
    duals = random_duals(model, seed, dual_size)
    bound = star_log_partition(model.potentials()._replace(duals=duals))
    assert float(bound) >= ring_log_partition(model, positions) / positions - 1e-9


@given(
    shape=st.sampled_from([(1, 4, 6), (1, 2, 12), (2, 4, 6), (2, 3, 7), (3, 4, 5), (3, 2, 12)]),
    seed=seeds,
    score_size=sizes,
    dual_size=sizes,
    share=st.floats(0.05, 0.95),
    steps=st.integers(1, 5),
)
def test_certified_chains_bound_log_z_for_any_duals_and_weights(
    shape, seed, score_size, dual_size, share, steps
):
    offsets, states, positions = shape
    model = random_model(offsets, states, seed, score_size)
    weights = torch.tensor([share**k for k in range(offsets)], dtype=torch.float64)
    weights /= weights.sum()
    duals = random_duals(model, seed, dual_size)
    found = certify(scores_of(model, duals, weights), torch.zeros_like(duals), most=steps)
    assert found.lower <= found.upper
    bound = of_rings(found.upper, weights, states, positions)
    assert bound >= ring_log_partition(model, positions) / positions - 1e-9


@pytest.mark.parametrize("shape", [(3, 3), (2, 4)])
def test_chains_bound_a_torus(shape):
    offsets = ((0, 1), (1, 0), (1, 1))
    model = random_model(3, 2, seed=5)
    images = all_rings(2, math.prod(shape)).reshape(-1, *shape)
    tables = model.potentials().tables()
    total = model.unary[images].sum((1, 2))
    for table, (down, right) in zip(tables, offsets, strict=True):
        total = total + table[images, images.roll((-down, -right), (1, 2))].sum((1, 2))
    duals = random_duals(model, 1, 0.2)
    found = Chains(torch.tensor([0.5, 0.3, 0.2])).bound(model.potentials()._replace(duals=duals))
    rings = rings_of_torus(offsets, shape)
    bound = found.per_position(math.prod(shape), rings)
    assert bound >= float(total.logsumexp(0)) / math.prod(shape)


def test_rings_of_a_torus_are_counted():
    assert rings_of_torus([(0, 1), (1, 0), (1, 1), (2, 2), (0, 3)], (4, 6)) == (4, 6, 2, 4, 12)
    assert rings_of_torus([(1,), (2,), (3,)], (12,)) == (1, 2, 3)
    chains = LogPartitionBound(0.0, 0.0, (0.5, 0.3, 0.2), (1, 2, 3), (5, 5, 5))
    assert chains.per_position(12) == pytest.approx(chains.per_position(12, (1, 2, 3)))
    assert chains.per_position(12) == pytest.approx((0.5 + 0.6 + 0.6) * math.log(5) / 12)


@pytest.mark.parametrize("seed", range(5))
def test_one_chain_is_exact_up_to_the_ring(seed):
    model, weights = random_model(1, 3, seed), torch.ones(1, dtype=torch.float64)
    duals = torch.zeros(1, 3, dtype=torch.float64)
    found = certify(scores_of(model, duals, weights), duals, tolerance=1e-10)
    exact = ring_log_partition(model, 11) / 11
    assert found.upper - found.lower <= 1e-10
    assert exact - 1e-9 <= of_rings(found.upper, weights, 3, 11)
    assert found.upper <= exact + 1e-9 or found.upper - exact < 0.05


def test_certificates_close_on_matrices_that_go_round():
    table = torch.full((1, 3, 3), -12.0, dtype=torch.float64)
    table[0, [0, 1, 2], [1, 2, 0]] = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    model = NeighbourModel(torch.zeros(3).double(), {"table": table})
    weights, start = torch.ones(1).double(), torch.zeros(1, 3).double()
    found = certify(scores_of(model, start, weights), start, tolerance=1e-9)
    largest = torch.linalg.eigvals(table[0].exp()).abs().max().log()
    assert found.lower - 1e-12 <= float(largest) <= found.upper + 1e-12
    assert found.upper - found.lower <= 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_power_steps_find_eigenvectors(seed):
    model = random_model(2, 6, seed)
    weights = torch.tensor([0.7, 0.3], dtype=torch.float64)
    scores = scores_of(model, random_duals(model, seed, 0.5), weights)
    vectors, before = power_steps(scores, torch.zeros(2, *scores.bias.shape).double(), 200)
    value = scores.quotients(vectors) - overlap(vectors)
    torch.testing.assert_close(before, value.expand_as(before))
    for k in range(2):
        matrix = (model.potentials().tables()[k] / weights[k] + scores.bias[k]).exp()
        largest = torch.linalg.eigvals(matrix).abs().max()
        assert float(value[k].exp()) == pytest.approx(float(largest), rel=1e-9)
        torch.testing.assert_close(
            scores.right_step(vectors[1])[0][k].exp(), matrix @ vectors[1][k].exp()
        )
        torch.testing.assert_close(
            scores.both_steps(vectors)[0][k].exp(), matrix.T @ vectors[0][k].exp()
        )


def test_vectors_are_followed_only_as_far_as_the_value_moves():
    model = random_model(2, 6, 3)
    weights = torch.tensor([0.7, 0.3], dtype=torch.float64)
    scores = scores_of(model, random_duals(model, 3, 0.5), weights)
    exact, _ = power_steps(scores, torch.zeros(2, *scores.bias.shape).double(), 300)

    def error(tolerance: float) -> float:
        found, _ = follow(
            scores, torch.zeros(2, *scores.bias.shape).double(), tolerance=tolerance, most=300
        )
        values = [scores.quotients(v) - overlap(v) for v in (found, exact)]
        return float((weights @ (values[0] - values[1])).abs())

    assert error(1e-10) <= 1e-9
    assert 1e-9 < error(1.0) < 1.0
    close, _ = follow(scores, exact, tolerance=1e-9, most=300)
    one, _ = power_steps(scores, exact, 1)
    torch.testing.assert_close(close[1], one[1])


@pytest.mark.parametrize("offsets", [1, 2, 3])
def test_tightening_lowers_the_bound_towards_its_minimum(offsets):
    model = random_model(offsets, 4, offsets)
    scores = model.potentials()
    start = torch.zeros(offsets, 4, dtype=torch.float64)
    duals, values = tighten(scores, start, steps=400)
    best = float(star_log_partition(scores._replace(duals=duals)))
    assert best == min(values) < values[0]
    free = start.clone().requires_grad_(True)
    search = torch.optim.LBFGS([free], max_iter=500, line_search_fn="strong_wolfe")

    def closure():
        search.zero_grad()
        value = star_log_partition(scores._replace(duals=free))
        value.backward()
        return value

    search.step(closure)
    least = float(star_log_partition(scores._replace(duals=free.detach())))
    assert least - 1e-9 <= best <= least + 1e-3
    tight, few = tighten(scores, free.detach(), tolerance=1e-3)
    assert len(few) == 1
    torch.testing.assert_close(tight, free.detach())


def test_bounds_on_log_z_are_what_the_bounds_say():
    model = random_model(2, 4, seed=8)
    duals = random_duals(model, 8, 0.3)
    potentials = model.potentials()._replace(duals=duals)
    stars = Stars().bound(potentials)
    assert stars.per_position(9) == float(star_log_partition(potentials))
    assert stars.multiple == 3
    weights = default_weights(2)
    assert sum(weights) == pytest.approx(1.0)
    chains = Chains(torch.tensor(weights)).bound(potentials)
    assert sum(chains.weights) == pytest.approx(1.0, abs=1e-15)
    assert 0 <= chains.slack <= 1e-5
    assert chains.per_position(9) > chains.value

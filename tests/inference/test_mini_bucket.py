"""Mini-buckets: bounds on their sides, gradients by finite differences, splitting, estimates."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mrflearn.errors import InferenceError
from mrflearn.graph import grid, random_ising
from mrflearn.graph.elimination import EliminationStructure, follow
from mrflearn.graph.splitting import Limit, split
from mrflearn.inference import Enumeration, JoinGraphPropagation, JunctionTree, MiniBucket
from mrflearn.inference.mini_bucket import Bound
from support.fields import random_field

STATES = (2, 3, 2, 4, 1, 2, 3)
SCOPES = (
    ((0, 1), (1, 2), (2, 3), (3, 0), (4, 0), (5, 6), (6, 0), (1, 5)),
    ((0, 1, 2), (2, 3, 5), (5, 6, 0), (1, 3), (4,), (6, 3)),
    tuple((i, j) for i in range(7) for j in range(i)),
    ((0, 1, 2, 3), (3, 4, 5, 6), (0, 6), (1, 5), (2, 5)),
)


@pytest.mark.parametrize("scopes", SCOPES)
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("forbidden", [0.0, 0.15])
def test_the_interval_contains_log_z(
    scopes: tuple[tuple[int, ...], ...], width: int, forbidden: float
) -> None:
    for seed, scale in ((0, 1.0), (1, 4.0)):
        field = random_field(seed, states=STATES, scopes=scopes, scale=scale, forbidden=forbidden)
        truth = float(Enumeration()(field).log_partition)
        slack = 1e-10 * (1 + abs(truth)) if truth > -math.inf else 0.0
        for steps in (1, 10):
            upper = MiniBucket(width, max_steps=steps)(field)
            lower = MiniBucket(width, "lower", max_steps=steps)(field)
            assert float(lower.log_partition) <= truth + slack
            assert float(upper.log_partition) >= truth - slack
            if "exact" in (upper.kind, lower.kind):
                assert float(upper.log_partition) == pytest.approx(truth)


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_any_setting_is_a_bound_and_its_gradient_is_right(side: str) -> None:
    field = random_field(3, states=STATES, scopes=SCOPES[1], scale=2.0)
    truth = float(Enumeration()(field).log_partition)
    bound = Bound.of(field, 1, 2**30, side)  # type: ignore[arg-type]
    generator = np.random.default_rng(0)
    for _ in range(5):
        vector = generator.normal(size=len(bound.start()))
        value, weights, found = bound.evaluate(vector)
        assert (float(value.sum()) - truth) * (1 if side == "upper" else -1) > 0
        move, step = generator.normal(size=len(vector)), 1e-5
        ends = [float(bound.evaluate(vector + s * step * move)[0].sum()) for s in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert float(bound.gradient(weights, found) @ move) == pytest.approx(slope, rel=1e-5)


def test_weights_add_up_to_one_and_shifts_to_zero() -> None:
    field = random_ising(grid(4, 4), scale=2.0, seed=1)
    for side, positive in (("upper", "all"), ("lower", "one")):
        bound = Bound.of(field, 2, 2**30, side)  # type: ignore[arg-type]
        vector = np.random.default_rng(1).normal(size=len(bound.start()))
        shifts, weights = bound.settings(vector)
        total = torch.zeros(bound.split.owners, dtype=torch.float64)
        total.index_add_(0, bound.owner, weights[bound.copy])
        torch.testing.assert_close(total, torch.ones_like(total))
        above = torch.zeros_like(total).index_add_(
            0, bound.owner, (weights[bound.copy] > 0).double()
        )
        count = torch.bincount(bound.owner).double()
        assert torch.equal(above, count if positive == "all" else torch.ones_like(count))
        for own, shift in zip(bound.split.shift_owner, shifts, strict=True):
            sums = torch.zeros(bound.split.owners, *shift.shape[1:], dtype=torch.float64)
            assert float(sums.index_add_(0, own, shift).abs().max()) < 1e-12


def test_more_steps_and_more_width_never_loosen_much() -> None:
    field = random_ising(grid(6, 6), scale=2.0, seed=2)
    truth = float(JunctionTree()(field).log_partition)
    gaps = [
        [
            float(MiniBucket(width, max_steps=steps)(field).log_partition) - truth
            for steps in (1, 10, 60)
        ]
        for width in (1, 3, 6)
    ]
    for row in gaps:
        assert row[0] >= row[1] >= row[2] >= -1e-9
    assert gaps[0][2] >= gaps[1][2] >= gaps[2][2]


def test_no_table_is_wider_than_the_limit_and_a_wide_limit_splits_nothing() -> None:
    scopes = tuple((i, j) for i in range(8) for j in range(i))
    structure = EliminationStructure((2, 3) * 4, scopes)
    for variables, bits in ((2, 30.0), (4, 30.0), (8, 4.0)):
        found = split(structure, range(8), Limit(variables, bits))
        copies = found.structure
        order = list(range(len(found.original)))
        elimination = follow(copies, copies.neighbours(), order)
        for clique in elimination.cliques:  # type: ignore[union-attr]
            assert len(clique) <= max(variables, 2)
            assert math.prod(copies.states[v] for v in clique) <= 2.0**bits + 1e-9
        for scope, copied in zip(structure.scopes, copies.scopes, strict=True):
            assert tuple(found.original[copy] for copy in copied) == scope
    assert split(structure, range(8), Limit(8, 30.0)).extra == 0


def test_join_graph_propagation_draws_nearer_with_width() -> None:
    field = random_ising(grid(7, 7), scale=0.6, seed=5)
    truth = JunctionTree()(field)
    errors = []
    for width in (1, 4, 7):
        found = JoinGraphPropagation(width)(field)
        assert found.converged
        error = float((found.log_partition - truth.log_partition).abs())
        apart = float((found.variables - truth.variables).abs().max())
        errors.append((error, apart))
    assert errors[0][0] > errors[2][0]
    assert errors[2][0] < 1e-6 or JoinGraphPropagation(7)(field).kind == "approximation"
    assert errors[2][1] < 0.02


def test_messages_damp_themselves_where_they_run_in_circles() -> None:
    field = random_ising(grid(5, 5), scale=4.0, seed=0)
    found = JoinGraphPropagation(1, max_sweeps=60)(field)
    assert math.isfinite(float(found.log_partition))
    assert 0.0 <= float(found.residual) <= 1.0
    assert found.converged == (float(found.residual) <= 1e-6)


def test_settings_that_mean_nothing_are_refused() -> None:
    for wrong in ({"width": -1}, {"max_steps": 0}, {"seconds": 0.0}, {"side": "middle"}):
        with pytest.raises(InferenceError):
            MiniBucket(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InferenceError):
        JoinGraphPropagation(max_sweeps=0)

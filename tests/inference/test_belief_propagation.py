from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from mrflearn.errors import GraphError, InferenceError
from mrflearn.graph.networks import from_uai
from mrflearn.graph.potentials import DenseTable, Potentials, dense_potentials
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.messages import Field, is_forest, is_soft, log_sweep, soft_sweep
from mrflearn.io.uai import read_network
from support.fields import SHAPES, TREES, fields, random_field, tiny_field
from support.grids import ising_grid

# libDAI's fixed points: side, scale, damping, Bethe log Z, P(+1) of nodes 0, 1, 2, and its sum.
FIXED_POINTS = [
    (10, 0.5, 0.0, 95.323337228, (0.53539936, 0.11312309, 0.14110045), 54.023542),
    (10, 1.0, 0.5, 116.07951955, (0.40659938, 0.04649225, 0.12843129), 53.235306),
    (50, 0.5, 0.0, 2300.5752296, (0.46676410, 0.16070978, 0.04103654), 1249.921012),
    (50, 1.0, 0.5, 2809.3493586, (0.23149477, 0.06029546, 0.00886315), 1256.723876),
]


@pytest.mark.parametrize(("side", "scale", "damping", "value", "three", "total"), FIXED_POINTS)
@pytest.mark.parametrize("schedule", ["flooding", "residual"])
def test_fixed_points_of_libdai(side, scale, damping, value, three, total, schedule) -> None:
    field = ising_grid(side, scale)
    found = BeliefPropagation(damping=damping, schedule=schedule)(field)
    assert found.converged
    assert found.kind == "approximation"
    assert found.residual <= 1e-9
    assert float(found.log_partition) == pytest.approx(value, abs=1e-7)
    assert found.variables[:3, 1].tolist() == pytest.approx(three, abs=1e-7)
    assert float(found.variables[:, 1].sum()) == pytest.approx(total, abs=2e-6)


@pytest.mark.parametrize("seed", [6, 7])
def test_the_residual_schedule_converges_where_flooding_does_not(seed: int) -> None:
    field = ising_grid(10, 1.5, seed)
    flooding = BeliefPropagation(max_sweeps=500)(field)
    assert not flooding.converged
    assert flooding.sweeps == 500
    assert flooding.residual > 1e-6
    assert BeliefPropagation(max_sweeps=500, schedule="residual")(field).converged


@given(field=fields(), seed=st.integers(0, 100))
def test_the_soft_sweep_is_the_log_sweep(field: Potentials, seed: int) -> None:
    own = Field.of(field)
    assume(len(own.wiring.place) and is_soft(own))
    soft, plain = soft_sweep(own), log_sweep(own, torch.logsumexp)
    messages = plain.update(own.start(None))
    torch.testing.assert_close(soft.decode(soft.encode(messages)), messages)
    torch.testing.assert_close(
        soft.decode(soft.update(soft.encode(messages))), plain.update(messages)
    )


@pytest.mark.parametrize(("scale", "suits"), [(1.0, True), (20.0, True), (500.0, False)])
def test_the_soft_sweep_is_for_moderate_scores(scale: float, suits: bool) -> None:
    field = tiny_field("grid 2x3", scale=scale)
    assert is_soft(Field.of(field)) is suits
    forbidden = tiny_field("grid 2x3", seed=5, forbidden=0.3)
    assert not is_soft(Field.of(forbidden))


@pytest.mark.parametrize("shape", ["triangle", "triple factors", "parallel factors"])
def test_the_gradient_at_a_loopy_fixed_point(shape: str) -> None:
    field = tiny_field(shape, seed=3, scale=0.7)
    tables = [table.dense().clone().requires_grad_() for table in field.tables]
    method = BeliefPropagation(tolerance=1e-13)

    def value(*values: torch.Tensor) -> torch.Tensor:
        return method(Potentials(field.graph, tuple(map(DenseTable, values)))).log_partition

    assert torch.autograd.gradcheck(value, tables, eps=1e-5, atol=1e-6, rtol=1e-5)


def test_a_warm_start_saves_sweeps() -> None:
    field = ising_grid(10, 1.0)
    method = BeliefPropagation(damping=0.5)
    cold = method(field)
    moved = replace(field, tables=tuple(DenseTable(t.dense() * 1.001) for t in field.tables))
    warm, fresh = method(moved, cold.warm), method(moved)
    assert warm.sweeps < fresh.sweeps
    assert method(field, cold.warm).sweeps <= 2
    torch.testing.assert_close(warm.log_partition, fresh.log_partition)
    with pytest.raises(InferenceError, match="on the graph they came from"):
        method(ising_grid(4, 1.0), cold.warm)


def test_a_warm_start_forgets_what_was_impossible() -> None:
    shut = tiny_field("chain", seed=5, forbidden=0.3)
    opened = tiny_field("chain", seed=5)
    method = BeliefPropagation(damping=0.3)
    messages = method(shut).warm
    assert messages is not None
    assert bool((messages == -torch.inf).any())
    found = method(opened, messages)
    torch.testing.assert_close(found.log_partition, Enumeration()(opened).log_partition)
    extreme = torch.full_like(messages, 1e4).cumsum(0)
    found = method(opened, extreme)
    torch.testing.assert_close(found.log_partition, Enumeration()(opened).log_partition)


@pytest.mark.parametrize("shape", SHAPES)
def test_forests_are_recognised(shape: str) -> None:
    assert is_forest(tiny_field(shape).graph) is (shape in TREES)


def test_an_unconverged_tree_is_not_called_exact() -> None:
    states = (2,) * 30
    field = random_field(0, states=states, scopes=tuple((i, i + 1) for i in range(29)))
    early = BeliefPropagation(max_sweeps=2)
    assert early(field).kind == early.best(field).kind == "approximation"
    assert not early(field).converged
    assert BeliefPropagation()(field).kind == "exact"


@pytest.mark.parametrize("scopes", [((0, 1), (1, 2), (2, 3), (1, 4)), ((0, 1, 2), (2, 3, 4))])
def test_ties_are_decoded_consistently(scopes: tuple[tuple[int, ...], ...]) -> None:
    # Two states tie everywhere; each variable on its own could choose either.
    factors = []
    for scope in scopes:
        equal = torch.full((2,) * len(scope), -1.0, dtype=torch.float64)
        equal[(0,) * len(scope)] = equal[(1,) * len(scope)] = 0.0
        odd = equal.flip(0)  # the first variable differs from the others
        factors.append((scope, odd))
    found = BeliefPropagation().best(dense_potentials((2,) * 5, factors))
    assert found.kind == "exact"
    assert float(found.score) == 0.0


def test_a_decoding_is_at_least_a_local_maximum() -> None:
    field = ising_grid(4, 1.5, seed=3)
    found = BeliefPropagation(damping=0.5).best(field)
    flips = found.assignment.repeat(16, 1)
    flips[torch.arange(16), torch.arange(16)] ^= 1
    assert bool((field.score(flips) <= found.score).all())
    assert found.kind == "approximation"


def test_single_precision_converges() -> None:
    field = ising_grid(10, 0.5)
    single = Potentials(field.graph, tuple(DenseTable(t.dense().float()) for t in field.tables))
    found = BeliefPropagation()(single)
    assert found.converged
    assert float(found.log_partition) == pytest.approx(95.323337228, abs=1e-3)


def test_wrong_settings_and_numbers_are_named() -> None:
    with pytest.raises(InferenceError, match="damping from 0"):
        BeliefPropagation(damping=1.0)
    with pytest.raises(InferenceError, match="neither 'flooding'"):
        BeliefPropagation(schedule="random")
    graph = dense_potentials((2,), [((0,), torch.zeros(2))]).graph
    broken = Potentials(graph, (DenseTable(torch.tensor([[0.0, torch.nan]])),))
    with pytest.raises(GraphError, match="nan"):
        BeliefPropagation()(broken)


@pytest.mark.data
@pytest.mark.parametrize("damping", [0.0, 0.5])
@pytest.mark.parametrize("name", ["linkage_12", "linkage_15"])
def test_messages_of_hard_networks_keep_within_bounds(
    name: str, damping: float, data_folder: Path
) -> None:
    field = from_uai(read_network(data_folder / "uai-hard" / f"{name}.uai"))
    run = BeliefPropagation(max_sweeps=100, damping=damping)(field)
    finite = [table.dense().masked_fill(table.dense() == -torch.inf, 0) for table in field.tables]
    reach = sum(float(t.flatten(1).amax(1).sum() - t.flatten(1).amin(1).sum()) for t in finite)
    reach += float(field.graph.states.log().sum())
    assert run.residual <= reach
    messages = run.warm
    assert messages is not None
    assert float(messages[messages > -torch.inf].min()) >= -reach


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_messages_that_double_in_every_sweep_converge(damping: float) -> None:
    # Equality between all four variables: each passes on its own score and what two others say.
    equal = torch.eye(2, dtype=torch.float64).log()
    own = torch.tensor([1.0, 0.9], dtype=torch.float64).log()
    pairs = [(pair, equal) for pair in combinations(range(4), 2)]
    field = dense_potentials([2] * 4, [*(((v,), own) for v in range(4)), *pairs])
    found = BeliefPropagation(max_sweeps=1000, damping=damping)(field)
    assert found.converged
    assert float(found.log_partition) < 4 * math.log(2)

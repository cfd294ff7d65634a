"""What every inference must do, on every tiny field, against enumeration.

To add an inference: one line in METHODS.  A method is asked only for what it has: `__call__`
(beliefs), `best` (decoding), `sample`.  Where it refuses a field, the refusal itself is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.errors import InferenceError
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.potentials import DenseTable, Potentials, batch, dense_potentials
from mrflearn.inference.annealed import AnnealedImportance
from mrflearn.inference.anytime import Anytime
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.inference.beliefs import Beliefs, Maximiser, Sampler
from mrflearn.inference.chain import Chain
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.join_graph import JoinGraphPropagation
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.mean_field import MeanField
from mrflearn.inference.mini_bucket import MiniBucket
from mrflearn.inference.sampling import Gibbs
from mrflearn.inference.tree_reweighted import TreeReweighted
from support.fields import SHAPES, TREES, fields, random_field, tiny_batch, tiny_field

Where = Literal["everywhere", "trees", "nowhere"]


@dataclass(frozen=True)
class Method:
    """An inference and what it promises."""

    run: Any
    kind: str | None  # what its beliefs say of themselves; None: it gives no beliefs
    exact: Where = "everywhere"  # where value and marginals must equal enumeration's
    tolerance: float = 1e-9
    independent: bool = True  # whether its samples are independent of one another


METHODS: dict[str, Method] = {
    "enumeration": Method(Enumeration(), "exact"),
    "chain": Method(Chain(), "exact"),
    "junction tree": Method(JunctionTree(), "exact"),
    "belief propagation": Method(BeliefPropagation(), "approximation", "trees", 1e-8),
    "residual belief propagation": Method(
        BeliefPropagation(schedule="residual"), "approximation", "trees", 1e-8
    ),
    "tree-reweighted": Method(TreeReweighted(), "upper bound", "trees", 1e-8),
    "mini-bucket": Method(MiniBucket(width=1, max_steps=20), "upper bound", "trees"),
    "lower mini-bucket": Method(
        MiniBucket(width=1, side="lower", max_steps=20), "lower bound", "trees"
    ),
    "join-graph propagation": Method(
        JoinGraphPropagation(width=1, max_sweeps=50), "approximation", "trees"
    ),
    "anytime": Method(Anytime(seconds=60.0), "exact"),
    "mean field": Method(MeanField(), "lower bound", "nowhere", 1e-8),
    "Gibbs": Method(Gibbs(), None, "nowhere", independent=False),
    "annealed importance": Method(AnnealedImportance(temperatures=100), None, "nowhere"),
}
ORACLE = Enumeration()

every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
every_shape = pytest.mark.parametrize("shape", SHAPES)


def refused(method: Method, field: Potentials) -> bool:
    """Whether the method refuses the field; checks that it then says so everywhere."""
    reason = method.run.refuses(field.graph)
    if reason is None:
        return False
    assert isinstance(reason, str)
    assert len(reason) > 20
    with pytest.raises(InferenceError):
        method.run(field) if method.kind else method.run.sample(field, 1, torch.Generator())
    return True


def check_beliefs(method: Method, field: Potentials, *, exact: bool) -> None:
    """Beliefs are well formed, on their side of the bound, and right where they must be."""
    if refused(method, field) or method.kind is None:
        return
    found, truth = method.run(field), ORACLE(field)
    check_form(field, found)
    # On trees a method may do better than it promises; unconverged it may do worse, and says so.
    better = method.exact == "trees" and found.kind == "exact"
    worse = not found.converged and found.kind == "approximation"
    assert found.kind == method.kind or better or worse
    scale = method.tolerance * (1 + truth.log_partition.nan_to_num(neginf=0).abs())
    if found.kind == "upper bound":
        assert bool((found.log_partition >= truth.log_partition - scale).all())
    if found.kind == "lower bound":
        assert bool((found.log_partition <= truth.log_partition + scale).all())
    if exact or found.kind == "exact":
        check_same(found, truth, tolerance=method.tolerance)


def check_form(field: Potentials, found: Beliefs) -> None:
    graph = field.graph
    assert found.log_partition.shape == (graph.components,)
    assert not bool(found.log_partition.isnan().any())
    assert found.variables.shape == (graph.variables, graph.most_states)
    assert not bool(found.variables[~graph.legal()].any())
    possible = found.log_partition > -torch.inf
    expected = possible.to(found.variables.dtype)[graph.component]
    torch.testing.assert_close(found.variables.sum(dim=1), expected)
    for index, (group, belief) in enumerate(zip(graph.groups, found.factors, strict=True)):
        assert belief.shape == field.factor_scores(index).shape
        expected = possible.to(belief.dtype)[graph.component_of(group)]
        torch.testing.assert_close(belief.flatten(1).sum(dim=1), expected)


def check_same(found: Beliefs, truth: Beliefs, *, tolerance: float) -> None:
    near = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(found.log_partition, truth.log_partition, **near)
    torch.testing.assert_close(found.variables, truth.variables, **near)
    for ours, theirs in zip(found.factors, truth.factors, strict=True):
        torch.testing.assert_close(ours, theirs, **near)


def expected_exact(method: Method, shape: str) -> bool:
    return method.exact == "everywhere" or (method.exact == "trees" and shape in TREES)


@every_method
@every_shape
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_beliefs(method: Method, shape: str, scale: float) -> None:
    field = tiny_field(shape, seed=1, scale=scale)
    check_beliefs(method, field, exact=expected_exact(method, shape))


@every_method
@every_shape
def test_impossible_entries(method: Method, shape: str) -> None:
    field = tiny_field(shape, seed=5, forbidden=0.25)
    check_beliefs(method, field, exact=expected_exact(method, shape))


@every_method
@every_shape
def test_scores_of_500(method: Method, shape: str) -> None:
    field = tiny_field(shape, seed=2, scale=500.0)
    check_beliefs(method, field, exact=expected_exact(method, shape))


@every_method
def test_strong_scores_that_cancel(method: Method) -> None:
    # Each table alone rules out what the other prefers; in linear space both would be zero.
    one = torch.tensor([0.0, -800.0], dtype=torch.float64)
    pair = torch.tensor([[500.0, -500.0], [-500.0, 500.0]], dtype=torch.float64)
    factors = [((0,), one), ((0, 1), pair), ((1, 2), pair), ((2,), one.flip(0))]
    check_beliefs(method, dense_potentials((2, 2, 2), factors), exact=method.exact != "nowhere")


@every_method
def test_a_component_without_any_possible_assignment(method: Method) -> None:
    fine = random_field(0, states=(2, 2), scopes=((0, 1),))
    never = random_field(1, states=(2, 2), scopes=((0, 1),), forbidden=1.0)
    field = batch([fine, never, fine])
    check_beliefs(method, field, exact=method.exact != "nowhere")


@every_method
def test_batches_are_their_components(method: Method) -> None:
    check_beliefs(method, tiny_batch(3), exact=method.exact == "everywhere")
    trees = [tiny_field("chain", seed=i) for i in range(3)]
    check_beliefs(method, batch(trees), exact=method.exact != "nowhere")


def tied_field(*, loop: bool) -> Potentials:
    """Edges that all read one table."""
    edges = [(0, 1), (1, 2), (2, 3)] + [(3, 0)] * loop
    group = FactorGroup.tied("edges", torch.tensor(edges))
    unary = FactorGroup.tied("nodes", torch.arange(4).unsqueeze(-1))
    generator = torch.Generator().manual_seed(4)
    tables = [torch.randn(shape, generator=generator).double() for shape in ((1, 3, 3), (1, 3))]
    graph = FactorGraph(torch.full((4,), 3), (group, unary))
    return Potentials(graph, tuple(DenseTable(table) for table in tables))


@every_method
@pytest.mark.parametrize("loop", [False, True])
def test_tied_tables(method: Method, loop: bool) -> None:
    exact = method.exact == "everywhere" or (method.exact == "trees" and not loop)
    check_beliefs(method, tied_field(loop=loop), exact=exact)


@every_method
@given(field=fields())
def test_any_small_field(method: Method, field: Potentials) -> None:
    check_beliefs(method, field, exact=method.exact == "everywhere")


@every_method
@pytest.mark.parametrize("shape", ["chain", "star", "triangle", "triple factors", "disconnected"])
def test_the_gradient_of_the_value(method: Method, shape: str) -> None:
    """The gradient by finite differences: exact where beliefs are, else the value's own."""
    field = tiny_field(shape, seed=6)
    if method.kind is None or not expected_exact(method, shape) or refused(method, field):
        return
    check_gradient(method, field)


@every_method
@pytest.mark.parametrize("loop", [False, True])
def test_the_gradient_of_tied_tables(method: Method, loop: bool) -> None:
    field = tied_field(loop=loop)
    exact = method.exact == "everywhere" or (method.exact == "trees" and not loop)
    if method.kind is None or not exact or refused(method, field):
        return
    check_gradient(method, field)


def check_gradient(method: Method, field: Potentials) -> None:
    tables = [table.dense().clone().requires_grad_() for table in field.tables]

    def value(*values: torch.Tensor) -> torch.Tensor:
        return method.run(Potentials(field.graph, tuple(map(DenseTable, values)))).log_partition

    value(*tables).sum().backward()
    step, direction = 1e-5, torch.Generator().manual_seed(0)
    for k, table in enumerate(tables):
        move = torch.randn(table.shape, generator=direction, dtype=table.dtype)
        ends = []
        for sign in (1, -1):
            moved = [
                t.detach() + (sign * step * move if i == k else 0) for i, t in enumerate(tables)
            ]
            ends.append(value(*moved).sum())
        slope = (ends[0] - ends[1]) / (2 * step)
        assert table.grad is not None
        torch.testing.assert_close((table.grad * move).sum(), slope, rtol=1e-5, atol=1e-6)


@every_method
@every_shape
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
def test_the_best_assignment(method: Method, shape: str, forbidden: float) -> None:
    field = tiny_field(shape, seed=8, forbidden=forbidden)
    check_best(method, field, exact=expected_exact(method, shape))


@every_method
@given(field=fields())
def test_the_best_assignment_of_any_small_field(method: Method, field: Potentials) -> None:
    check_best(method, field, exact=method.exact == "everywhere")


def check_best(method: Method, field: Potentials, *, exact: bool) -> None:
    if not isinstance(method.run, Maximiser) or refused(method, field):
        return
    found, truth = method.run.best(field), ORACLE.best(field)
    assert found.assignment.shape == (field.graph.variables,)
    assert bool(((found.assignment >= 0) & (found.assignment < field.graph.states)).all())
    torch.testing.assert_close(found.score, field.score(found.assignment))
    if exact or found.kind == "exact":
        torch.testing.assert_close(found.score, truth.score)


@every_method
@pytest.mark.parametrize("shape", ["chain", "square with chord", "single states", "disconnected"])
def test_samples_follow_the_marginals(method: Method, shape: str) -> None:
    field = tiny_field(shape, seed=9, forbidden=0.1)
    if not isinstance(method.run, Sampler) or refused(method, field):
        return
    count = 4000
    samples = method.run.sample(field, count, torch.Generator().manual_seed(11))
    assert samples.shape == (count, field.graph.variables)
    truth = ORACLE(field)
    for index, (group, belief) in enumerate(zip(field.graph.groups, truth.factors, strict=True)):
        for i, scope in enumerate(group.scope.tolist()):
            cells = samples[:, scope]
            seen = torch.zeros(belief.shape[1:], dtype=torch.float64)
            seen.index_put_(tuple(cells.T), torch.ones(count).double(), accumulate=True)
            # Five standard errors, ten where neighbouring samples of a chain are alike.
            width = 5 if method.independent else 10
            error = width * (belief[i] * (1 - belief[i]) / count).sqrt() + 1e-12
            assert bool(((seen / count - belief[i]).abs() <= error).all()), (index, i)


@every_method
def test_nothing_is_drawn_where_nothing_is_possible(method: Method) -> None:
    open_one, closed = torch.zeros(2, 2).double(), torch.full((2, 2), -torch.inf).double()
    field = batch([dense_potentials([2, 2], [((0, 1), table)]) for table in (open_one, closed)])
    if isinstance(method.run, Sampler) and not refused(method, field):
        with pytest.raises(InferenceError, match="component 1"):
            method.run.sample(field, 3, torch.Generator().manual_seed(0))


@every_method
def test_a_cycle_that_nothing_satisfies_is_impossible(method: Method) -> None:
    # Messages round the odd cycle stay uniform: any two of its variables can differ.
    same = torch.eye(2, dtype=torch.float64).log()
    differ = same.flip(0)
    odd = dense_potentials([2] * 3, [((0, 1), differ), ((1, 2), differ), ((0, 2), differ)])
    even = dense_potentials([2] * 3, [((0, 1), differ), ((1, 2), differ), ((0, 2), same)])
    field = batch([odd, even])
    if method.kind is None or refused(method, field):
        return
    found = method.run(field)
    check_form(field, found)
    assert (found.log_partition == -torch.inf).tolist() == [True, False]
    assert bool((found.variables[:3] == 0).all())


@every_method
def test_equal_seeds_give_equal_samples(method: Method) -> None:
    field = tiny_field("chain", seed=1)
    if isinstance(method.run, Sampler) and not refused(method, field):
        first, second = (
            method.run.sample(field, 7, torch.Generator().manual_seed(3)) for _ in range(2)
        )
        assert torch.equal(first, second)
        assert torch.equal(first, method.run.sample(field, 7, seed=3))
        with pytest.raises(InferenceError, match="seed=3"):
            method.run.sample(field, 7, 3)


@every_method
@given(seed=st.integers(0, 10**6))
@settings(max_examples=5)
def test_single_precision(method: Method, seed: int) -> None:
    states, scopes = SHAPES["chain"]
    single = random_field(seed, states=states, scopes=scopes, dtype=torch.float32)
    if method.kind is None or refused(method, single):
        return
    found, truth = method.run(single), ORACLE(single)
    assert found.log_partition.dtype == found.variables.dtype == torch.float32
    if method.exact != "nowhere":
        check_same(found, truth, tolerance=max(method.tolerance, 1e-4))

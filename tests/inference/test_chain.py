from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from mrflearn.errors import InferenceError
from mrflearn.graph.builders import chains
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.inference.beliefs import Inference, Maximiser, Sampler
from mrflearn.inference.chain import Chain, plan_or_reason
from mrflearn.inference.enumeration import Enumeration
from support.brute_force import all_assignments, belief_entropy
from support.fields import random_field, tiny_field


@st.composite
def path_fields(draw: st.DrawFn) -> Potentials:
    """Paths in any numbering and sense, with single variables, parallel factors, -inf."""
    count = draw(st.integers(1, 6))
    states = tuple(draw(st.integers(1, 3)) for _ in range(count))
    walk = draw(st.permutations(range(count)))
    scopes: list[tuple[int, ...]] = []
    for a, b in pairwise(walk):
        pair = (a, b) if draw(st.booleans()) else (b, a)
        scopes += [pair] * draw(st.sampled_from([1, 1, 0, 2]))
    scopes += [(v,) for v in range(count) for _ in range(draw(st.integers(0, 2)))]
    return random_field(
        draw(st.integers(0, 10**6)),
        states=states,
        scopes=tuple(draw(st.permutations(scopes))),
        scale=draw(st.sampled_from([0.5, 3.0, 500.0])),
        forbidden=draw(st.sampled_from([0.0, 0.0, 0.2])),
    )


def tied_chains(lengths: list[int], states: int, seed: int = 0) -> Potentials:
    """Random emissions, one transition table for all."""
    graph = chains(lengths, states)
    pairwise = FactorGroup.tied("pairwise", graph.groups[1].scope)
    graph = FactorGraph(
        graph.states, (graph.groups[0], pairwise), graph.component, components=len(lengths)
    )
    generator = torch.Generator().manual_seed(seed)
    unary = torch.randn(sum(lengths), states, generator=generator, dtype=torch.float64)
    table = torch.randn(1, states, states, generator=generator, dtype=torch.float64)
    return Potentials(graph, (DenseTable(unary), DenseTable(table)))


def test_chain_answers_every_question():
    assert isinstance(Chain(), Inference)
    assert isinstance(Chain(), Maximiser)
    assert isinstance(Chain(), Sampler)


@given(path_fields())
@settings(max_examples=50)
def test_beliefs_equal_enumeration(field):
    found, truth = Chain()(field), Enumeration()(field)
    assert_close(found.log_partition, truth.log_partition, rtol=1e-9, atol=1e-9)
    assert_close(found.variables, truth.variables, rtol=1e-9, atol=1e-9)
    for ours, theirs in zip(found.factors, truth.factors, strict=True):
        assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@given(path_fields(), st.integers(1, 9))
@settings(max_examples=50)
def test_the_n_best_equal_sorted_enumeration(field, count):
    found = Chain().best_n(field, count)
    listed = field.score(all_assignments(field)).squeeze(1).sort(descending=True).values[:count]
    scores = torch.cat([decoding.score for decoding in found])
    missing = listed.new_full((count - len(listed),), -torch.inf)
    assert_close(scores, torch.cat([listed, missing]), rtol=1e-10, atol=1e-9)
    possible = [d for d in found if d.score > -torch.inf]
    assert len({tuple(d.assignment.tolist()) for d in possible}) == len(possible)
    for decoding in possible:
        assert_close(field.score(decoding.assignment), decoding.score, rtol=1e-10, atol=1e-9)


@given(path_fields())
def test_entropy_equals_that_of_exact_beliefs(field):
    truth = belief_entropy(field, Enumeration()(field))
    assert_close(Chain().entropy(field), truth, rtol=1e-8, atol=1e-7)


def test_a_batch_of_tied_chains_shares_its_table():
    field = tied_chains([3, 0, 1, 4, 0], 3)
    assert plan_or_reason(field.graph).shared == 1
    found, truth = Chain()(field), Enumeration()(field)
    assert found.log_partition.shape == (5,)
    assert found.log_partition[[1, 4]].tolist() == [0.0, 0.0]
    assert_close(found.log_partition, truth.log_partition)
    assert_close(found.factors[1], truth.factors[1])
    assert_close(Chain().best(field).score, Enumeration().best(field).score)


@pytest.mark.parametrize(
    "field", [tied_chains([3, 2], 3), tiny_field("chain")], ids=["tied", "own"]
)
def test_both_gradients_agree(field):
    tables = [table.dense().clone().requires_grad_() for table in field.tables]
    laid = Potentials(field.graph, tuple(map(DenseTable, tables)))
    weight = torch.arange(1.0, field.graph.components + 1, dtype=torch.float64)
    by_beliefs = torch.autograd.grad((Chain()(laid).log_partition * weight).sum(), tables)
    by_kernel = torch.autograd.grad((Chain().log_partition(laid) * weight).sum(), tables)
    for ours, theirs in zip(by_kernel, by_beliefs, strict=True):
        assert_close(ours, theirs)


def test_gradient_by_finite_differences():
    field = tied_chains([3, 1], 2)
    tables = tuple(table.dense().clone().requires_grad_() for table in field.tables)

    def value(*values):
        return Chain().log_partition(Potentials(field.graph, tuple(map(DenseTable, values))))

    assert torch.autograd.gradcheck(value, tables)


def test_samples_follow_the_beliefs():
    field = random_field(3, states=(2, 3, 2), scopes=((2, 0), (1,), (0,)))
    drawn = Chain().sample(field, 20_000, torch.Generator().manual_seed(0))
    pairs = torch.zeros(2, 2, dtype=torch.float64)
    pairs.index_put_((drawn[:, 2], drawn[:, 0]), torch.tensor(1 / 20_000).double(), accumulate=True)
    assert_close(pairs, Chain()(field).factors[0][0], rtol=0, atol=0.02)


def test_nothing_can_be_drawn_from_an_impossible_component():
    field = random_field(0, states=(2, 2), scopes=((0, 1),), forbidden=1.0)
    with pytest.raises(InferenceError, match="component 0 has no possible assignment"):
        Chain().sample(field, 1, torch.Generator())


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("star", "component 0 is not a path: variable 0 has 3 neighbours"),
        ("triangle", "component 0 is not a path: variable 0 is on a cycle"),
        ("triple factors", "has factors of 3 variables"),
    ],
)
def test_other_graphs_are_refused_with_a_reason(shape, reason):
    field = tiny_field(shape)
    assert reason in Chain().refuses(field.graph)
    with pytest.raises(InferenceError, match=reason):
        Chain()(field)


def test_a_graph_without_variables():
    graph = FactorGraph(torch.zeros(0, dtype=torch.int64), components=2)
    assert Chain()(Potentials(graph, ())).log_partition.tolist() == [0.0, 0.0]


def test_none_best_is_refused():
    with pytest.raises(InferenceError, match="1 is the least"):
        Chain().best_n(tiny_field("chain"), 0)

"""Branch and bound finds what enumeration finds, and its bounds are bounds."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import InferenceError
from mrflearn.graph.builders import complete, grid
from mrflearn.graph.gauges import random_ising
from mrflearn.graph.potentials import Potentials, batch, dense_potentials
from mrflearn.inference import search
from mrflearn.inference.beliefs import Decoding
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.search import BranchAndBound, DepthFirst, Incumbents, mini_buckets
from support.fields import fields, random_field, tiny_batch

SEARCH = BranchAndBound(JunctionTree(memory_limit=0), seconds=60)  # never by elimination


def problem(field: Potentials) -> tuple[list[search.Factor], dict[int, int]]:
    ((_, factors, states),) = search._components(field)
    return factors, states


@given(fields())
def test_the_best_is_that_of_enumeration(field: Potentials) -> None:
    found, expected = SEARCH.best(field), Enumeration().best(field)
    assert found.certificate == "optimal"
    assert float(found.score) == pytest.approx(float(expected.score), rel=1e-9, abs=1e-9)
    assert float(field.score(found.assignment)) == pytest.approx(float(found.score))


@given(fields(most_variables=6), st.integers(2, 30), st.integers(0, 3))
def test_mini_buckets_bound_the_best_score(field: Potentials, most: int, seed: int) -> None:
    factors, states = problem(field)
    best = float(Enumeration().best(field).score)
    buckets = mini_buckets(factors, states, most, seed)
    assert buckets.upper >= best - 1e-9 * max(1.0, abs(best)) or best == buckets.upper
    if not buckets.split:
        assert buckets.upper == pytest.approx(best, rel=1e-9, abs=1e-9)


@given(fields(), st.integers(2, 8), st.integers(1, 10))
def test_search_over_split_buckets_finds_the_n_best(field: Potentials, most: int, n: int) -> None:
    factors, states = problem(field)
    incumbents = Incumbents(n, [])
    tree = DepthFirst(mini_buckets(factors, states, most), incumbents)
    while tree.open:
        tree.run(7, math.inf)
    scores = Enumeration().n_best(field, n)[1].squeeze(1)
    expected = [score for score in scores.tolist() if score > -math.inf]
    found = sorted((score for score, _ in incumbents.found), reverse=True)
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-7)


@given(fields(), st.integers(1, 12))
def test_n_best_lists_are_those_of_enumeration(field: Potentials, n: int) -> None:
    scores = Enumeration().n_best(field, n)[1].squeeze(1)
    expected = [score for score in scores.tolist() if score > -math.inf]
    found = SEARCH.n_best(field, n)
    assert [score for _, score in found] == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert len({tuple(states.tolist()) for states, _ in found}) == len(found)
    for states, score in found:
        assert float(field.score(states)) == pytest.approx(score, rel=1e-9, abs=1e-9)


def test_components_are_solved_one_by_one() -> None:
    found, expected = SEARCH.best(tiny_batch()), Enumeration().best(tiny_batch())
    assert found.certificate == "optimal"
    torch.testing.assert_close(found.score, expected.score)


def test_impossible_fields_are_proved_to_be() -> None:
    never = dense_potentials([2, 2], [([0, 1], torch.full((2, 2), -math.inf))])
    found = SEARCH.best(never)
    assert (found.score.tolist(), found.certificate) == ([-math.inf], "optimal")
    both = SEARCH.best(batch([random_field(0, states=(2, 2), scopes=((0, 1),)), never]))
    assert both.score.isfinite().tolist() == [True, False]


def test_matching_tightens_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a grid whose buckets are split, with and without matched max-marginals."""
    factors, states = problem(random_ising(grid(8, 8), scale=1.0, seed=1))
    matched = mini_buckets(factors, states, 2**4).upper
    monkeypatch.setattr(search, "_match", lambda parts: None)
    assert matched < mini_buckets(factors, states, 2**4).upper - 1


def test_neighbourhoods_improve_an_assignment_and_keep_its_score() -> None:
    field = random_ising(grid(12, 12), scale=1.0, seed=3)
    factors, states = problem(field)
    start = (0,) * 144
    incumbents = Incumbents(1, [(float(field.score(torch.tensor(start))), start)])
    search.LargeNeighbourhoods(factors, states, 0).improve(
        incumbents, list(states), time.monotonic() + 60
    )
    assert incumbents.best is not None
    score, found = incumbents.best
    assert score == pytest.approx(float(field.score(torch.tensor(found))))
    best = float(JunctionTree().best(field).score)
    assert start != found
    assert best - 1 < score <= best + 1e-9


def test_a_dense_field_is_answered_with_a_gap_that_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 spins, all joined: exact is quick, but is not allowed, and the time is nothing."""
    field = random_ising(complete(20), scale=1.0, seed=0)
    best = float(JunctionTree().best(field).score)
    monkeypatch.setattr(search, "FIRST_BUCKETS", 2**6)
    found = BranchAndBound(JunctionTree(memory_limit=0), seconds=0.0).best(field)
    assert found.upper is not None
    assert float(found.score) <= best + 1e-9
    assert float(found.upper) >= best - 1e-9
    assert found.gap == pytest.approx(float(found.upper - found.score))
    assert "nats" in found.certificate or found.kind == "exact"


def test_a_possible_assignment_is_found_where_most_are_not() -> None:
    """A proper colouring of a grid with two colours: two assignments of 2^64."""
    differ = np.array([[-math.inf, 0.0], [0.0, -math.inf]])
    pairs = grid(8, 8).groups[-1].scope.tolist()
    field = dense_potentials([2] * 64, [(pair, differ) for pair in pairs])
    found = BranchAndBound(JunctionTree(memory_limit=0), seconds=0.0).best(field)
    assert found.score.tolist() == [0.0]


def test_what_is_no_certificate() -> None:
    states, score = torch.zeros(1, dtype=torch.int64), torch.zeros(1)
    assert Decoding(states, score, "approximation").certificate == "not proved"
    bounded = Decoding(states, score, "approximation", upper=torch.tensor([0.25]))
    assert (bounded.gap, bounded.certificate) == (0.25, "within 0.25 nats of the optimum")
    with pytest.raises(InferenceError, match="3"):
        SEARCH.n_best(tiny_batch(), 1)

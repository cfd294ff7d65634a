"""Scores of chain CRFs, wide and narrow weights, against plain sums."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.estimators.crf_weights import from_weights, state_features, transition_features
from mrflearn.features.features import Numbering, compile_features
from mrflearn.features.labels import compile_labels
from mrflearn.features.support import find_support
from mrflearn.kernels import chain_search
from mrflearn.models.chain_crf import ChainCRF
from mrflearn.models.state_weights import WeightPlan
from support.tagged_items import attributes, random_data


def random_model(seed: int, labels: int, order: int = 1) -> tuple[list, ChainCRF]:
    X, y = random_data(seed, 12, labels)
    features = compile_features(X)
    compiled = compile_labels(y, features.lengths, Numbering())
    support, _ = find_support(features, compiled, order=order)
    model = ChainCRF.zeros(support, torch.float64, torch.device("cpu"))
    generator = torch.Generator().manual_seed(seed)
    random = {
        name: torch.randn(value.shape, generator=generator, dtype=value.dtype)
        for name, value in model.parameters().items()
    }
    return X, model.with_parameters(random)


@given(st.integers(0, 10**6), st.integers(1, 5))
@settings(max_examples=30)
def test_scores_are_sums_of_weights(seed: int, labels: int) -> None:
    X, model = random_model(seed, labels)
    weights, names = state_features(model), list(model.support.labels)
    compiled = compile_features(X, model.support.attributes)
    rows = model.scores(compiled).tolist()
    for item, row in zip(itertools.chain(*X), rows, strict=True):
        expected = [
            sum(value * weights.get((name, label), 0.0) for name, value in attributes(item))
            for label in names
        ]
        assert row == pytest.approx(expected, abs=1e-12)


def test_the_plan_has_wide_and_narrow_weights() -> None:
    _, model = random_model(1, 4)
    plan = WeightPlan.of(model.support)
    assert len(plan.wide)
    assert len(plan.narrow)
    both = torch.cat([plan.wide, plan.narrow]).sort().values
    assert both.tolist() == list(range(len(model.support.attribute)))


def test_dense_columns_add_to_the_scores() -> None:
    X = [[{"w": "a", "v": np.array([0.5, -1.0])}, {"v": np.array([2.0, 0.0])}]]
    dense = {("v[0]", "x"): 2.0, ("v[1]", "y"): 3.0}
    model = from_weights(["x", "y"], {("w:a", "x"): 1.0}, {}, dense)
    compiled = compile_features(X, model.support.attributes, model.support.columns)
    assert model.scores(compiled).tolist() == [[2.0, -3.0], [4.0, 0.0]]


@given(st.integers(0, 10**6), st.sampled_from([1, 2]))
@settings(max_examples=20)
def test_weights_by_name_make_the_same_model(seed: int, order: int) -> None:
    X, model = random_model(seed, 3, order)
    moves = transition_features(model)
    pairs = {names: weight for names, weight in moves.items() if len(names) == 2}
    triples = {names: weight for names, weight in moves.items() if len(names) == 3}
    if order == 2 and not triples:
        return
    again = from_weights(list(model.support.labels), state_features(model), pairs, None, triples)
    for one, other in ((model, again), (again, model)):
        assert state_features(one) == state_features(other)
        assert transition_features(one) == transition_features(other)
    first = model.chains(compile_features(X, model.support.attributes))
    second = again.chains(compile_features(X, again.support.attributes))
    for chains in (first, second):
        chains.steps.slices  # noqa: B018 - made once
    best = [chain_search.viterbi(c.unary, c.table, c.steps)[1] for c in (first, second)]
    torch.testing.assert_close(*best)


def test_weights_move_to_another_support() -> None:
    model = from_weights(["x", "y"], {("a", "x"): 1.0, ("b", "y"): 2.0}, {("x", "y"): 3.0})
    other = from_weights(
        ["y", "x", "z"], {("b", "y"): 0.5, ("c", "z"): 0.5}, {("x", "y"): 0.5, ("y", "z"): 0.5}
    )
    moved = model.on(other.support)
    assert state_features(moved) == {("b", "y"): 2.0}
    assert transition_features(moved) == {("x", "y"): 3.0}

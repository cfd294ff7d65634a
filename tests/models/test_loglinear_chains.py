"""Scores of chain CRFs, wide and narrow weights, against plain sums."""

from __future__ import annotations

import itertools
from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.estimators.crf_weights import from_weights, state_features, transition_features
from mrflearn.features.features import Numbering, compile_features, compile_labels
from mrflearn.features.index import chain_templates
from mrflearn.kernels import chain_search
from mrflearn.models.loglinear import LogLinearField
from support.tagged_items import attributes, random_data


def random_model(seed: int, labels: int, order: int = 1) -> tuple[list, LogLinearField, list[str]]:
    X, y = random_data(seed, 12, labels)
    features = compile_features(X)
    compiled = compile_labels(y, features.lengths, Numbering())
    templates, _ = chain_templates(features, compiled, order=order)
    model = LogLinearField.zeros(templates, torch.float64)
    generator = torch.Generator().manual_seed(seed)
    random = {
        name: torch.randn(value.shape, generator=generator, dtype=value.dtype)
        for name, value in model.parameters().items()
    }
    return X, model.with_parameters(random), list(compiled.names)


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_scores_are_sums_of_weights(seed: int, labels: int) -> None:
    X, model, names = random_model(seed, labels)
    weights = state_features(model, names)
    compiled = compile_features(X, model.templates[0].names)
    rows = model.token_scores(compiled).tolist()
    for item, row in zip(itertools.chain(*X), rows, strict=True):
        expected = [
            sum(value * weights.get((name, label), 0.0) for name, value in attributes(item))
            for label in names
        ]
        assert row == pytest.approx(expected, abs=1e-12)


def test_other_weights_leave_nothing_of_the_old_ones_behind() -> None:
    X, model, _ = random_model(1, 4)
    compiled = compile_features(X, model.templates[0].names)
    scores = model.token_scores(compiled)  # keeps its tables
    doubled = model.with_parameters({k: 2 * v for k, v in model.parameters().items()})
    assert vars(doubled).keys() == {own.name for own in fields(doubled)}
    torch.testing.assert_close(doubled.token_scores(compiled), 2 * scores)
    torch.testing.assert_close(model.token_scores(compiled), scores)


def test_the_plan_has_wide_and_narrow_weights() -> None:
    _, model, _ = random_model(1, 4)
    plan = model.plans.whole[0].weights
    assert len(plan.wide)
    assert len(plan.narrow)
    both = torch.cat([plan.wide, plan.narrow]).sort().values
    assert both.tolist() == list(range(len(model.templates[0])))


def test_dense_columns_add_to_the_scores() -> None:
    X = [[{"w": "a", "v": np.array([0.5, -1.0])}, {"v": np.array([2.0, 0.0])}]]
    dense = {("v[0]", "x"): 2.0, ("v[1]", "y"): 3.0}
    model, _ = from_weights(["x", "y"], {("w:a", "x"): 1.0}, {}, dense)
    compiled = compile_features(X, model.templates[0].names, model.templates[0].columns)
    assert model.token_scores(compiled).tolist() == [[2.0, -3.0], [4.0, 0.0]]


@given(st.integers(0, 10**6), st.sampled_from([1, 2]))
@settings(max_examples=20)
def test_weights_by_name_make_the_same_model(seed: int, order: int) -> None:
    X, model, labels = random_model(seed, 3, order)
    moves = transition_features(model, labels)
    pairs = {names: weight for names, weight in moves.items() if len(names) == 2}
    triples = {names: weight for names, weight in moves.items() if len(names) == 3}
    if order == 2 and not triples:
        return
    again, names = from_weights(labels, state_features(model, labels), pairs, None, triples)
    assert list(names) == labels
    assert state_features(model, labels) == state_features(again, labels)
    assert transition_features(model, labels) == transition_features(again, labels)
    first = model.chains(compile_features(X, model.templates[0].names))
    second = again.chains(compile_features(X, again.templates[0].names))
    for chains in (first, second):
        chains.steps.slices  # noqa: B018 - made once
    best = [chain_search.viterbi(c.unary, c.table, c.steps)[1] for c in (first, second)]
    torch.testing.assert_close(*best)


def test_weights_move_to_other_templates() -> None:
    model, labels = from_weights(["x", "y"], {("a", "x"): 1.0, ("b", "y"): 2.0}, {("x", "y"): 3.0})
    other, others = from_weights(
        ["y", "x", "z"], {("b", "y"): 0.5, ("c", "z"): 0.5}, {("x", "y"): 0.5, ("y", "z"): 0.5}
    )
    moved = model.on(other.templates, torch.tensor([others[name] for name in labels]))
    assert state_features(moved, list(others)) == {("b", "y"): 2.0}
    assert transition_features(moved, list(others)) == {("x", "y"): 3.0}

"""Likelihood and perceptron loss of chain CRFs against enumeration and finite differences."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mrflearn import edge
from mrflearn.errors import TrainingError
from mrflearn.estimators.crf_weights import edge_features, state_features, transition_features
from mrflearn.execution.resources import Threads
from mrflearn.features.features import Numbering, compile_features, compile_labels
from mrflearn.features.index import chain_templates
from mrflearn.models.loglinear import ChainBatch, LogLinearField
from mrflearn.objectives import chain_likelihood
from mrflearn.objectives.base import Layout
from mrflearn.objectives.chain_likelihood import ChainObjective, make_shards, perceptron
from support.tagged_items import all_paths, log_sum, path_score, random_data, with_edges

Weights = dict[Any, float]


@dataclass(frozen=True, eq=False)
class Case:
    X: list[Any]
    y: list[Any]
    data: ChainBatch
    model: LogLinearField
    labels: list[str]
    vector: Tensor

    @property
    def weighted(self) -> list[float]:
        weight = self.data.weight
        return [1.0] * len(self.X) if weight is None else weight.tolist()


def case(
    seed: int,
    labels: int = 3,
    order: int = 1,
    weights: bool = False,
    blur: bool = False,
    edges: bool = False,
) -> Case:
    X, y = random_data(seed, sequences=5, labels=labels, longest=4)
    if edges:
        X = with_edges(X)
    if blur:
        y = [
            [
                None if (i + j) % 4 == 1 else {tag, "A"} if (i + j) % 4 == 2 else tag
                for j, tag in enumerate(own)
            ]
            for i, own in enumerate(y)
        ]
    features = compile_features(X)
    compiled = compile_labels(y, features.lengths, Numbering())
    templates, features = chain_templates(features, compiled, order=order)
    model = LogLinearField.zeros(templates, torch.float64)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.rand(len(X), generator=generator).double() + 0.5 if weights else None
    size = sum(Layout.of(model.parameters()).sizes)
    vector = torch.randn(size, generator=generator, dtype=torch.float64)
    data = ChainBatch.of(templates, features, compiled, weight)
    return Case(X, y, data, model, list(compiled.names), vector)


def names_and_weights(given: Case) -> tuple[list[str], Weights, Weights, Weights]:
    layout = Layout.of(given.model.parameters())
    model = given.model.with_parameters(layout.unflatten(given.vector))
    kinds = (state_features, transition_features, edge_features)
    return given.labels, *(kind(model, given.labels) for kind in kinds)


def allowed(path: tuple[str, ...], given: list[Any]) -> bool:
    pairs = zip(path, given, strict=True)
    return all(
        want is None or tag == want or (not isinstance(want, str) and tag in want)
        for tag, want in pairs
    )


def enumerated(given: Case, possible: Any = None) -> float:
    """-log p of the labels by listing every labelling (that the chain can have)."""
    names, state, transition, edges = names_and_weights(given)
    total = 0.0
    for items, tags, weight in zip(given.X, given.y, given.weighted, strict=True):
        scores = all_paths(items, names, state, transition, edges)
        if possible is not None:
            scores = {path: score for path, score in scores.items() if possible(path)}
        right = {path: score for path, score in scores.items() if allowed(path, tags)}
        total += weight * (log_sum(scores) - log_sum(right))
    return total


def objective(given: Case, cores: int = 1) -> ChainObjective:
    shards = make_shards(given.model, given.data, cores)
    return ChainObjective(given.model, shards, Threads(1))


@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.booleans(), st.booleans())
def test_value_is_that_of_enumeration(
    seed: int, labels: int, weights: bool, blur: bool, edges: bool
) -> None:
    given = case(seed, labels, weights=weights, blur=blur, edges=edges)
    value = objective(given)(given.vector).value
    assert float(value) == pytest.approx(enumerated(given), rel=1e-9, abs=1e-9)


@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans())
def test_second_order_value_is_that_of_enumeration(seed: int, labels: int, weights: bool) -> None:
    given = case(seed, labels, order=2, weights=weights)
    names, size = given.labels, len(given.labels)
    pairs = given.model.templates[1].cell.tolist()
    known = {(names[cell // size], names[cell % size]) for cell in pairs}
    value = objective(given)(given.vector).value
    expected = enumerated(given, lambda path: set(itertools.pairwise(path)) <= known)
    assert float(value) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.integers(0, 10**6), st.sampled_from([1, 2]), *[st.booleans()] * 3)
def test_gradient_is_that_of_finite_differences(
    seed: int, order: int, weights: bool, blur: bool, edges: bool
) -> None:
    given = case(seed, 3, order, weights, blur and order == 1, edges and order == 1)
    function = objective(given)
    gradient = function(given.vector).gradient.clone()
    step = 1e-5
    for index in range(0, len(given.vector), 3):
        moved = torch.zeros_like(given.vector)
        moved[index] = step
        rise = function(given.vector + moved).value - function(given.vector - moved).value
        assert float(gradient[index]) == pytest.approx(float(rise) / (2 * step), abs=2e-6)


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("blur", [False, True])
def test_blocks_and_threads_change_nothing(
    monkeypatch: pytest.MonkeyPatch, blur: bool, edges: bool
) -> None:
    given = case(3, weights=True, blur=blur, edges=edges)
    found = objective(given)(given.vector)
    value, gradient = found.value, found.gradient
    monkeypatch.setattr(chain_likelihood, "LEAST_TOKENS", 2)
    monkeypatch.setattr(chain_likelihood, "NUMBERS_IN_BLOCK", 12)
    monkeypatch.setattr(chain_likelihood, "NUMBERS_IN_TABLES", 9)
    shards = make_shards(given.model, given.data, 2)
    assert len(shards) == 2
    blocks = [block for shard in shards for block in shard.blocks]
    assert len(blocks) > 2
    assert {block.moves is None for block in blocks} == ({True, False} if edges else {True})
    with Threads(2) as threads:
        again = ChainObjective(given.model, shards, threads)(given.vector)
    assert float(again.value) == pytest.approx(float(value), rel=1e-12)
    torch.testing.assert_close(again.gradient, gradient, rtol=1e-10, atol=1e-12)


def test_single_precision_is_close() -> None:
    given = case(5, blur=True, edges=True)
    found = objective(given)(given.vector)
    value, gradient = found.value, found.gradient
    model = LogLinearField.zeros(given.model.templates, torch.float32)
    single = ChainObjective(model, make_shards(model, given.data, 1), Threads(1))
    found = single(given.vector.float())
    lower, slope = found.value, found.gradient
    assert slope.dtype == torch.float32
    assert float(lower) == pytest.approx(float(value), rel=1e-6)
    torch.testing.assert_close(slope.double(), gradient, rtol=1e-4, atol=1e-5)


@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.booleans())
def test_perceptron_loss_and_its_gradient(
    seed: int, labels: int, weights: bool, edges: bool
) -> None:
    given = case(seed, labels, weights=weights, edges=edges)
    shards = make_shards(given.model, given.data, 1)
    found = ChainObjective(given.model, shards, Threads(1), perceptron)(given.vector)
    value, gradient = found.value, found.gradient
    names, *tables = names_and_weights(given)
    expected = sum(
        weight * (max(all_paths(items, names, *tables).values()) - path_score(items, tags, *tables))
        for items, tags, weight in zip(given.X, given.y, given.weighted, strict=True)
    )
    assert float(value) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    # The loss is linear in the weights as long as the best labels stay the same.
    assert float(gradient @ given.vector) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_gradients_of_transitions_keep_their_digits_in_single_precision() -> None:
    draw = torch.Generator().manual_seed(0)
    y = [["AB"[k] for k in torch.randint(2, (60,), generator=draw)] for _ in range(1500)]
    features = compile_features([[[f"x={tag}"] for tag in own] for own in y])
    compiled = compile_labels(y, features.lengths, Numbering())
    templates, features = chain_templates(features, compiled)
    batch, found = ChainBatch.of(templates, features, compiled), []
    for dtype in (torch.float32, torch.float64):
        model = LogLinearField.zeros(templates, dtype)
        vector = torch.full((6,), 4.0, dtype=dtype)  # the labels are nearly sure
        own = ChainObjective(model, make_shards(model, batch, 1), Threads(1))(vector)
        found.append(own.gradient.double())
    # Each row's probabilities are off by the rounding of as many steps as its sequence has, a few
    # millionths in all; summed in single precision, counts of 22,000 would be off by as many units.
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0.5)


def test_perceptron_needs_every_label() -> None:
    given = case(1, blur=True)
    shards = make_shards(given.model, given.data, 1)
    with pytest.raises(TrainingError, match="needs every label"):
        ChainObjective(given.model, shards, Threads(1), perceptron)(given.vector)


@pytest.mark.parametrize("edges", [False, True])
def test_losses_keep_their_digits_where_scores_are_large(edges: bool) -> None:
    y = [list("ABC" * 10), list("CBBA" * 8)]
    marked = [edge("all")] if edges else []
    features = compile_features([[["all", f"x={tag}", *marked] for tag in own] for own in y])
    compiled = compile_labels(y, features.lengths, Numbering())
    templates, features = chain_templates(features, compiled)
    data, values = ChainBatch.of(templates, features, compiled), []
    for dtype in (torch.float32, torch.float64):
        model = LogLinearField.zeros(templates, dtype)
        parts = model.parameters()
        everywhere = templates[0].attribute == templates[0].names["all"]
        parts["state"] = torch.where(everywhere, 500.0, 4.0).to(dtype)  # each label, its own label
        vector = Layout.of(parts).flatten(parts)
        with Threads(1) as threads:
            values.append(ChainObjective(model, make_shards(model, data, 1), threads)(vector).value)
    torch.testing.assert_close(values[0], values[1], rtol=1e-5, atol=0)

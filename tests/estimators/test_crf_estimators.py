"""A chain CRF by every estimator: what it learns, and that it is the field it claims to be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mrflearn import CRF, edge
from mrflearn.errors import MrflearnError, SettingsError
from mrflearn.execution.resources import Threads
from mrflearn.features.features import Numbering, compile_features, compile_labels
from mrflearn.features.index import chain_templates
from mrflearn.models.loglinear import ChainBatch, LogLinearField
from mrflearn.objectives.base import Layout, Objective
from mrflearn.objectives.chain_likelihood import ChainObjective
from mrflearn.objectives.field_objectives import (
    Criterion,
    Principle,
    field_objective,
    natural_pieces,
)

ESTIMATORS: tuple[Criterion, ...] = ("ml", "bp", "pl", "edge-pl", "pw", "pwpl", "pw-reweighted")
Sequences = tuple[list[list[dict[str, object]]], list[list[str]]]


def weather(seed: int, count: int) -> Sequences:
    """Days that mostly stay as they were, seen through noise."""
    draw = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        labels, items = ["sun"], []
        for _ in range(int(draw.integers(0, 9))):
            stays = draw.random() < 0.85
            labels.append(labels[-1] if stays else str(draw.choice(["sun", "rain", "snow"])))
        for label in labels:
            told = label if draw.random() < 0.65 else str(draw.choice(["sun", "rain", "snow"]))
            items.append({"told": told, edge("always"): 1.0, "heat": float(draw.random())})
        X.append(items)
        y.append(labels)
    return X, y


Chain = tuple[LogLinearField, ChainBatch, torch.Tensor]


def objective_of(
    model: LogLinearField, data: ChainBatch, estimator: Criterion, graph: bool = False
) -> Objective[LogLinearField]:
    """An estimator of packed chains where they have it, or of the graph that they are."""
    principle = Principle(estimator, natural_pieces(estimator))
    return field_objective(model, data.as_graph() if graph else data, principle, Threads(1))


def chain(dense: bool = False, shared: bool = False) -> Chain:
    """A chain, weighted data and a vector; with `shared` no transition has attributes."""
    X, y = weather(3, 12)
    X[0], y[0] = X[0][:1], y[0][:1]
    if shared:
        X = [[{k: v for k, v in item.items() if k != edge("always")} for item in own] for own in X]
    if dense:
        for item in (item for sequence in X for item in sequence):
            item["row"] = np.array([0.5, float(item["heat"])])  # type: ignore[arg-type]
    features = compile_features(X)
    labels = compile_labels(y, features.lengths, Numbering())
    templates, features = chain_templates(features, labels)
    model = LogLinearField.zeros(templates, torch.float64)
    draw = torch.Generator().manual_seed(0)
    size = Layout.of(model.parameters()).size
    vector = torch.randn(size, dtype=torch.float64, generator=draw)
    weight = torch.rand(len(features), generator=draw, dtype=torch.float64)
    return model, ChainBatch.of(templates, features, labels, weight), vector


@pytest.mark.parametrize("dense", [False, True])
def test_the_field_of_a_chain_is_the_chain(dense: bool) -> None:
    model, data, vector = chain(dense)
    exact = objective_of(model, data, "ml")(vector)
    mine = objective_of(model, data, "ml", graph=True)(vector)
    torch.testing.assert_close(mine.value, exact.value)
    torch.testing.assert_close(mine.gradient, exact.gradient)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("estimator", ["pw", "pwpl"])
def test_pieces_of_a_chain_are_those_of_its_field(estimator: Criterion, dense: bool) -> None:
    model, data, vector = chain(dense, shared=True)
    assert 1 in data.features.lengths
    quick = objective_of(model, data, estimator)
    assert isinstance(quick, ChainObjective)
    slow = objective_of(model, data, estimator, graph=True)(vector)
    found = quick(vector)
    torch.testing.assert_close(found.value, slow.value)
    torch.testing.assert_close(found.gradient, slow.gradient)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("estimator", ["ml", "pw", "pwpl"])
def test_some_sequences_at_a_time_add_up(estimator: Criterion, shared: bool) -> None:
    model, data, vector = chain(shared=shared)
    whole = objective_of(model, data, estimator)(vector)
    parts = [data.examples(own) for own in torch.randperm(len(data.sizes)).split(5)]
    found = [objective_of(model, own, estimator)(vector) for own in parts]
    value, gradient = (
        torch.stack([getattr(own, name) for own in found]).sum(dim=0)
        for name in ("value", "gradient")
    )
    torch.testing.assert_close(value, whole.value)
    torch.testing.assert_close(gradient, whole.gradient)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("estimator", ESTIMATORS[1:])
def test_gradients_are_slopes(estimator: Criterion, shared: bool) -> None:
    model, data, vector = chain(shared=shared)
    objective = objective_of(model, data, estimator)
    way = torch.randn(len(vector), generator=torch.Generator().manual_seed(1)).double()
    ends = [objective(vector + sign * 1e-5 * way).value for sign in (1, -1)]
    slope, gradient = (ends[0] - ends[1]) / 2e-5, objective(vector).gradient
    torch.testing.assert_close(slope, gradient @ way, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_learns_to_look_around(estimator: Criterion) -> None:
    X, y = weather(0, 150)
    model = CRF(estimator=estimator, c2=0.05, n_jobs=1).fit(X, y)
    held_out = weather(1, 150)
    told = [item["told"] == label for s, own in zip(*held_out, strict=True)
            for item, label in zip(s, own, strict=True)]  # fmt: skip
    assert model.score(*held_out) > np.mean(told) + 0.01


def test_exact_training_and_belief_propagation_agree_on_chains() -> None:
    X, y = weather(0, 40)
    exact = CRF(dtype="float64", n_jobs=1).fit(X, y)
    bethe = CRF(estimator="bp", dtype="float64", n_jobs=1).fit(X, y)
    assert bethe.outcome_.value == pytest.approx(exact.outcome_.value, rel=1e-5)


def test_minibatches_and_partial_labels() -> None:
    X, y = weather(0, 80)
    hidden = [[None if k % 4 == 3 else label for k, label in enumerate(own)] for own in y]
    model = CRF("l2sgd", estimator="pwpl", c2=0.05, max_iterations=15, n_jobs=1).fit(X, hidden)
    assert model.score(*weather(1, 80)) > 0.75


def test_impossible_wishes_are_refused() -> None:
    X, y = weather(0, 5)
    with pytest.raises(SettingsError, match="not one of ml"):
        CRF(estimator="mle").fit(X, y)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="algorithm='ap'"):
        CRF("ap", estimator="pw").fit(X, y)
    plain = [[{"told": item["told"]} for item in own] for own in X]
    with pytest.raises(MrflearnError, match="estimator='ml' only"):
        CRF(estimator="pw", order=2).fit(plain, y)

"""What every estimator must do: settings, refusals, the way to disk and back."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sklearn.exceptions
import torch
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

import mrflearn
from mrflearn.describe import tasks_of
from mrflearn.errors import NotFittedError, SettingsError, StorageError
from mrflearn.models.storage import read_model, write_model
from mrflearn.serving.examples import explained
from support.estimators import Example, estimators

DOORS = estimators()


@pytest.fixture(scope="module", params=DOORS)
def door(request: pytest.FixtureRequest) -> Example:
    return DOORS[request.param]


@pytest.fixture(scope="module")
def fitted(door: Example) -> Any:
    return door.fitted()


@pytest.fixture(scope="module")
def saved(door: Example, fitted: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model"
    fitted.save(path)
    return path


def test_settings_are_stored_as_they_are_given(door: Example) -> None:
    kind = type(door.model)
    named = inspect.signature(kind).parameters.values()
    names = {own.name for own in named if own.kind is not own.VAR_KEYWORD}
    assert set(door.model.get_params()) == names
    twin = clone(door.model)
    assert twin.get_params() == door.model.get_params()


def test_nothing_is_answered_before_fit(door: Example, tmp_path: Path) -> None:
    fresh = clone(door.model)
    name = type(fresh).__name__
    with pytest.raises(NotFittedError, match=f"this {name} is not fitted yet; call `fit`"):
        door.ask(fresh)
    with pytest.raises(NotFittedError, match=f"this {name} is not fitted yet; call `fit`"):
        fresh.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_fit_gives_the_model_itself_and_the_same_again(door: Example, fitted: Any) -> None:
    assert fitted is door.model
    assert door.ask(clone(door.model).fit(*door.data)) == door.ask(fitted)


def test_what_is_loaded_answers_alike(door: Example, fitted: Any, saved: Path) -> None:
    for loaded in (mrflearn.load(saved), type(fitted).load(saved)):
        assert type(loaded) is type(fitted)
        assert door.ask(loaded) == door.ask(fitted)
        before, after = fitted.get_params(), loaded.get_params()
        plain = {name: own for name, own in before.items() if isinstance(own, (int, float, str))}
        assert {name: after[name] for name in plain} == plain


def test_other_classes_refuse_it(fitted: Any, saved: Path) -> None:
    other = mrflearn.CRF if not isinstance(fitted, mrflearn.CRF) else mrflearn.MarkovField
    with pytest.raises(
        StorageError, match=f"holds a {type(fitted).__name__}, not a {other.__name__}"
    ):
        other.load(saved)


def test_every_task_on_a_page_answers_its_own_example(fitted: Any) -> None:
    if isinstance(fitted, mrflearn.CRF | mrflearn.FactorialCRF | mrflearn.SkipChainCRF):
        with pytest.raises(StorageError, match="does not know how its features are made"):
            tasks_of(fitted)
        return
    if isinstance(fitted, mrflearn.FieldStructure):
        with pytest.raises(SettingsError, match="no page for a FieldStructure"):
            tasks_of(fitted)
        return
    for task in tasks_of(fitted):
        for example in explained(task)["examples"]:
            assert task(example)


def test_settings_on_disk_are_those_of_the_constructor(fitted: Any, saved: Path) -> None:
    stored = read_model(saved)
    assert stored.settings.keys() <= fitted.get_params().keys()


@pytest.mark.parametrize("damage", ["settings", "learned", "tensors"])
def test_a_model_that_contradicts_itself_is_refused(
    saved: Path, damage: str, tmp_path: Path
) -> None:
    """Files that were written by the library and edited since: an error of the library's own."""
    stored = read_model(saved)
    if damage == "learned" and not stored.learned:
        return  # it holds numbers alone
    teapot = {"teapot": torch.zeros(1)} if damage == "tensors" else {"teapot": 1}
    write_model(tmp_path / "model", replace(stored, **{damage: teapot}))
    part = "its settings" if damage == "settings" else "what it learned"
    with pytest.raises(
        StorageError, match=f"the stored {stored.kind} contradicts itself in {part}"
    ) as told:
        mrflearn.load(tmp_path / "model")
    assert told.value.__cause__ is not None


def replaced(value: Any, other: Any) -> Any:
    """The value with `other` in place of the last text of each list of texts in it."""
    if isinstance(value, dict):
        return {key: replaced(own, other) for key, own in value.items()}
    if isinstance(value, list) and value and all(isinstance(own, str) for own in value):
        return [*value[:-1], other]
    return [replaced(own, other) for own in value] if isinstance(value, list) else value


@pytest.mark.parametrize("other", [1, 0.5, None, ["x"], {"x": 1}], ids=str)
def test_words_and_tags_of_a_wrong_kind_are_refused(
    saved: Path, other: object, tmp_path: Path
) -> None:
    stored = read_model(saved)
    learned = replaced(stored.learned, other)
    if learned == stored.learned:
        return  # it holds no texts
    write_model(tmp_path / "model", replace(stored, learned=learned))
    with pytest.raises(StorageError):
        mrflearn.load(tmp_path / "model")


def test_settings_of_a_wrong_kind_are_refused(saved: Path, tmp_path: Path) -> None:
    stored = read_model(saved)
    for name, value in stored.settings.items():
        if name == "graph":
            continue  # as anything that makes a graph
        wrong: object = {"x": [1]} if not isinstance(value, dict) else 1
        settings = {**stored.settings, name: wrong}
        write_model(tmp_path / "model", replace(stored, settings=settings), overwrite=True)
        with pytest.raises(StorageError, match=name):
            mrflearn.load(tmp_path / "model")


def test_a_saved_model_is_not_overwritten_without_a_word(fitted: Any, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    with pytest.raises(StorageError, match="overwrite=True"):
        fitted.save(tmp_path / "model")
    fitted.save(tmp_path / "model", overwrite=True)


def test_fit_and_answers_change_no_settings_and_answers_change_nothing(door: Example) -> None:
    model = clone(door.model)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(model)
    settings = dict(vars(model))
    model.fit(*door.data)
    assert {name: vars(model)[name] for name in settings} == settings
    check_is_fitted(model)
    names, answer = set(vars(model)), door.ask(model)
    assert {name for name in vars(model) if name.endswith("_")} <= names
    assert door.ask(pickle.loads(pickle.dumps(model))) == answer


LABELLERS = [
    "CRF",
    "NeuralCRF",
    "FactorialCRF",
    "SkipChainCRF",
    "GraphCRF",
    "HMMTagger",
    "JointTagger",
]


@pytest.mark.parametrize("name", LABELLERS)
def test_labellers_answer_by_the_same_names(name: str) -> None:
    example = DOORS[name]
    model, X = clone(example.model).fit(*example.data), example.data[0][:2]
    assert len(model.predict_proba(X)) == len(model.predict_marginals(X)) == len(X)
    assert [len(own) <= 2 for own in model.n_best(X, n=2)] == [True, True]
    assert model.classes_

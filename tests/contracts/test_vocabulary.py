"""One vocabulary over all estimators: same concept, same name, same position, same default."""

from __future__ import annotations

import inspect
import itertools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import clone

import mrflearn
from support.estimators import Example, estimators

EXAMPLES = estimators()
KINDS = {name: type(example.model) for name, example in EXAMPLES.items()}

# What nothing is called, with the name that it has.
REPLACED = {
    "count": "n",
    "epochs": "max_iterations",
    "forced": "constraints",
    "max_evaluations": "max_iterations",
    "minimum_count": "min_count",
    "n_samples": "n",
    "precision": "dtype",
    "rules": "constraints",
    "seed": "random_state",
    "top": "n",
    "topn": "n",
    "valid": "validation",
}
ONLY_IN_FIT = {"checkpoint", "executor", "resume", "validation"}
# One default for all that have the argument.
DEFAULTS = {
    "c1": 0.0,
    "c2": 1.0,
    "device": "cpu",
    "n_jobs": None,
    "random_state": 0,
    "verbose": False,
}
# Defaults that belong to the model, not to the concept.
OWN_DEFAULTS = {
    "bound",  # a language model's, or a tagger's
    "context",
    "dims",
    "dtype",  # single where it is enough
    "estimator",
    "gamma",  # of EBIC, or of AROW
    "l1",  # of all parameters, or of sparse scores
    "l2",
    "learning_rate",  # of gradient steps on a network, or on a field from samples
    "max_iterations",
    "min_count",  # a grammar needs rare words for its unknown ones
    "order",
    "patience",  # epochs of a network cost more than iterations of a CRF
    "pieces",  # as published for factorial and skip chains, as suits the estimator elsewhere
    "rounds",  # each alternates between steps of its own
    "tolerance",
    "words",
}


def constructor(kind: type) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(kind).parameters.values() if p.kind is not p.VAR_KEYWORD]


def methods(kind: type) -> Iterator[tuple[str, inspect.Signature]]:
    for name, method in inspect.getmembers(kind, callable):
        home = inspect.getmodule(method)
        if name.startswith("_") or home is None or not home.__name__.startswith("mrflearn"):
            continue
        yield name, inspect.signature(method)


@pytest.mark.parametrize("name", KINDS)
def test_every_concept_has_its_name(name: str) -> None:
    kind = KINDS[name]
    own = {p.name for p in constructor(kind)}
    assert not own & REPLACED.keys()
    assert not own & ONLY_IN_FIT
    for method, signature in methods(kind):
        assert not signature.parameters.keys() & REPLACED.keys(), method


def test_one_name_has_one_default() -> None:
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, kind in KINDS.items():
        for parameter in constructor(kind):
            if parameter.default is not parameter.empty:
                found[parameter.name][name] = parameter.default
    for argument, wanted in DEFAULTS.items():
        assert set(found[argument].values()) == {wanted}, (argument, found[argument])
    for argument, by_kind in found.items():
        if argument not in OWN_DEFAULTS:
            assert len({repr(default) for default in by_kind.values()}) == 1, (argument, by_kind)


def test_features_are_made_by_a_constructor_argument() -> None:
    """So that what is trained in Python can be used by `tag`, `evaluate` and `serve`."""
    taking = {
        name for name, kind in KINDS.items() if "features" in {p.name for p in constructor(kind)}
    }
    assert taking == {"CRF", "NeuralCRF", "FactorialCRF", "SkipChainCRF", "GraphCRF"}


def test_arguments_by_position_come_in_one_order() -> None:
    before = {}
    for name, kind in KINDS.items():
        placed = [p.name for p in constructor(kind) if p.kind is p.POSITIONAL_OR_KEYWORD]
        if name != "CRF":  # sklearn_crfsuite's order
            assert len(placed) <= 3, (name, placed)
        for pair in itertools.combinations(placed, 2):
            assert pair[::-1] not in before, (name, before[pair[::-1]], pair)
            before[pair] = name


def test_methods_of_one_name_take_their_arguments_in_one_order() -> None:
    before: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for name, kind in KINDS.items():
        for method, signature in methods(kind):
            placed = [
                p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
            ]
            for pair in itertools.combinations(placed, 2):
                other = before[method].get(pair[::-1])
                assert other is None, (method, name, other, pair)
                before[method][pair] = name


@pytest.mark.parametrize("name", KINDS)
def test_fitted_attributes_survive_the_disk(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    fitted = clone(example.model).fit(*example.data)
    fitted.save(tmp_path / "model")
    loaded = mrflearn.load(tmp_path / "model")
    assert learned(fitted) == learned(loaded)
    assert learned(fitted)  # so that scikit-learn's check_is_fitted knows


def learned(model: Any) -> set[str]:
    return {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}


@pytest.mark.parametrize("name", KINDS)
def test_every_argument_is_read(name: str) -> None:
    """`device`, `dtype`, `n_jobs`, `random_state`, `verbose` where they act, and nowhere else."""
    example: Example = EXAMPLES[name]
    read: set[str] = set()

    class Watched(KINDS[name]):  # type: ignore[misc]
        def __getattribute__(self, attribute: str) -> Any:
            read.add(attribute)
            return super().__getattribute__(attribute)

    Watched.__name__ = name
    model = Watched(**example.model.get_params(deep=False))
    example.ask(model.fit(*example.data))
    if hasattr(model, "sample") and "X" not in inspect.signature(model.sample).parameters:
        model.sample(1)
    if name == "JointTagger":  # its seed is for words without any tag
        Watched(tags=2, max_iterations=1, rounds=1).fit(example.data[0])
    shared = {"device", "dtype", "n_jobs", "random_state", "verbose"}
    assert not {p.name for p in constructor(KINDS[name])} & shared - read

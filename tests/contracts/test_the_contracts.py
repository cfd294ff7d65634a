"""Every model, inference and objective in the packages keeps the contract of its kind.

The packages are enumerated, so that a new class cannot be forgotten.  Batched Newton (LAP), EM,
n-grams, sampling and MAP have no part in these contracts.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import mrflearn.inference
import mrflearn.models
import mrflearn.objectives
import mrflearn.training
from mrflearn.objectives.base import Objective

TRITON = "_triton"  # needs a package that is there with a GPU alone


def classes(package: Any) -> Iterator[type]:
    """The classes that the modules of a package define."""
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if found.name.endswith(TRITON):
            continue
        module = importlib.import_module(found.name)
        for own in vars(module).values():
            if inspect.isclass(own) and own.__module__ == found.name:
                yield own


def named(kinds: list[type]) -> dict[str, type]:
    return {f"{kind.__module__.removeprefix('mrflearn.')}.{kind.__name__}": kind for kind in kinds}


def takes(function: Any, name: str, place: int = 1) -> bool:
    """Whether a method's argument at a place has this name."""
    parameters = list(inspect.signature(function).parameters)
    return len(parameters) > place and parameters[place] == name


def is_protocol(kind: type) -> bool:
    return bool(getattr(kind, "_is_protocol", False))


FUNCTIONS_OF_A_VECTOR = named(
    [
        kind
        for package in (mrflearn.objectives, mrflearn.training)
        for kind in classes(package)
        if "__call__" in vars(kind) and takes(vars(kind)["__call__"], "vector")
    ]
)
OBJECTIVES = named(
    [
        kind
        for package in (mrflearn.objectives, mrflearn.training)
        for kind in classes(package)
        if issubclass(kind, Objective) and not inspect.isabstract(kind)
    ]
)
INFERENCES = named(
    [
        kind
        for kind in classes(mrflearn.inference)
        if inspect.isfunction(call := inspect.getattr_static(kind, "__call__", None))
        and takes(call, "potentials")
        and not takes(call, "count", 2)  # samples
        and not is_protocol(kind)
        and not inspect.isabstract(kind)
    ]
)
BY_EM = ("CompositeModel", "GrammarModel")
MODELS = named(
    [
        kind
        for kind in classes(mrflearn.models)
        if hasattr(kind, "potentials")
        and kind.__name__ not in BY_EM
        and not is_protocol(kind)
        and not inspect.isabstract(kind)
    ]
)


def test_each_kind_was_found() -> None:
    assert len(OBJECTIVES) >= 10
    assert len(INFERENCES) >= 6
    assert len(MODELS) >= 5


@pytest.mark.parametrize("kind", FUNCTIONS_OF_A_VECTOR.values(), ids=list(FUNCTIONS_OF_A_VECTOR))
def test_a_function_of_the_vector_is_an_objective(kind: type) -> None:
    assert issubclass(kind, Objective)


@pytest.mark.parametrize("kind", OBJECTIVES.values(), ids=list(OBJECTIVES))
def test_warm_starts_are_committed_stored_and_restored_together(kind: type) -> None:
    """Whoever keeps something between evaluations says so in all three."""
    own = [
        any(name in vars(base) for base in kind.__mro__ if base not in (Objective, object))
        for name in ("commit", "state", "restore")
    ]
    assert len(set(own)) == 1
    parts = [
        any(name in vars(base) for base in kind.__mro__ if base not in (Objective, object))
        for name in ("parts", "part")
    ]
    assert len(set(parts)) == 1


@pytest.mark.parametrize("kind", INFERENCES.values(), ids=list(INFERENCES))
def test_an_inference_takes_a_warm_start_and_says_what_it_refuses(kind: type) -> None:
    call = inspect.signature(kind.__call__).parameters
    assert list(call)[1:3] == ["potentials", "warm"]
    assert call["warm"].default is None
    assert hasattr(kind, "refuses")


@pytest.mark.parametrize("kind", MODELS.values(), ids=list(MODELS))
def test_a_model_with_potentials_can_be_read_and_changed(kind: type) -> None:
    for name in ("parameters", "with_parameters", "potentials"):
        assert callable(getattr(kind, name, None)), name

"""What the verbs that ask a CRF about files share: the model with its recipe, and batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mrflearn.errors import StorageError

if TYPE_CHECKING:
    from mrflearn.statistics.recipes import Example


Labeller = TypeVar("Labeller")


def load_labeller(path: Path, *, also: tuple[str, ...] = ()) -> Any:
    """The CRF saved there (or a model of the classes `also`), which makes features from files."""
    from mrflearn.estimators.loading import load

    model = load(path)
    if type(model).__name__ not in ("CRF", *also):
        raise StorageError(f"{path} holds a {type(model).__name__}, which labels no files.")
    return with_recipe(model, path)


def with_recipe(model: Labeller, path: Path) -> Labeller:
    """The same model; an error where it cannot make features from files."""
    if getattr(model, "recipe_", None) is None:
        raise StorageError(
            f"{path} does not know how its features are made from a file: it was trained in "
            "Python. Ask it there, or train it with `mrflearn train crf`."
        )
    return model


def batches(examples: Iterable[Example], size: int) -> Iterator[list[Example]]:
    """The same, so many at a time."""
    stream = iter(examples)
    while part := list(islice(stream, size)):
        yield part

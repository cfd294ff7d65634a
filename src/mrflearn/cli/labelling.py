"""What the verbs that ask a chain CRF about files share: the model with its recipe, and batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from mrflearn.errors import StorageError

if TYPE_CHECKING:
    from mrflearn.estimators.crf import CRF
    from mrflearn.statistics.recipes import Example


def load_labeller(path: Path) -> CRF:
    """The CRF saved there, which knows how its features are made from files."""
    from mrflearn.estimators.crf import CRF
    from mrflearn.estimators.loading import load

    model = load(path)
    if not isinstance(model, CRF):
        raise StorageError(f"{path} holds a {type(model).__name__}, which labels no files.")
    return with_recipe(model, path)


def with_recipe(model: CRF, path: Path) -> CRF:
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

"""What the verbs that ask about files of words share: models with recipes, batches, rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mrflearn.errors import StorageError

if TYPE_CHECKING:
    from mrflearn.cli.tagger_files import Tagger
    from mrflearn.estimators.crf import CRF

T = TypeVar("T")


def load_labeller(path: Path) -> CRF | Tagger:
    """The CRF saved there, which knows how its features are made from files, or the tagger."""
    from mrflearn.estimators.loading import load

    model = load(path)
    match type(model).__name__:
        case "CRF":
            return with_recipe(model, path)
        case "HMMTagger" | "JointTagger":
            tagger: Tagger = model
            return tagger
        case other:
            raise StorageError(f"{path} holds a {other}, which labels no files.")


def with_recipe(model: CRF, path: Path) -> CRF:
    """The same model; an error where it cannot make features from files."""
    if getattr(model, "recipe_", None) is None:
        raise StorageError(
            f"{path} does not know how its features are made from a file: it was trained in "
            "Python. Ask it there, or train it with `mrflearn train crf`."
        )
    return model


def batches(examples: Iterable[T], size: int) -> Iterator[list[T]]:
    """The same, so many at a time."""
    stream = iter(examples)
    while part := list(islice(stream, size)):
        yield part


def joined(cells: list[str]) -> str:
    """A row as it may have stood in a file: set apart by tabs where cells have spaces."""
    return ("\t" if any(" " in cell for cell in cells) else " ").join(cells)


def document_mark(columns: int) -> str:
    """The row that begins a document."""
    from mrflearn.data.columns import DOCUMENT_MARK

    return " ".join([DOCUMENT_MARK, "-X-", *["O"] * (columns - 1)])

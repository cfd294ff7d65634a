"""What the verbs that ask about files of words share: models with recipes, batches, rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mrflearn.cli.answers import say, say_table
from mrflearn.errors import DataError, StorageError

if TYPE_CHECKING:
    from mrflearn.evaluation.tagging import Confusion
    from mrflearn.features.recipes import LabelledSequence

T = TypeVar("T")
Labeller = TypeVar("Labeller")


def with_recipe(model: Labeller, path: Path) -> Labeller:
    """The same model; an error where it cannot make features from files."""
    if getattr(model, "recipe_", None) is None:
        raise StorageError(
            f"{path} does not know how its features are made from a file: it was trained in "
            "Python. Ask it there, or train it with `mrflearn train crf`."
        )
    return model


def words_of(examples: list[LabelledSequence], file: Path) -> list[list[str]]:
    """The words that a rule for skip edges reads."""
    if any(not row for example in examples for row in example.rows):
        raise DataError(
            "its features are made and its words are gone; a skip chain needs the words, as files "
            "of columns have them.",
            path=file,
        )
    return [[row[0] for row in example.rows] for example in examples]


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
    from mrflearn.io.columns import DOCUMENT_MARK

    return " ".join([DOCUMENT_MARK, "-X-", *["O"] * (columns - 1)])


def mistakes_of(table: Confusion, most: int) -> list[dict[str, Any]]:
    """The labels that are taken for others most often."""
    return [
        {"true": true, "predicted": guess, "tokens": count}
        for true, guess, count in table.worst(most)
    ]


def tell_mistakes(mistakes: list[dict[str, Any]], what: str) -> None:
    """Says which labels are taken for others, as a table below what was said."""
    if mistakes:
        say()
        rows = [[own["true"], own["predicted"], str(own["tokens"])] for own in mistakes]
        say_table([what, "predicted", "tokens"], rows)

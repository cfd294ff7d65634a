"""The words of labelled sequences, for models that look at them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mrflearn.errors import DataError

if TYPE_CHECKING:
    from mrflearn.features.recipes import LabelledSequence


def words_of(examples: list[LabelledSequence], file: Path) -> list[list[str]]:
    """The words that a rule for skip edges reads."""
    if any(not row for example in examples for row in example.rows):
        raise DataError(
            "its features are made and its words are gone; a skip chain needs the words, as files "
            "of columns have them.",
            path=file,
        )
    return [[row[0] for row in example.rows] for example in examples]

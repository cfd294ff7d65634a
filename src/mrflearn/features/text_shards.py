"""Moments of a text that lies in many files, counted wherever an executor runs.

Sentences meet separators alone on both sides, so the counts of files are those of the whole text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from mrflearn.errors import DataError
from mrflearn.execution.executor import Executor
from mrflearn.features.counting import count_text
from mrflearn.features.moments import Moments
from mrflearn.io.files import PathLike
from mrflearn.io.vocabulary import Vocabulary, count_words


@final
@dataclass(frozen=True)
class CountText:
    """The task of one worker: the moments of a text file."""

    vocabulary: Vocabulary
    context: int

    def __call__(self, path: PathLike) -> Moments:
        return count_text([path], self.vocabulary, self.context)


def count_text_shards(
    paths: Sequence[PathLike],
    executor: Executor,
    *,
    context: int = 2,
    size: int | None = None,
    min_count: int = 1,
) -> Moments:
    """The moments of all files over their common vocabulary; each file is read twice."""
    _refuse_standard_input(paths)
    counts = executor.total(count_words, paths)
    vocabulary = Vocabulary.from_counts(counts, size=size, min_count=min_count)
    return _counted(vocabulary, context, paths, executor)


def count_text_shards_like(
    other: Moments, paths: Sequence[PathLike], executor: Executor
) -> Moments:
    """The moments of all files over the vocabulary and context of others."""
    _refuse_standard_input(paths)
    if other.vocabulary is None:
        raise DataError("the moments to be like have no vocabulary; count them from a text.")
    return _counted(other.vocabulary, other.context, paths, executor)


def _counted(
    vocabulary: Vocabulary, context: int, paths: Sequence[PathLike], executor: Executor
) -> Moments:
    moments = executor.total(CountText(vocabulary, context), paths)
    if not moments.words:
        raise DataError("there are no words in these files. Are they empty?")
    return moments


def _refuse_standard_input(paths: Sequence[PathLike]) -> None:
    if any(str(path) == "-" for path in paths):
        raise DataError("standard input flows by once only; give the text as files.")

"""Sentences and their tags as numbers, laid end to end; a tag may be unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from mrflearn.errors import DataError

UNKNOWN = -1
Tags: TypeAlias = Sequence[str | None] | None


@final
@dataclass(frozen=True, eq=False)
class TaggedSentences:
    """Words and tags of all tokens, by number, and how many tokens each sentence has."""

    words: Int[np.ndarray, "n"]
    tags: Int[np.ndarray, "n"]
    lengths: Int[np.ndarray, "b"]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def known(self) -> Bool[np.ndarray, "b"]:
        """Whether all tags of a sentence are known."""
        gaps = np.concatenate([[0], np.cumsum(self.tags == UNKNOWN)])
        ends = np.cumsum(self.lengths)
        return np.asarray(gaps[ends] == gaps[ends - self.lengths])

    def part(self, kept: Bool[np.ndarray, "b"]) -> TaggedSentences:
        """The sentences that are kept."""
        tokens = np.repeat(kept, self.lengths)
        return TaggedSentences(self.words[tokens], self.tags[tokens], self.lengths[kept])


def number_sentences(
    sentences: Sequence[Sequence[str]],
    tags: Sequence[Tags],
    words: Mapping[str, int],
    labels: Mapping[str, int],
) -> TaggedSentences:
    """The sentences by number; a tag that is None, or all of them, stays unknown."""
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    own = [
        [None] * len(sentence) if some is None else some
        for sentence, some in zip(sentences, tags, strict=True)
    ]
    return TaggedSentences(
        _numbers(word for sentence in sentences for word in map(words.__getitem__, sentence)),
        _numbers(UNKNOWN if tag is None else labels[tag] for some in own for tag in some),
        lengths,
    )


def check_tags(sentences: Sequence[Sequence[str]], tags: Sequence[Tags]) -> None:
    """Raises `DataError` where sentences and tags do not belong together."""
    if len(sentences) != len(tags):
        raise DataError(f"there are {len(sentences)} sentences and tags for {len(tags)}.")
    for index, (sentence, some) in enumerate(zip(sentences, tags, strict=True)):
        if isinstance(sentence, str):
            raise DataError(
                f"sentence {index} is one string, {sentence[:40]!r}; give a list of words, "
                "such as sentence.split()."
            )
        if some is not None and len(some) != len(sentence):
            raise DataError(
                f"sentence {index} has {len(sentence)} words and {len(some)} tags; a word without "
                "a tag has the tag None."
            )


def _numbers(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, np.int64)

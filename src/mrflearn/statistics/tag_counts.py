"""How often words have tags, and tags follow tags: all that a hidden Markov model learns from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Int

from mrflearn.errors import DataError


@final
@dataclass(frozen=True, eq=False)
class TagCounts:
    """Counts of (word, tag, times) and of (tag two before, tag before, tag, times), by number.

    The number `len(tags)` stands for the edge of a sentence: two of them come before its first
    tag, and one is counted after its last.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    emission: Int[np.ndarray, "k 3"]
    trigram: Int[np.ndarray, "g 4"]

    def __post_init__(self) -> None:
        sound = (
            self.emission.shape[1:] == (3,)
            and self.trigram.shape[1:] == (4,)
            and len(self.words) > 0
            and _within(self.emission[:, 0], len(self.words))
            and _within(self.emission[:, 1], len(self.tags))
            and _within(self.trigram[:, :3].ravel(), len(self.tags) + 1)
        )
        if not sound:
            raise DataError("counts of tags name a word or a tag that is not there.")

    @property
    def edge(self) -> int:
        """The number of the edge of a sentence."""
        return len(self.tags)

    @property
    def tag_total(self) -> Int[np.ndarray, "t"]:
        """How often each tag occurs."""
        return _summed(self.emission[:, 1], self.emission[:, 2], len(self.tags))

    @property
    def word_total(self) -> Int[np.ndarray, "w"]:
        """How often each word occurs."""
        return _summed(self.emission[:, 0], self.emission[:, 2], len(self.words))


def count_tags(sentences: Iterable[Sequence[str]], tags: Iterable[Sequence[str]]) -> TagCounts:
    """The counts of tagged sentences; words and tags are numbered as they come."""
    emissions: Counter[tuple[str, str]] = Counter()
    trigrams: Counter[tuple[str | None, ...]] = Counter()
    for number, (words, own) in enumerate(zip(sentences, tags, strict=True)):
        _check(words, own, number)
        emissions.update(zip(words, own, strict=True))
        if own:
            line = (None, None, *own, None)
            trigrams.update(zip(line, line[1:], line[2:], strict=False))
    if not emissions:
        raise DataError("there are no tagged words to learn from. Is the file empty?")
    word = {name: i for i, name in enumerate(dict.fromkeys(w for w, _ in emissions))}
    tag: dict[str | None, int] = {t: i for i, t in enumerate(dict.fromkeys(t for _, t in emissions))}
    names = tuple(str(name) for name in tag)
    tag[None] = len(names)
    pairs = [(word[w], tag[t], times) for (w, t), times in emissions.items()]
    triples = [(*(tag[t] for t in triple), times) for triple, times in trigrams.items()]
    return TagCounts(tuple(word), names, np.array(pairs), np.array(triples))


def _check(words: Sequence[str], tags: Sequence[str], number: int) -> None:
    if len(words) != len(tags):
        raise DataError(f"sentence {number} has {len(words)} words and {len(tags)} tags.")
    for tag in tags:
        if not isinstance(tag, str):
            raise DataError(
                f"sentence {number} has the tag {tag!r}, which is no text. A hidden Markov model "
                "counts tags, so that all of them must be known; JointTagger learns from gaps too."
            )


def _within(numbers: Int[np.ndarray, "n"], size: int) -> bool:
    return bool(((numbers >= 0) & (numbers < size)).all())


def _summed(
    place: Int[np.ndarray, "k"], times: Int[np.ndarray, "k"], size: int
) -> Int[np.ndarray, "n"]:
    total = np.zeros(size, dtype=np.int64)
    np.add.at(total, place, times)
    return total

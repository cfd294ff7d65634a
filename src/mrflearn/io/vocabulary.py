"""Words and their numbers: chosen by count, kept as plain text, applied to whole corpora."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.blocks import LINE_END, read_blocks, words_of
from mrflearn.io.files import PathLike, read_lines, write_text

SEPARATOR = "<S>"
UNKNOWN = "<unk>"
LINE_END_ID = -1
Word = TypeVar("Word", str, bytes)


@final
@dataclass(frozen=True)
class Vocabulary:
    """Words in the order of their ids; `<S>` and `<unk>` are always among them.

    A text's own `<S>` would break its sentence in two, so it is read as an unknown word.
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        counts = Counter(self.words)
        word, times = counts.most_common(1)[0] if counts else ("", 0)
        if times > 1:
            raise DataError(f"a vocabulary lists each word once, but {word!r} comes {times} times.")
        for special in (SEPARATOR, UNKNOWN):
            if special not in counts:
                raise DataError(
                    f"a vocabulary needs the entry {special}; `Vocabulary.from_counts` adds it."
                )

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], *, size: int | None = None, min_count: int = 1
    ) -> Vocabulary:
        """`<S>`, `<unk>`, then the words seen `min_count` times, most frequent first.

        `size` is the length of the whole list, the two special entries counted in; words of
        equal count stand in the order of their code points.
        """
        if size is not None and size < 3:
            raise DataError(
                f"a vocabulary of {size} has no room for a word beside {SEPARATOR} and {UNKNOWN}; "
                "ask for 3 or more."
            )
        seen = {word for word, count in counts.items() if count >= min_count}
        ranked = sorted(seen - {SEPARATOR, UNKNOWN}, key=lambda word: (-counts[word], word))
        return cls((SEPARATOR, UNKNOWN, *ranked)[:size])

    @classmethod
    def load(cls, path: PathLike) -> Vocabulary:
        """The vocabulary of a text file with one word a line, ids counted from 0."""
        words = tuple(line for _, line in read_lines(path))
        try:
            return cls(words)
        except DataError as error:
            raise DataError(error.problem, path=path) from error

    def save(self, path: PathLike) -> None:
        """Writes one word a line, in the order of the ids."""
        for index, word in enumerate(self.words):
            if "\n" in word or word.endswith("\r"):
                raise DataError(f"word {index}, {word!r}, cannot be one line of a text file.")
        with write_text(path) as stream:
            stream.writelines(f"{word}\n" for word in self.words)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    @cached_property
    def separator(self) -> int:
        return self.words.index(SEPARATOR)

    @cached_property
    def unknown(self) -> int:
        return self.words.index(UNKNOWN)

    def encode(self, words: Iterable[str]) -> NDArray[np.int32]:
        """The id of each word, `<unk>`'s where the vocabulary lacks it."""
        return np.fromiter(map(self._ids.__getitem__, words), np.int32)

    def encode_block(self, block: bytes) -> NDArray[np.int32]:
        """The id of each word of a block of UTF-8 text, and `LINE_END_ID` where a line ends."""
        words = words_of(block)
        return np.fromiter(map(self._byte_ids.__getitem__, words), np.int32, count=len(words))

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The word of each id."""
        return [self.words[index] for index in ids]

    @cached_property
    def _ids(self) -> _Ids[str]:
        pairs = ((word, index) for index, word in enumerate(self.words) if word != SEPARATOR)
        return _Ids(self.unknown, pairs)

    @cached_property
    def _byte_ids(self) -> _Ids[bytes]:
        pairs = [(word.encode("utf-8"), index) for word, index in self._ids.items()]
        return _Ids(self.unknown, [*pairs, (LINE_END, LINE_END_ID)])


class _Ids(dict[Word, int]):
    """A dictionary that answers the id of the unknown word for any other."""

    def __init__(self, unknown: int, pairs: Iterable[tuple[Word, int]]) -> None:
        super().__init__()
        self.update(pairs)
        self.unknown = unknown

    def __missing__(self, word: Word) -> int:
        return self.unknown


def count_words(*paths: PathLike) -> Counter[str]:
    """How often each word occurs in the text files, read once in blocks; `-` is stdin."""
    counts: Counter[bytes] = Counter()
    for block in read_blocks(*paths):
        counts.update(block.split())
    return Counter({word.decode("utf-8"): count for word, count in counts.items()})

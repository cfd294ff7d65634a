"""Word pairs with people's scores of their similarity, and analogy questions.

Pairs: `word word score` a line (as WordSim-353, MEN and SimLex-999 are distributed, tabs or
spaces).  Analogies: four words a line, `a is to b as c is to d`, under `: section` lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mrflearn.errors import DataError
from mrflearn.io.corpus import check_words
from mrflearn.io.files import Lines, PathLike, split_tokens, to_number, write_text


@dataclass(frozen=True)
class WordPair:
    """Two words and how similar people find them."""

    first: str
    second: str
    score: float


@dataclass(frozen=True)
class Analogy:
    """`first` is to `second` as `third` is to `answer`."""

    section: str
    first: str
    second: str
    third: str
    answer: str


def read_pairs(path: PathLike) -> Iterator[WordPair]:
    """The pairs of a file, one a line; further columns and blank lines are passed over."""
    with Lines(path) as lines:
        for cells in filter(None, map(split_tokens, lines)):
            if len(cells) < 3:
                raise DataError(f"two words and a score should stand here, not {cells!r}.")
            score = to_number(cells[2])
            if not math.isfinite(score):
                raise DataError(f"{cells[2][:40]!r} is not a score.")
            yield WordPair(cells[0], cells[1], score)


def write_pairs(path: PathLike, pairs: Iterable[WordPair]) -> None:
    """Writes one pair per line, with tabs between."""
    with write_text(path) as stream:
        for pair in pairs:
            words = check_words(pair.first, pair.second)
            stream.write("\t".join([*words, repr(pair.score)]) + "\n")


def read_analogies(path: PathLike) -> Iterator[Analogy]:
    """The questions of a file, each with its section ("" before the first)."""
    section = ""
    with Lines(path) as lines:
        for cells in filter(None, map(split_tokens, lines)):
            if cells[0] == ":":
                section = " ".join(cells[1:])
            elif len(cells) == 4:
                yield Analogy(section, *cells)
            else:
                raise DataError(f"four words or ': section' should stand here, not {cells[:5]!r}.")


def write_analogies(path: PathLike, analogies: Iterable[Analogy]) -> None:
    """Writes one question per line, and a line for each new section."""
    section = ""
    with write_text(path) as stream:
        for own in analogies:
            words = check_words(own.first, own.second, own.third, own.answer)
            if words[0] == ":":
                raise DataError("a question cannot begin with ':'.")
            if own.section != section:
                section = own.section
                stream.write(f": {section}\n")
            stream.write(" ".join(words) + "\n")

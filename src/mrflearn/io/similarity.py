"""Word pairs with people's scores of their likeness, and analogy questions.

Pairs: `word word score` a line (as WordSim-353, MEN and SimLex-999 are distributed, tabs or
spaces).  Analogies: four words a line, `a is to b as c is to d`, under `: section` lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from mrflearn.errors import DataError
from mrflearn.io.corpus import split_tokens
from mrflearn.io.files import PathLike, read_lines, write_text


@dataclass(frozen=True)
class WordPair:
    """Two words and how alike people find them."""

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
    with closing(read_lines(path)) as lines:
        for number, line in lines:
            cells = split_tokens(line)
            if not cells:
                continue
            if len(cells) < 3:
                raise DataError(
                    f"two words and a score should stand here, not {line[:40]!r}.",
                    path=path,
                    line=number,
                )
            yield WordPair(cells[0], cells[1], _score(cells[2], path, number))


def write_pairs(path: PathLike, pairs: Iterable[WordPair]) -> None:
    """Writes one pair a line, with tabs between."""
    with write_text(path) as stream:
        for pair in pairs:
            _check_words((pair.first, pair.second), path)
            stream.write(f"{pair.first}\t{pair.second}\t{pair.score!r}\n")


def read_analogies(path: PathLike) -> Iterator[Analogy]:
    """The questions of a file, each with its section ("" before the first)."""
    section = ""
    with closing(read_lines(path)) as lines:
        for number, line in lines:
            cells = split_tokens(line)
            if cells and cells[0] == ":":
                section = " ".join(cells[1:])
            elif cells and len(cells) != 4:
                raise DataError(
                    f"four words, or ': section', should stand here, not {line[:40]!r}.",
                    path=path,
                    line=number,
                )
            elif cells:
                yield Analogy(section, *cells)


def write_analogies(path: PathLike, analogies: Iterable[Analogy]) -> None:
    """Writes one question a line, and a line for each new section."""
    section = ""
    with write_text(path) as stream:
        for question in analogies:
            words = (question.first, question.second, question.third, question.answer)
            _check_words(words, path)
            if words[0] == ":":
                raise DataError("a question cannot begin with ':'.", path=path)
            if question.section != section:
                section = question.section
                stream.write(f": {section}\n")
            stream.write(" ".join(words) + "\n")


def _score(cell: str, path: PathLike, line: int) -> float:
    try:
        score = float(cell)
    except ValueError:
        score = math.nan
    if not math.isfinite(score) or "_" in cell:
        raise DataError(f"{cell[:40]!r} is not a score.", path=path, line=line)
    return score


def _check_words(words: Iterable[str], path: PathLike) -> None:
    for word in words:
        if split_tokens(word) != [word]:
            raise DataError(f"the word {word!r} is empty or has white space in it.", path=path)

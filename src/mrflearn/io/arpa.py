r"""n-gram language models in the ARPA format that SRILM, KenLM and most speech tools read.

`\data\` and the number of n-grams of each order; for each order a section `\n-grams:` of lines
`log10 probability, n words, log10 back-off` (the back-off may be missing, and is in the last
section); `\end\`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat, takewhile
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.corpus import check_words
from mrflearn.io.files import PathLike, binary_lines, open_binary, to_number, write_text

Figures: TypeAlias = NDArray[np.float32]
COUNT = re.compile(rb"ngram[ \t]+([0-9]{1,9})[ \t]*=[ \t]*([0-9]{1,15})")
MOST_ORDERS = 32


@dataclass(frozen=True, eq=False)
class ArpaSection:
    """The n-grams of one order: rows of word numbers, and two logarithms to base 10 for each."""

    grams: NDArray[np.int64]
    probability: Figures
    backoff: Figures


@dataclass(frozen=True, eq=False)
class Arpa:
    """An ARPA file: the words in the order of its first section, and a section for each order."""

    words: tuple[str, ...]
    sections: tuple[ArpaSection, ...]


def read_arpa(path: PathLike) -> Arpa:
    """The n-grams of an ARPA file, just as they stand there."""
    with open_binary(path) as stream:
        lines = _Lines(stream)
        counts = _read_counts(lines)
        words: dict[bytes, int] = {}
        sections = [
            _read_section(lines, order, count, words) for order, count in enumerate(counts, start=1)
        ]
        lines.expect(rb"\end" + b"\\")
    return Arpa(tuple(word.decode() for word in words), tuple(sections))


def write_arpa(path: PathLike, arpa: Arpa) -> None:
    """Writes an ARPA file that reads back to exactly the same figures."""
    with write_text(path) as stream:
        words = np.array(check_words(*arpa.words), dtype=object)
        stream.write("\\data\\\n")
        for order, section in enumerate(arpa.sections, start=1):
            stream.write(f"ngram {order}={len(section.grams)}\n")
        for order, section in enumerate(arpa.sections, start=1):
            stream.write(f"\n\\{order}-grams:\n")
            stream.writelines(_lines_of(section, words, last=order == len(arpa.sections)))
        stream.write("\n\\end\\\n")


def _lines_of(section: ArpaSection, words: NDArray[np.object_], *, last: bool) -> Iterator[str]:
    # The text of a float32 is the shortest that reads back to it.
    figures = section.probability.astype(np.float32).astype(str).tolist()
    columns = [words[column].tolist() for column in section.grams.T]
    texts = map(" ".join, zip(*columns, strict=True))
    if last:
        return (f"{p}\t{text}\n" for p, text in zip(figures, texts, strict=True))
    weights = section.backoff.astype(np.float32).astype(str).tolist()
    return (f"{p}\t{text}\t{b}\n" for p, text, b in zip(figures, texts, weights, strict=True))


class _Lines:
    """The lines of a file, stripped, one at a time; `number` is that of the last."""

    def __init__(self, stream: BinaryIO) -> None:
        self._lines = binary_lines(stream)
        self.number = 0

    def __iter__(self) -> Iterator[bytes]:
        for number, line in self._lines:
            self.number = number
            yield line.strip()

    def take(self, count: int) -> list[bytes]:
        """The next lines as they are: as many, or all that are left."""
        taken = [line for _, line in islice(self._lines, count)]
        self.number += len(taken)
        return taken

    def expect(self, wanted: bytes) -> None:
        """Takes blank lines and then this one."""
        line = next(filter(None, self), None)
        if line != wanted:
            seen = "the file ends" if line is None else f"stands {line[:40]!r}"
            raise DataError(
                f"{wanted.decode()} should come here, but {seen}. Is the file cut short, or a "
                "count after \\data\\ wrong?",
                line=self.number,
            )


def _read_counts(lines: _Lines) -> list[int]:
    if not any(line.removeprefix(codecs.BOM_UTF8) == b"\\data\\" for line in lines):
        raise DataError("no line reads \\data\\. Is this an ARPA file? (KenLM's binary is not.)")
    counts: list[int] = []
    for line in takewhile(bool, lines):
        found = COUNT.fullmatch(line)
        if found is None or int(found[1]) != len(counts) + 1 or len(counts) == MOST_ORDERS:
            raise DataError(
                f"'ngram {len(counts) + 1}=COUNT' or a blank line should come here, not "
                f"{line[:40]!r}.",
                line=lines.number,
            )
        counts.append(int(found[2]))
    if not counts:
        raise DataError("no order is announced after \\data\\.", line=lines.number)
    return counts


def _read_section(lines: _Lines, order: int, count: int, known: dict[bytes, int]) -> ArpaSection:
    """The n-grams of an order.  Those of order 1 are added to `known`, the words' numbers."""
    lines.expect(f"\\{order}-grams:".encode())
    start = lines.number + 1
    raw = lines.take(count)
    if len(raw) < count:
        raise DataError(
            f"{count} {order}-grams are announced, but only {len(raw)} lines follow. Is the file "
            "cut short?",
            line=lines.number,
        )
    table = _columns(raw, order, start)
    if order == 1:
        known.update(_number_words(table[1], start))
    grams = np.empty((count, order), np.int64)
    for k in range(order):
        grams[:, k] = np.fromiter(map(known.get, table[k + 1], repeat(-1)), np.int64, count=count)
    missing = np.argwhere(grams < 0)
    if len(missing):
        at, k = missing[0].tolist()
        word = table[k + 1][at].decode("utf-8", "replace")
        raise DataError(f"the word {word!r} is not among the 1-grams.", line=start + at)
    probability = _figures(table[0], start)
    if (probability > 0).any():
        at = start + int((probability > 0).argmax())
        raise DataError("a logarithm of a probability cannot be above 0.", line=at)
    return ArpaSection(grams, probability, _figures(table[order + 1], start))


def _columns(raw: list[bytes], order: int, start: int) -> list[list[bytes]]:
    """The cells of a section's lines, column by column; a missing back-off is 0."""
    cells = np.fromiter((len(line.split()) for line in raw), np.int64, count=len(raw))
    wrong = np.flatnonzero((cells != order + 1) & (cells != order + 2))
    if len(wrong):
        at = int(wrong[0])
        raise DataError(
            f"a logarithm, {order} words and perhaps a back-off should stand here, not "
            f"{cells[at]} fields: {len(raw)} {order}-grams are announced. Is the file cut short?",
            line=start + at,
        )
    for at in np.flatnonzero(cells == order + 1).tolist():
        raw[at] += b" 0"
    # One long list rather than one a line: millions of small lists would keep the garbage
    # collector busy.
    flat = b" ".join(raw).split()
    return [flat[k :: order + 2] for k in range(order + 2)]


def _number_words(words: Sequence[bytes], start: int) -> dict[bytes, int]:
    numbers: dict[bytes, int] = {}
    for at, word in enumerate(words):
        try:
            text = word.decode()
        except UnicodeDecodeError as error:
            raise DataError("the word is not UTF-8 text.", line=start + at) from error
        if numbers.setdefault(word, at) != at:
            raise DataError(f"the word {text!r} comes twice.", line=start + at)
    return numbers


def _figures(cells: Sequence[bytes], start: int) -> Figures:
    try:
        if b"_" in b"".join(cells):  # Python would read 1_000 as a number
            raise ValueError
        values = np.fromiter(map(float, cells), np.float64, count=len(cells))
    except ValueError:
        values = np.array([to_number(cell.decode("utf-8", "replace")) for cell in cells])
    with np.errstate(over="ignore"):
        figures = values.astype(np.float32)
    if not np.isfinite(figures).all():
        at = int((~np.isfinite(figures)).argmax())
        raise DataError(f"{cells[at][:40]!r} is not a finite number.", line=start + at)
    return figures

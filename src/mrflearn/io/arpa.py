r"""n-gram language models in the ARPA format that SRILM, KenLM and most speech tools read.

`\data\` and the number of n-grams of each order; for each order a section `\n-grams:` of lines
`log10 probability, n words, log10 back-off` (the back-off may be missing, and is in the last
section); `\end\`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
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
        first, words = _read_section(lines, 1, counts[0], None)
        sections = [first]
        for order, count in enumerate(counts[1:], start=2):
            sections.append(_read_section(lines, order, count, words)[0])
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
    """The lines of a file, stripped, with their numbers; one can be handed back."""

    def __init__(self, stream: BinaryIO) -> None:
        self._lines = binary_lines(stream)
        self._back: bytes | None = None
        self.number = 0

    def next(self) -> bytes | None:
        """The next line, None at the end of the file."""
        line, self._back = self._back, None
        if line is None:
            self.number, line = next(self._lines, (self.number, None))
        return None if line is None else line.strip()

    def section(self) -> list[bytes]:
        """The lines up to a blank one, or one that begins with a backslash."""
        taken = []
        for number, line in self._lines:
            self.number = number
            if line.startswith(b"\\") or not line.strip():
                self._back = line
                break
            taken.append(line)
        return taken

    def expect(self, wanted: bytes) -> None:
        """Takes blank lines and then this one."""
        line = self.next()
        while line == b"":
            line = self.next()
        if line != wanted:
            seen = "the file ends" if line is None else f"stands {line[:40]!r}"
            raise self.error(f"{wanted.decode()} should come here, but {seen}. Is it cut short?")

    def error(self, problem: str, line: int | None = None) -> DataError:
        return DataError(problem, line=self.number if line is None else line)


def _read_counts(lines: _Lines) -> list[int]:
    line = lines.next()
    while line is not None and line.removeprefix(b"\xef\xbb\xbf") != b"\\data\\":
        line = lines.next()
    if line is None:
        raise DataError("no line reads \\data\\. Is this an ARPA file? (KenLM's binary is not.)")
    counts: list[int] = []
    while line := lines.next():
        found = COUNT.fullmatch(line)
        if found is None or int(found[1]) != len(counts) + 1 or len(counts) == MOST_ORDERS:
            wanted = f"'ngram {len(counts) + 1}=COUNT' or a blank line"
            raise lines.error(f"{wanted} should come here, not {line[:40]!r}.")
        counts.append(int(found[2]))
    if not counts:
        raise lines.error("no order is announced after \\data\\.")
    return counts


def _read_section(
    lines: _Lines, order: int, count: int, words: dict[bytes, int] | None
) -> tuple[ArpaSection, dict[bytes, int]]:
    lines.expect(f"\\{order}-grams:".encode())
    start = lines.number + 1
    raw = lines.section()
    if len(raw) != count:
        seen = f"{count} {order}-grams are announced, but {len(raw)} stand here"
        raise lines.error(f"{seen}. Is the file cut short?")
    table = _columns(lines, raw, order, start)
    known = _number_words(lines, table[1], start) if words is None else words
    grams = np.empty((count, order), np.int64)
    for k in range(order):
        grams[:, k] = np.fromiter(map(known.get, table[k + 1], repeat(-1)), np.int64, count=count)
    missing = np.argwhere(grams < 0)
    if len(missing):
        at, k = missing[0].tolist()
        word = table[k + 1][at].decode("utf-8", "replace")
        raise lines.error(f"the word {word!r} is not among the 1-grams.", start + at)
    probability = _figures(lines, table[0], start)
    if (probability > 0).any():
        at = start + int((probability > 0).argmax())
        raise lines.error("a logarithm of a probability cannot be above 0.", at)
    return ArpaSection(grams, probability, _figures(lines, table[order + 1], start)), known


def _columns(lines: _Lines, raw: list[bytes], order: int, start: int) -> list[list[bytes]]:
    """The cells of a section's lines, column by column; a missing back-off is 0."""
    cells = np.fromiter((len(line.split()) for line in raw), np.int64, count=len(raw))
    wrong = np.flatnonzero((cells != order + 1) & (cells != order + 2))
    if len(wrong):
        wanted = f"a logarithm, {order} words and perhaps a back-off"
        at = int(wrong[0])
        raise lines.error(f"{wanted} should stand here, not {cells[at]} fields.", start + at)
    for at in np.flatnonzero(cells == order + 1).tolist():
        raw[at] += b" 0"
    # One long list rather than one a line: millions of small lists would keep the garbage
    # collector busy.
    flat = b" ".join(raw).split()
    return [flat[k :: order + 2] for k in range(order + 2)]


def _number_words(lines: _Lines, words: Sequence[bytes], start: int) -> dict[bytes, int]:
    numbers: dict[bytes, int] = {}
    for at, word in enumerate(words):
        try:
            text = word.decode()
        except UnicodeDecodeError as error:
            raise lines.error("the word is not UTF-8 text.", start + at) from error
        if numbers.setdefault(word, at) != at:
            raise lines.error(f"the word {text!r} comes twice.", start + at)
    return numbers


def _figures(lines: _Lines, cells: Sequence[bytes], start: int) -> Figures:
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
        raise lines.error(f"{cells[at][:40]!r} is not a number, or not finite.", start + at)
    return figures

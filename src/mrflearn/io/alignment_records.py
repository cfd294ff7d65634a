"""The sequences of an alignment file, in whichever of its formats it is written.

FASTA (and a2m, a3m), Stockholm, Clustal, and one sequence a line; the first line tells which.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from mrflearn.errors import DataError
from mrflearn.io.files import PathLike, open_binary, read_lines

Lines: TypeAlias = Iterator[tuple[int, str]]
Record: TypeAlias = tuple[int, str | None, str]

LETTERS = re.compile(r"[A-Za-z*.-]*")
ENDINGS = (".fasta", ".fa", ".fas", ".faa", ".afa", ".a2m", ".a3m", ".aln", ".sto", ".stk")
STOCKHOLM = "# STOCKHOLM"
BLOCKS = ("CLUSTAL", "MUSCLE")
SIGNS = tuple(sign.encode() for sign in (">", STOCKHOLM, *BLOCKS))
BLANK = codecs.BOM_UTF8 + b" \t\r\n"
BEGINNING = 200  # bytes


def sequence_records(path: PathLike) -> Iterator[Record]:
    """(line on which it begins, name, letters) of every sequence."""
    lines = ((number, line) for number, line in read_lines(path) if line.strip())
    first = next(lines, None)
    if first is None:
        return iter(())
    if first[1].startswith(STOCKHOLM):
        return _blocks(_stockholm(lines, path), path)
    if first[1].startswith(BLOCKS):
        return _blocks(lines, path)
    return _fasta(chain([first], lines), path)


def holds_alignment(path: PathLike) -> bool:
    """Whether the name of a file, or else how it begins, says that aligned sequences are in it."""
    if Path(str(path).removesuffix(".gz")).suffix.lower() in ENDINGS:
        return True
    if str(path) == "-":  # what is read off a pipe is gone
        return False
    with open_binary(path) as stream:
        return stream.read(BEGINNING).lstrip(BLANK).startswith(SIGNS)


def _fasta(lines: Lines, path: PathLike) -> Iterator[Record]:
    name, start = None, 0
    parts: list[str] = []
    for number, padded in lines:
        line = padded.strip()
        if line[0] == ">" and (start or not parts):
            if start:
                yield start, name, "".join(parts)
            name, start, parts = line[1:].strip(), number, []
        elif start:
            parts.append(_letters(line, path, number))
        else:
            parts = [_letters(line, path, number)]  # a file without names
            yield number, None, parts[0]
    if start:
        yield start, name, "".join(parts)


def _stockholm(lines: Lines, path: PathLike) -> Lines:
    """The lines that hold sequences, up to the `//` that ends the alignment."""
    for number, line in lines:
        if line.startswith("//"):
            break
        if not line.startswith("#"):  # #=GF, #=GC and so on annotate
            yield number, line
    for number, line in lines:
        if line.startswith(STOCKHOLM):
            raise DataError(
                "a second alignment begins here. Write each to a file of its own.",
                path=path,
                line=number,
            )


def _blocks(lines: Lines, path: PathLike) -> Iterator[Record]:
    """Sequences written as `name letters` in blocks, each name's parts put together."""
    starts: dict[str, int] = {}
    parts: dict[str, list[str]] = {}
    for number, line in lines:
        if line[0].isspace():  # marks of agreement below a block of Clustal
            continue
        words = line.split()
        if len(words) < 2:
            raise DataError(
                f"{line[:40]!r} is no `name letters`. Is the line cut off?", path=path, line=number
            )
        starts.setdefault(words[0], number)
        # A third word is Clustal's count of letters so far.
        parts.setdefault(words[0], []).append(_letters(words[1], path, number))
    for name, start in starts.items():
        yield start, name, "".join(parts[name])


def _letters(line: str, path: PathLike, number: int) -> str:
    letters = "".join(line.split())
    good = LETTERS.match(letters)
    if good is None or good.end() < len(letters):
        wrong = letters[good.end() if good else 0]
        raise DataError(
            f"{wrong!r} stands for no residue. Is this an alignment (FASTA, a2m, a3m, Stockholm, "
            "Clustal, or one sequence a line)?",
            path=path,
            line=number,
        )
    return letters

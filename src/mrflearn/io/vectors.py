"""Word vectors in the text and the binary format of word2vec.

Both begin with a line `words dimensions`.  Text: a line `word figure figure ...` each.  Binary:
the word, one space, the figures as little-endian float32, and as a rule a newline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.files import PathLike, located, read_bytes, write_binary

Format = Literal["auto", "text", "binary"]
FLOAT = np.dtype("<f4")
# What is meant for a number, whether it can be read as one or not.
FIGURE = re.compile(rb"[-+.,0-9]+([eE][-+]?[0-9]+)?|[-+]?(nan|inf|infinity)", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class NamedVectors:
    """`values[i]` is the vector of `names[i]`."""

    names: tuple[str, ...]
    values: NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or len(self.names) != len(self.values):
            raise DataError(
                f"{len(self.names)} words, but vectors of shape {self.values.shape}; "
                "there should be one row for each word."
            )

    def __len__(self) -> int:
        return len(self.names)


def read_vectors(path: PathLike, format: Format = "auto") -> NamedVectors:  # noqa: A002
    """All vectors of a file; `auto` takes it for text where it begins as text does."""
    with located(path):
        content = read_bytes(path)
        words, dimensions, start = _read_header(content)
        text = format == "text" or (format == "auto" and _is_text(content, start, dimensions))
        values = np.empty((words, dimensions), dtype=np.float32)
        names = (_read_text if text else _read_binary)(content, start, values)
        if not np.isfinite(values).all():
            wrong = int((~np.isfinite(values)).any(axis=1).argmax())
            raise DataError(
                f"the vector of word {wrong} ({names[wrong]!r}) has an entry that is no finite "
                "number. Is the file damaged, or of the other format (text, binary)?",
                line=2 + wrong if text else None,
            )
        return NamedVectors(tuple(names), values)


def write_vectors(
    path: PathLike,
    vectors: NamedVectors,
    format: Literal["text", "binary"] = "text",  # noqa: A002
) -> None:
    """Writes vectors so that they read back exactly; words may not have spaces or newlines."""
    values = np.ascontiguousarray(vectors.values, dtype=FLOAT)
    with write_binary(path) as stream:
        names = list(map(_encoded, vectors.names))
        stream.write(b"%d %d\n" % values.shape)
        for name, row in zip(names, values, strict=True):
            if format == "binary":
                stream.write(name + b" " + row.tobytes() + b"\n")
            else:
                # The text of a float32 is the shortest that reads back to it.
                stream.write(name + b" " + b" ".join(row.astype(bytes).tolist()) + b"\n")


def _encoded(name: str) -> bytes:
    if not name or " " in name or "\n" in name or name != name.strip("\r"):
        raise DataError(f"the word {name!r} is empty or has a space or newline in it.")
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the word {name!r} is not Unicode text: {error}.") from error


def _read_header(content: bytes) -> tuple[int, int, int]:
    """Words, dimensions, and where the first line ends."""
    end = content.find(b"\n", 0, 100)
    cells = content[: max(end, 0)].split()
    if len(cells) != 2 or not all(cell.isdigit() for cell in cells) or int(cells[1]) < 1:
        raise DataError(
            "the first line should be the number of words and the number of dimensions, not "
            f"{content[:40]!r}. Is this a word2vec file?",
            line=1,
        )
    words, dimensions = int(cells[0]), int(cells[1])
    # A figure takes two bytes in text ("0 ") and four in binary; a word with its space two.
    if words * (2 + 2 * dimensions) > len(content) - end or dimensions >= 1 << 31:
        raise DataError(
            f"{words} words of {dimensions} dimensions are announced, but only "
            f"{len(content) - end - 1} bytes follow. Is the file cut short?",
            line=1,
        )
    return words, dimensions, end + 1


def _is_text(content: bytes, start: int, dimensions: int) -> bool:
    """Whether a word and what is meant for figures stand in the first line."""
    end = content.find(b"\n", start)
    line = content[start : end if end >= 0 else len(content)].strip(b"\r ")
    cells = line.split(b" ")[1:]
    return len(cells) == dimensions and all(map(FIGURE.fullmatch, cells))


def _read_text(content: bytes, start: int, values: NDArray[np.float32]) -> list[str]:
    """Fills the vectors; their words."""
    # Words may hold any white space but these two: only newlines end a line, only spaces a word.
    lines = content[start:].split(b"\n")
    while lines and not lines[-1].strip(b"\r "):
        del lines[-1]
    words, dimensions = values.shape
    if len(lines) != words:
        problem = f"{words} words are announced, but {len(lines)} lines follow. Is it cut short?"
        raise DataError(problem, line=1)
    names = []
    for i, line in enumerate(lines):
        name, *cells = line.strip(b"\r ").split(b" ")
        if len(cells) != dimensions:
            problem = f"{len(cells)} figures after the word, but {dimensions} dimensions."
            raise DataError(problem, line=i + 2)
        try:
            with np.errstate(over="ignore"):  # what is too large for float32 is refused later
                values[i] = list(map(float, cells))
            names.append(name.decode())
        except ValueError as error:
            raise DataError(f"cannot be read: {error}.", line=i + 2) from error
    return names


def _read_binary(content: bytes, start: int, values: NDArray[np.float32]) -> list[str]:
    words, dimensions = values.shape
    size = dimensions * FLOAT.itemsize
    names = []
    for i in range(words):
        space = content.find(b" ", start)
        if space < 0 or space + 1 + size > len(content):
            raise DataError(
                f"cut short in word {i} of {words}. (The file is taken for binary: what follows "
                f"its first line is not a word and {dimensions} figures in text.)"
            )
        try:
            names.append(content[start:space].lstrip(b"\n").decode())
        except UnicodeDecodeError as error:
            raise DataError(
                f"word {i} is not UTF-8 text ({error.reason}). Are there really {dimensions} "
                "dimensions of four bytes each?"
            ) from error
        values[i] = np.frombuffer(content, FLOAT, dimensions, space + 1)
        start = space + 1 + size
    if content[start:].strip(b"\r\n"):
        more = len(content) - start
        raise DataError(f"{more} bytes follow the last of {words} words. Is the first line right?")
    return names

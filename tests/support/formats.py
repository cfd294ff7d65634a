"""Every file format the library reads and writes, one entry each, for the contract tests.

To add a format: append one `Format` to `FORMATS`; `tests/contracts/test_every_reader.py` does the
rest (round trip, gzip, streaming, missing files, junk, and mutated files).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrflearn.data.text import read_text, write_tokens


@dataclass(frozen=True)
class Format:
    """A format's reader and writer, with a small valid file to try them on."""

    name: str
    valid: bytes  # a small file that the reader accepts, with the format's awkward things in it
    read: Callable[[Path], Any]  # exhausts the reader; gives all records
    write: Callable[[Path, Any], None]  # (path, what `read` gave)
    suffix: str = ".txt"
    gzipped: bool = True  # the reader takes gzip, and the writer makes it of a name in .gz
    stream: Callable[[Path], Iterator[Any]] | None = None  # the lazy reader, where there is one:
    # it must yield records of an endless repetition of `valid`
    same: Callable[[Any, Any], Any] = operator.eq  # equality of two results of `read`

    def __str__(self) -> str:
        return self.name


FORMATS: list[Format] = [
    Format(
        "text",
        " the cat sat \n\nle caf\u00e9\u00a0noir\n".encode(),
        read=lambda path: list(read_text(path)),
        write=write_tokens,
        stream=read_text,
    ),
]

"""Text in large blocks of bytes, for passes over corpora of any size at the speed of `bytes.split`.

Words and lines are those of `data/text`: ASCII white space separates words, newlines end sentences.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from mrflearn.errors import DataError
from mrflearn.io.files import PathLike, open_binary

BLOCK_BYTES = 1 << 22
# The byte 255 occurs nowhere in UTF-8, so no word of a text can be mistaken for this mark.
LINE_END = b"\xff"
SPACES = (b" ", b"\t", b"\n", b"\r", b"\f", b"\v")


def read_blocks(*paths: PathLike, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """UTF-8 text of the files in turn, cut between words; every file ends with a newline.

    A byte order mark at the beginning of a file is no part of its first word.
    """
    for path in paths:
        with open_binary(path) as stream:
            yield from _checked(_cut_between_words(stream, size, path), path)


def words_of(block: bytes) -> list[bytes]:
    """The words of a block in order, with `LINE_END` wherever a line ends."""
    return block.replace(b"\n", b" " + LINE_END + b" ").split()


def _cut_between_words(stream: BinaryIO, size: int, path: PathLike) -> Iterator[bytes]:
    rest = b""
    mark = codecs.BOM_UTF8
    while read := stream.read(size):
        block = rest + read.removeprefix(mark)
        mark = b""
        cut = max(block.rfind(space, len(rest)) for space in SPACES) + 1
        if cut > 0:
            yield block[:cut]
            rest = block[cut:]
        elif len(block) >= 2 * size:
            raise DataError(
                f"{len(block):,} bytes without a space or a newline. Is this a text file, with its "
                "words set apart by white space?",
                path=path,
            )
        else:
            rest = block
    yield rest + b"\n"


def _checked(blocks: Iterable[bytes], path: PathLike) -> Iterator[bytes]:
    lines = 0
    for block in blocks:
        try:
            block.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                "this line is not UTF-8 text. Is this a text file? "
                "If it is in another encoding, convert it first (iconv -t utf-8).",
                path=path,
                line=lines + block.count(b"\n", 0, error.start) + 1,
            ) from error
        lines += block.count(b"\n")
        yield block

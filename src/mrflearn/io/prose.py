"""Prose: text as people write it, normalised and split into tokens.

White space is never within a token, and what is on its far side changes none.  So the tokens of a
text are those of its distinct chunks between ASCII white space, and a corpus of any size is read at
nearly the speed of `bytes.split`: a chunk is normalised and split when it is first met.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple, TypeAlias, final
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from mrflearn.io.corpus import (
    BLOCK_BYTES,
    LINE_END,
    LINE_END_ID,
    UNKNOWN,
    Vocabulary,
    files_in,
    read_blocks,
    texts_of_json,
    words_of,
)
from mrflearn.io.files import JSON_LINES, PathLike, ending

Ids: TypeAlias = NDArray[np.int32]
# Characters by what they do, as they are after NFKC; all others are of words.  `\w` would tear
# words with combining marks to pieces.
SPACE = r"\x00-\x20\x7f-\xa0\u1680\u2028\u2029"
PUNCTUATION = (
    r"!-/:-@\[-^`{-~\xa1-\xb6\xb8-\xbf\xd7\xf7\u060c\u061b\u061f\u066a\u06d4\u0964\u0965"
    r"\u2010-\u2027\u2030-\u205e\u20a0-\u20cf\u3001-\u3003\u3008-\u3011\u3014-\u301f"
)
PICTURE = r"\u2190-\u2bff\U0001f000-\U0001faff"
FLAG = r"\U0001f1e6-\U0001f1ff"
TOKEN = re.compile(
    rf"""
      {UNKNOWN}
    | (?: [^\W\d_] \. ){{2,}}                                  # u.s.  e.g.
    | [^{SPACE}{PUNCTUATION}{PICTURE}]+                      # a word, a number,
      (?: (?: ['-] | (?<=\d) [.,:] (?=\d) )                  # or don't, well-known, 3.5, 1,000
          [^{SPACE}{PUNCTUATION}{PICTURE}]+ )*
    | \.{{2,}} | -{{2,}}                                         # ...  --
    | [{FLAG}]{{2}}                                            # two letters that make a flag
    | [{PICTURE}] (?: [\ufe0f\u20e3\U0001f3fb-\U0001f3ff] | \u200d [{PICTURE}] )*
    | [{PUNCTUATION}] \ufe0f?
    """,
    re.VERBOSE,
)
# Quotation marks and hyphens of typesetters, and marks that are not seen.
PLAIN = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201b\u02bc", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | {"\u2010": "-", "\u200b": " "}
    | dict.fromkeys(map(chr, (0xAD, 0x200E, 0x200F, 0xFEFF)), "")
    | dict.fromkeys(map(chr, (*range(0x202A, 0x202F), *range(0x2060, 0x206A))), "")
)
ACUTE = "\xb4"  # typed for an apostrophe; NFKC makes a space of it, and a mark for the next letter


def normalised(text: str) -> str:
    """The text in NFKC and lower case, with plain quotation marks and hyphens."""
    if text.isascii():
        return text.lower()  # the same: all else is for other characters
    lower = normalize("NFKC", text.replace(ACUTE, "'")).translate(PLAIN).lower()
    return normalize("NFKC", lower)  # small letters compose that capitals do not


def tokens(text: str) -> list[str]:
    """The tokens of a text: `TOKEN` says what they are."""
    return TOKEN.findall(normalised(text))


# Files of prose, in blocks.


# No byte of UTF-8 text either.
DOCUMENT_END = b"\xfe"
DOCUMENT_END_ID = -2
MOST_CHUNKS = 1 << 19  # whose tokens are kept


class EncodedDocuments(NamedTuple):
    """Documents as ids with `LINE_END_ID` after each line; the words and sentences of each."""

    ids: Ids
    sizes: NDArray[np.int64]


@final
@dataclass(frozen=True)
class Prose:
    """A text that is read through a tokenizer: a file, or all files of a folder.

    What `split` does may not depend on what white space sets apart.
    Every line is a sentence.  Documents stand between blank lines, or are the `"text"` of each
    object in a file of JSON lines.
    """

    path: PathLike
    split: Callable[[str], list[str]] = tokens
    held: tuple[bytes, ...] | None = None  # its blocks

    def hold(self) -> Prose:
        """The same in a form that can be read twice: standard input flows by once only."""
        return replace(self, held=tuple(self.blocks())) if str(self.path) == "-" else self

    def blocks(self, size: int = BLOCK_BYTES) -> Iterable[bytes]:
        """Bytes cut between words; with `DOCUMENT_END` after each document of JSON lines."""
        if self.held is not None:
            return self.held
        return chain.from_iterable(
            _json_blocks(file, size) if ending(file) in JSON_LINES else read_blocks(file, size=size)
            for file in files_in(self.path)
        )

    def count(self) -> Counter[str]:
        """How often each token occurs."""
        chunks, found = Counter[bytes](), Counter[str]()
        for block in self.blocks():
            chunks.update(block.split())
        del chunks[DOCUMENT_END]
        for chunk, times in chunks.items():
            for token in self.split(chunk.decode()):
                found[token] += times
        return found

    def encode(self, vocabulary: Vocabulary) -> Ids:
        """The ids of all tokens, with `LINE_END_ID` after each sentence."""
        found = [np.zeros(0, np.int32), *self._encoded(self.blocks(), vocabulary)]
        return np.maximum(np.concatenate(found), DOCUMENT_END_ID + 1)

    def documents(
        self, vocabulary: Vocabulary, size: int = BLOCK_BYTES
    ) -> Iterator[EncodedDocuments]:
        """The documents in lots of about `size` bytes."""
        for file in files_in(self.path):
            encoded = self._encoded(replace(self, path=file).blocks(size), vocabulary)
            if ending(file) in JSON_LINES:
                yield from map(_split_at_marks, encoded)
            else:
                yield from map(_split_at_blanks, _between_blanks(encoded))

    def _encoded(self, blocks: Iterable[bytes], vocabulary: Vocabulary) -> Iterator[Ids]:
        chunks = _Chunks(vocabulary, self.split)
        for block in blocks:
            if len(chunks) > MOST_CHUNKS:
                chunks = _Chunks(vocabulary, self.split)
            yield chunks.encode(block)


def _json_blocks(path: PathLike, size: int) -> Iterator[bytes]:
    """The texts of JSON lines, each whole."""
    pieces, length = list[bytes](), 0
    for text in texts_of_json(path):
        # JSON can name halves of characters, which no text can hold.
        pieces += [text.encode("utf-8", "replace"), b"\n" + DOCUMENT_END + b"\n"]
        length += len(pieces[-2])
        if length >= size:
            yield b"".join(pieces)
            pieces, length = [], 0
    yield b"".join(pieces)


class _Chunks(dict[bytes, int]):
    """The number of each chunk between white space; the ids of its tokens stand in a row."""

    def __init__(self, vocabulary: Vocabulary, split: Callable[[str], list[str]]) -> None:
        super().__init__({LINE_END: 0, DOCUMENT_END: 1})
        self._vocabulary, self._split = vocabulary, split
        self._ids = array("i", [LINE_END_ID, DOCUMENT_END_ID])
        self._begins = array("q", [0, 1, 2])
        self._new: list[str] = []  # tokens whose ids are still to be found, all at once

    def __missing__(self, chunk: bytes) -> int:
        self._new += (found := self._split(chunk.decode()))
        self._begins.append(self._begins[-1] + len(found))
        number = self[chunk] = len(self)
        return number

    def encode(self, block: bytes) -> Ids:
        """The ids of all tokens of a block, and of its marks."""
        words = words_of(block)
        numbers = np.fromiter(map(self.__getitem__, words), np.int64, len(words))
        self._ids.frombytes(self._vocabulary.encode(self._new).tobytes())
        self._new = []
        begins = np.array(self._begins)
        lengths = np.diff(begins)[numbers]
        ends = np.cumsum(lengths)
        offsets = begins[numbers] - ends + lengths
        places = np.repeat(offsets, lengths) + np.arange(ends[-1] if len(ends) else 0)
        ids: Ids = np.array(self._ids, np.int32)[places]
        return ids


def _between_blanks(blocks: Iterable[Ids]) -> Iterator[Ids]:
    """The same ids in pieces that end with a blank line."""
    waiting = [np.full(1, LINE_END_ID, np.int32)]
    for block in blocks:
        ends = np.concatenate([waiting[-1][-1:], block]) == LINE_END_ID
        blank = np.flatnonzero(ends[1:] & ends[:-1])
        if len(blank):
            yield np.concatenate([*waiting, block[: blank[-1] + 1]])
            block, waiting = block[blank[-1] :], []
        if len(block):
            waiting.append(block)
    yield np.concatenate(waiting)


def _split_at_blanks(ids: Ids) -> EncodedDocuments:
    ends = ids == LINE_END_ID
    blank = np.flatnonzero(ends[1:] & ends[:-1]) + 1
    sizes = _sizes(ids, np.append(blank, len(ids)))
    return EncodedDocuments(ids, sizes[sizes > 0])


def _split_at_marks(ids: Ids) -> EncodedDocuments:
    marks = np.flatnonzero(ids == DOCUMENT_END_ID)
    ids[marks] = LINE_END_ID
    return EncodedDocuments(ids, _sizes(ids, marks))


def _sizes(ids: Ids, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Words and sentences up to each end, after the one before; blank lines are no sentences."""
    word = np.concatenate([[False], ids != LINE_END_ID])
    counted = np.concatenate([[0], np.cumsum(word[1:] | word[:-1])])
    return np.diff(counted[ends], prepend=0)

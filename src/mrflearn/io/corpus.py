"""Text: sentences and documents from files, vocabularies, words as numbers.

ASCII white space separates words, newlines end sentences.

A file without blank lines is one document; a folder stands for all files in it, by name.
"""

from __future__ import annotations

import codecs
import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.files import (
    JSON_LINES,
    Lines,
    PathLike,
    ending,
    located,
    not_text,
    open_binary,
    plain,
    read_lines,
    runs,
    split_tokens,
    to_record,
    url_of,
    write_text,
)
from mrflearn.io.remote import listing

# Tokenised text: one sentence a line, tokens set apart by white space.


def check_words(*words: str, of: str = "") -> Sequence[str]:
    """The words, or an error where one is empty or has white space in it."""
    if split_tokens(" ".join(words)) != list(words):
        word = next(word for word in words if split_tokens(word) != [word])
        raise DataError(f"{of}the word {word!r} is empty or has white space in it.")
    return words


def read_sentences(*paths: PathLike, keep_blank: bool = False) -> Generator[list[str]]:
    """The tokens of each line of the files in turn, read as they are asked for; `-` is stdin.

    Lines without a token are skipped, or are empty lists with `keep_blank` (corpora such as
    WikiText count them as sentences).
    """
    for path in paths:
        with Lines(path) as lines:
            yield from (tokens for tokens in map(split_tokens, lines) if tokens or keep_blank)


def write_sentences(path: PathLike, sentences: Iterable[Sequence[str]]) -> None:
    """Writes one sentence per line, tokens joined by one space; the file appears when complete."""
    with write_text(path) as stream:
        for number, tokens in enumerate(sentences, start=1):
            stream.write(" ".join(check_words(*tokens, of=f"sentence {number}: ")) + "\n")


# Text in large blocks of bytes, for passes over corpora of any size at the speed of
# `bytes.split`.


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
            yield from _checked(_cut_between_words(stream, size))


def words_of(block: bytes) -> list[bytes]:
    """The words of a block in order, with `LINE_END` wherever a line ends."""
    return block.replace(b"\n", b" " + LINE_END + b" ").split()


def _cut_between_words(stream: BinaryIO, size: int) -> Iterator[bytes]:
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
                "words separated by white space?"
            )
        else:
            rest = block
    yield rest + b"\n"


def _checked(blocks: Iterable[bytes]) -> Iterator[bytes]:
    lines = 0
    for block in blocks:
        try:
            block.decode("utf-8")
        except UnicodeDecodeError as error:
            raise not_text(error, lines + block.count(b"\n", 0, error.start) + 1) from error
        lines += block.count(b"\n")
        yield block


def refuse_documents(*paths: PathLike) -> None:
    """An error where one of the files holds JSON lines: as sentences they would be read as JSON."""
    for path in paths:
        if ending(path) in JSON_LINES:
            raise DataError(
                "JSON lines are documents, and sentences are read here. Write their texts into a "
                "file, one sentence a line; an n-gram model that tokenizes reads them as they are.",
                path=path,
            )


# Documents in text files: one sentence a line, a blank line between documents.


Document: TypeAlias = Sequence[Sequence[str]]
Documents: TypeAlias = PathLike | Iterable[Document]


def read_documents(*paths: PathLike) -> Iterator[list[list[str]]]:
    """The documents of files and folders in turn, each a list of sentences; `-` is stdin.

    A file of JSON lines has a document a line, an object with its `"text"`, which may be empty.
    """
    for file in chain.from_iterable(map(files_in, paths)):
        if ending(file) in JSON_LINES:
            for text in texts_of_json(file):
                yield list(filter(None, map(split_tokens, text.split("\n"))))
            continue
        with closing(read_sentences(file, keep_blank=True)) as sentences:
            yield from runs(sentences)


def hold_documents(documents: Documents) -> list[Document]:
    """Documents as users hand them over, as a list; a path is read."""
    if isinstance(documents, (str, os.PathLike)):
        return list(read_documents(documents))
    held = list(documents)
    for number, document in enumerate(held, start=1):
        if not (_is_list(document) and all(map(_is_list, document))):
            raise DataError(
                f"document {number} is not a list of sentences, each a list of words. Split its "
                "text first, or give the path of a file with one sentence a line and a blank line "
                "between documents. For a single document give [document]."
            )
    return held


def write_documents(path: PathLike, documents: Iterable[Document]) -> None:
    """Writes one sentence per line, a blank line between documents."""
    with write_text(path) as stream:
        for number, document in enumerate(documents, start=1):
            if number > 1:
                stream.write("\n")
            for words in document:
                if not words:
                    raise DataError(f"document {number} has an empty sentence.")
                stream.write(" ".join(check_words(*words, of=f"document {number}: ")) + "\n")


def texts_of_json(path: PathLike) -> Iterator[str]:
    """The `"text"` of each object in a file of JSON lines."""
    with Lines(path) as lines:
        for line in filter(str.strip, lines):
            record = to_record(line)
            if not isinstance(record, dict) or not isinstance(record.get("text"), str):
                problem = (
                    'a document is {"text": "..."} in a line of its own, and this line is not.'
                )
                raise DataError(problem)
            yield record["text"]


def _is_list(given: Any) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, (str, bytes))


def files_in(path: PathLike) -> list[PathLike]:
    """All files of a folder, by name; a file by itself."""
    if url := url_of(path):
        return list(listing(url))
    folder = Path(plain(path))
    if str(path) == "-" or not folder.is_dir():
        return [path]
    found = [file for file in sorted(folder.iterdir()) if file.is_file()]
    if not found:
        raise DataError("this folder has no files in it.", path=path)
    return list(found)


# Words and their numbers: chosen by count, kept as plain text, applied to whole corpora.


SEPARATOR = "<S>"
UNKNOWN = "<unk>"
LINE_END_ID = -1


@final
@dataclass(frozen=True)
class Vocabulary:
    """Words in the order of their ids; `<S>` and `<unk>` are always among them.

    A text's own `<S>` would break its sentence in two, so it is read as an unknown word.
    `left_out` counts the words, and their occurrences, that `from_counts` made unknown.
    """

    words: tuple[str, ...]
    left_out: tuple[int, int] = field(default=(0, 0), compare=False, repr=False)

    def __post_init__(self) -> None:
        counts = Counter(self.words)
        word, times = counts.most_common(1)[0] if counts else ("", 0)
        if times > 1:
            raise DataError(f"a vocabulary lists each word once, but {word!r} comes {times} times.")
        for special in (SEPARATOR, UNKNOWN):
            if special not in counts:
                raise DataError(f"a vocabulary needs {special}; `Vocabulary.from_counts` adds it.")

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
        words = (SEPARATOR, UNKNOWN, *ranked)[:size]
        rare = counts.keys() - words[1:]
        return cls(words, (len(rare), sum(counts[word] for word in rare)))

    @classmethod
    def load(cls, path: PathLike) -> Vocabulary:
        """The vocabulary of a text file with one word a line, ids counted from 0."""
        with located(path):
            return cls(tuple(line for _, line in read_lines(path)))

    def save(self, path: PathLike) -> None:
        """Writes one word per line, in the order of the ids."""
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
        return np.fromiter(map(self._ids.get, words, repeat(self.unknown)), np.int32)

    def encode_block(self, block: bytes) -> NDArray[np.int32]:
        """The id of each word of a block of UTF-8 text, and `LINE_END_ID` where a line ends."""
        words = words_of(block)
        ids = map(self._byte_ids.get, words, repeat(self.unknown))
        return np.fromiter(ids, np.int32, count=len(words))

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The word of each id."""
        return [self.words[index] for index in ids]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words) if word != SEPARATOR}

    @cached_property
    def _byte_ids(self) -> dict[bytes, int]:
        return {word.encode(): index for word, index in self._ids.items()} | {LINE_END: LINE_END_ID}


def count_words(*paths: PathLike) -> Counter[str]:
    """How often each word occurs in the text files, read once in blocks; `-` is stdin."""
    counts: Counter[bytes] = Counter()
    for block in read_blocks(*paths):
        counts.update(block.split())
    return Counter({word.decode("utf-8"): count for word, count in counts.items()})


# A corpus as users hand it over (a path, or lists of words), counted and turned into numbers.


Text: TypeAlias = PathLike | Iterable[Sequence[str]]
HeldText: TypeAlias = PathLike | list[Sequence[str]]


def hold(text: Text) -> HeldText:
    """The corpus in a form that can be read twice: its path, or a list of its sentences."""
    if isinstance(text, (str, os.PathLike)):
        if "\n" in str(text):
            raise DataError(
                "a text is given by its path or as a list of sentences, each a list of words; this "
                f"is the text itself, {str(text)[:40]!r} ... Try "
                "[line.split() for line in text.splitlines()]."
            )
        # Standard input flows by once only.
        return list(read_sentences("-")) if str(text) == "-" else text
    check_sentences(sentences := list(text))
    return sentences


def check_sentences(sentences: Iterable[Any]) -> None:
    """Raises `DataError` where one of the sentences is anything but a list of words."""
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, str | bytes | Mapping) or not isinstance(sentence, Iterable):
            raise DataError(
                f"sentence {number} is {sentence!r:.40}, not a list of words. Split a text first, "
                "as in [line.split() for line in text.splitlines()]."
            )
        if isinstance(sentence, list | tuple) and set(map(type, sentence)) - {str}:
            for word in sentence:
                if not isinstance(word, str):
                    raise DataError(f"sentence {number} has {word!r:.40} where a word should be.")


def count_corpus(text: HeldText) -> Counter[str]:
    """How often each word occurs."""
    if isinstance(text, list):
        return Counter(chain.from_iterable(text))
    return count_words(text)


def count_text_words(text: Text) -> Counter[str]:
    """How often each word occurs, in a text as users hand it over."""
    return count_corpus(hold(text))


def encode_corpus(text: HeldText, vocabulary: Vocabulary) -> NDArray[np.int32]:
    """The ids of all words, with `LINE_END_ID` after each sentence."""
    if isinstance(text, list):
        ids = vocabulary.encode(chain.from_iterable(text))
        return np.insert(ids, np.cumsum([len(words) for words in text], dtype=int), LINE_END_ID)
    pieces = [vocabulary.encode_block(block) for block in read_blocks(text)]
    return np.concatenate([np.zeros(0, np.int32), *pieces])

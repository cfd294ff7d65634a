"""Documents in text files: one sentence a line, a blank line between documents.

A file without blank lines is one document; a folder stands for all files in it, by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

from mrflearn.errors import DataError
from mrflearn.io.files import PathLike, write_text
from mrflearn.io.text import read_sentences, split_tokens

Document: TypeAlias = Sequence[Sequence[str]]
Documents: TypeAlias = PathLike | Iterable[Document]


def read_documents(*paths: PathLike) -> Iterator[list[list[str]]]:
    """The documents of files and folders in turn, each a list of sentences; `-` is stdin."""
    for path in paths:
        for file in _files(path):
            yield from _of_file(file)


def hold_documents(documents: Documents) -> list[Document]:
    """Documents as users hand them over, as a list; a path is read."""
    if isinstance(documents, (str, os.PathLike)):
        return list(read_documents(documents))
    held = list(documents)
    for number, document in enumerate(held, start=1):
        if not _holds_sentences(document):
            raise DataError(
                f"document {number} is not a list of sentences, each a list of words. Split its "
                "text first, or give the path of a file with one sentence a line and a blank line "
                "between documents. For a single document give [document]."
            )
    return held


def write_documents(path: PathLike, documents: Iterable[Document]) -> None:
    """Writes one sentence a line, a blank line between documents."""
    with write_text(path) as stream:
        for number, document in enumerate(documents, start=1):
            if number > 1:
                stream.write("\n")
            for words in document:
                line = " ".join(words)
                if not words or split_tokens(line) != list(words):
                    raise DataError(
                        f"document {number} has an empty sentence, or a word that is empty or has "
                        f"white space inside: {list(words)[:10]!r}.",
                        path=path,
                    )
                stream.write(line + "\n")


def _holds_sentences(document: Any) -> bool:
    """Whether it is a list of lists, as far as a look at each sentence tells."""
    if isinstance(document, (str, bytes)) or not isinstance(document, Iterable):
        return False
    return not any(
        isinstance(sentence, (str, bytes)) or not isinstance(sentence, Iterable)
        for sentence in document
    )


def _files(path: PathLike) -> list[PathLike]:
    folder = Path(path)
    if str(path) == "-" or not folder.is_dir():
        return [path]
    found = [file for file in sorted(folder.iterdir()) if file.is_file()]
    if not found:
        raise DataError("this folder has no files in it.", path=path)
    return list(found)


def _of_file(path: PathLike) -> Iterator[list[list[str]]]:
    document: list[list[str]] = []
    with closing(read_sentences(path, keep_blank=True)) as sentences:
        for words in sentences:
            if words:
                document.append(words)
            elif document:
                yield document
                document = []
    if document:
        yield document

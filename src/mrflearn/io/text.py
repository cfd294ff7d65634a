"""Tokenised text: one sentence a line, tokens set apart by white space."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing

from mrflearn.errors import DataError
from mrflearn.io.files import PathLike, read_lines, write_text

# ASCII white space alone separates: no-break and ideographic spaces are part of a token, which
# str.split() would break.
split_tokens = re.compile(r"[^ \t\n\r\f\v]+").findall


def read_sentences(*paths: PathLike, keep_blank: bool = False) -> Generator[list[str]]:
    """The tokens of each line of the files in turn, read as they are asked for; `-` is stdin.

    Lines without a token are skipped, or are empty lists with `keep_blank` (corpora such as
    WikiText count them as sentences).
    """
    for path in paths:
        with closing(read_lines(path)) as lines:
            for _, line in lines:
                tokens = split_tokens(line)
                if tokens or keep_blank:
                    yield tokens


def write_sentences(path: PathLike, sentences: Iterable[Sequence[str]]) -> None:
    """Writes one sentence a line, tokens joined by one space; the file appears when complete."""
    with write_text(path) as stream:
        for number, tokens in enumerate(sentences, start=1):
            line = " ".join(tokens)
            if split_tokens(line) != list(tokens):
                raise DataError(
                    f"sentence {number} has an empty token or one with white space inside, which "
                    f"this format cannot hold: {list(tokens)[:10]!r}.",
                    path=path,
                )
            stream.write(line + "\n")

"""Tagged text as in the Brown corpus: one sentence a line, `word/tag` tokens, document marks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mrflearn.errors import DataError
from mrflearn.io.corpus import split_tokens
from mrflearn.io.files import Lines, PathLike, write_text

DOCUMENT_MARK = "#DOC"


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """Words, one tag each, and where they come from (None above the first document mark)."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    document: str | None = None
    genre: str | None = None

    def __post_init__(self) -> None:
        if len(self.words) != len(self.tags):
            raise DataError(f"{len(self.words)} words have {len(self.tags)} tags.")

    def __len__(self) -> int:
        return len(self.words)


def read_tagged(path: PathLike) -> Iterator[TaggedSentence]:
    """The sentences of a file, one at a time; tokens are split at their last `/`.

    A line `#DOC<tab>document<tab>genre` begins a document; blank lines are skipped.
    """
    document: str | None = None
    genre: str | None = None
    with Lines(path) as lines:
        for line in lines:
            if line == DOCUMENT_MARK or line.startswith(DOCUMENT_MARK + "\t"):
                document, genre = _document(line)
                continue
            parts = [token.rpartition("/") for token in split_tokens(line)]
            if not parts:
                continue
            words, _, tags = zip(*parts, strict=True)
            if "" in words or "" in tags:
                bad = next(word + slash + tag for word, slash, tag in parts if not (word and tag))
                raise DataError(
                    f"'{bad}' is no word/tag token. Is this a file of columns, not of tagged text?"
                )
            yield TaggedSentence(words, tags, document, genre)


def write_tagged(path: PathLike, sentences: Iterable[TaggedSentence]) -> None:
    """Writes one sentence a line, and a document mark wherever document or genre changes."""
    place: tuple[str | None, str | None] = (None, None)
    with write_text(path) as stream:
        for sentence in sentences:
            if (sentence.document, sentence.genre) != place:
                place = sentence.document, sentence.genre
                mark = f"{DOCUMENT_MARK}\t{sentence.document or ''}\t{sentence.genre or ''}"
                _document(mark)
                stream.write(mark + "\n")
            tokens = [f"{w}/{t}" for w, t in zip(sentence.words, sentence.tags, strict=True)]
            line = " ".join(tokens)
            odd = "" in sentence.words or any(not tag or "/" in tag for tag in sentence.tags)
            if odd or not tokens or split_tokens(line) != tokens:
                raise DataError(
                    "a sentence is empty, or has an empty word or tag, white space in one, or `/` "
                    f"in a tag, which this format cannot hold: {line[:80]!r}."
                )
            stream.write(line + "\n")


def _document(line: str) -> tuple[str, str]:
    cells = line.split("\t")
    if len(cells) != 3 or not (cells[1] and cells[2]) or "\n" in line or "\r" in line:
        raise DataError(
            f"a document mark is #DOC, a tab, the document, a tab, its genre; this is {line!r}."
        )
    return cells[1], cells[2]

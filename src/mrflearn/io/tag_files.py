"""Where the words and tags of a file stand; a tagger keeps this, to be asked about such files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mrflearn.errors import DataError
from mrflearn.io.conllu import ConlluSentence, read_conllu
from mrflearn.io.corpus import read_sentences
from mrflearn.io.files import PathLike
from mrflearn.io.formats import ColumnSentence, as_columns, first_columns, sentence_format

Tags = tuple[str | None, ...]
# Formats with a column of words and one or more of tags, and the names of those.
TAG_COLUMNS = {"conllu": ("upos", "xpos"), "tagged": ("tag",), "ptb": ("tag",), "columns": ()}


class TagExample(NamedTuple):
    """A sentence, its tags where the file has them, and its rows (or itself) as they stand."""

    words: tuple[str, ...]
    tags: Tags | None
    rows: tuple[tuple[str, ...], ...] = ()
    document: int = 0
    sentence: ConlluSentence | None = None


@dataclass(frozen=True)
class TagSource:
    """The format of files with tags, the names of their columns, and the one that holds the tags.

    The first column is the word.
    """

    format: str
    columns: tuple[str, ...]
    column: str

    @classmethod
    def of(
        cls,
        path: PathLike,
        *,
        format: str | None = None,  # noqa: A002 - the word users know
        columns: Sequence[str] | None = None,
        column: str | None = None,
    ) -> TagSource:
        """Where the tags of a file are; what is not given is read off its name and first line."""
        kind = format or sentence_format(path, "columns")
        if kind not in TAG_COLUMNS:
            problem = f"'{kind}' has no tags for words; there are {', '.join(TAG_COLUMNS)}."
            raise DataError(problem, path=path)
        if kind != "columns" and columns:
            raise DataError(f"{kind} files have columns of their own: give no names.", path=path)
        if kind == "columns":
            names = tuple(columns) if columns else first_columns(path, "tag")
            chosen = column or names[-1]
        else:
            names = ("word", *TAG_COLUMNS[kind])
            chosen = column or names[1]
        if chosen not in names[1:]:
            raise DataError(f"there are no tags in '{chosen}'; columns are {', '.join(names)}.")
        return cls(kind, names, chosen)

    def read(self, path: PathLike, *, format: str | None = None) -> Iterator[TagExample]:  # noqa: A002
        """The sentences of a file, one at a time; the tags may be missing, as in plain text."""
        usual = self.format if self.format == "columns" else "text"
        kind = format or (self.format if str(path) == "-" else sentence_format(path, usual))
        if kind == "conllu":
            return map(self._of_conllu, read_conllu(path))
        if kind == "text":
            sentences = (ColumnSentence(("word",), (tuple(own),)) for own in read_sentences(path))
            return map(self._of_columns, sentences)
        own = self.format == "columns"
        columns, column = (self.columns, self.column) if own else (("word", "tag"), "tag")
        untagged = tuple(name for name in columns if name != column)
        return map(self._of_columns, as_columns(path, kind, (columns, untagged, columns[:1])))

    def tagged(self, path: PathLike) -> tuple[list[tuple[str, ...]], list[Tags]]:
        """The words and the tags of all sentences of a file."""
        examples = list(self.read(path))
        tags = [example.tags for example in examples if example.tags is not None]
        if not examples:
            raise DataError("there are no sentences in it.", path=path)
        if len(tags) < len(examples):
            raise DataError(f"there are no tags in it (column '{self.column}').", path=path)
        return [example.words for example in examples], tags

    def complete(self, path: PathLike) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
        """The words and the tags of a file in which every word has its tag."""
        words, tags = self.tagged(path)
        for number, own in enumerate(tags, start=1):
            if None in own:
                raise DataError(
                    f"sentence {number} has words without a tag (`_`) in column '{self.column}', "
                    "so that there is nothing to compare with.",
                    path=path,
                )
        return words, [tuple(tag for tag in own if tag is not None) for own in tags]

    def _of_conllu(self, sentence: ConlluSentence) -> TagExample:
        column = self.column if self.column in TAG_COLUMNS["conllu"] else "upos"
        tags = tuple(None if tag == "_" else tag for tag in getattr(sentence, column))
        known = tags if any(tag is not None for tag in tags) else None
        return TagExample(sentence.forms, known, sentence=sentence)

    def _of_columns(self, sentence: ColumnSentence) -> TagExample:
        names = sentence.names
        # Formats name their one column of tags as they like.
        column = self.column if self.column in names else names[-1] if "tag" in names else None
        tags = None if column is None else sentence[column]
        return TagExample(sentence.columns[0], tags, sentence.rows, sentence.document)

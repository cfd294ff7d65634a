"""Columns as in CoNLL-2000 and CoNLL-2003: one token a line, a blank line between sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from mrflearn.errors import DataError
from mrflearn.io.corpus import split_tokens
from mrflearn.io.files import Lines, PathLike, write_text

DOCUMENT_MARK = "-DOCSTART-"
_ENDS = re.compile(r"[\n\r]").search


@dataclass(frozen=True, slots=True)
class ColumnSentence:
    """One sentence by columns: `sentence["word"]` has a value for each token.

    `document` counts the document marks seen so far, so it is 0 all through a file without marks.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    document: int = 0

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.columns}
        if len(self.names) != len(self.columns) or len(lengths) != 1 or 0 in lengths:
            raise DataError(
                f"a sentence needs one column for each of {', '.join(self.names)}, all of one "
                f"length; got {len(self.columns)} of lengths {sorted(lengths)}."
            )

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, name: str) -> tuple[str, ...]:
        if name not in self.names:
            raise DataError(f"there is no column '{name}'; there are {', '.join(self.names)}.")
        return self.columns[self.names.index(name)]

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The same by tokens."""
        return tuple(zip(*self.columns, strict=True))


def read_columns(
    path: PathLike, columns: Sequence[str] = ("word", "pos", "chunk"), separator: str | None = None
) -> Iterator[ColumnSentence]:
    """The sentences of a file, one at a time; `columns` names what stands in each column.

    Cells are set apart by any white space, or exactly by `separator` (with a tab, cells may have
    spaces inside).  A row that begins with `-DOCSTART-` is a document mark, whatever its other
    cells: it ends the sentence before it, raises `document` by one, and is no sentence itself.
    """
    with Lines(path) as lines:
        yield from parse_columns(lines, columns, separator)


def parse_columns(
    lines: Iterable[str], columns: Sequence[str], separator: str | None = None, *, note: str = ""
) -> Iterator[ColumnSentence]:
    """The sentences of lines; `note` says why just these columns were expected."""
    if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
        raise DataError(f"columns needs one name for each column, all different; got {columns!r}.")
    names, split = tuple(columns), _splitter(separator)
    rows: list[list[str]] = []
    document = 0
    for line in chain(lines, [""]):
        cells = split(line)
        mark = bool(cells) and cells[0] == DOCUMENT_MARK
        if rows and (mark or not cells):
            yield ColumnSentence(names, tuple(zip(*rows, strict=True)), document)
            rows = []
        if mark:
            document += 1
        elif cells:
            if len(cells) != len(names):
                raise DataError(
                    f"{len(cells)} cells where the columns {', '.join(names)} want {len(names)}"
                    f"{note}: {cells[:8]!r}. Is the line cut off, or do these names (columns) not "
                    "fit the file?"
                )
            rows.append(cells)


def write_columns(
    path: PathLike, sentences: Iterable[ColumnSentence], separator: str = " "
) -> None:
    """Writes one token a line; where `document` rises, a document mark comes first."""
    split = _splitter(None if separator == " " else separator)
    document = 0
    with write_text(path) as stream:
        for sentence in sentences:
            if sentence.document < document:
                raise DataError(
                    f"a sentence of document {sentence.document} comes after one of document "
                    f"{document}; marks can only count upwards. Sort the sentences."
                )
            # As CoNLL-2003 fills the other columns of a mark.
            filling = ["-X-", *["O"] * len(sentence.names)][: len(sentence.names) - 1]
            mark = separator.join([DOCUMENT_MARK, *filling])
            stream.write(f"{mark}\n\n" * (sentence.document - document))
            document = sentence.document
            for row in sentence.rows:
                line = separator.join(row)
                if split(line) != list(row) or _ENDS(line) or row[0] == DOCUMENT_MARK:
                    raise DataError(
                        f"a row cannot be written with this separator, or would be taken for a "
                        f"document mark: {row!r}. Try separator='\\t' if cells have spaces inside."
                    )
                stream.write(line + "\n")
            stream.write("\n")


def _splitter(separator: str | None) -> Callable[[str], list[str]]:
    if separator is None:
        return split_tokens
    if not separator:
        raise DataError("an empty separator sets nothing apart; None stands for white space.")
    return lambda line: line.split(separator) if split_tokens(line) else []

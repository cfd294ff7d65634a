"""CoNLL-U, the format of Universal Dependencies: ten columns, read and written without loss."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from mrflearn.errors import DataError
from mrflearn.io.files import Lines, PathLike, write_text


class ConlluRow(NamedTuple):
    """One line: a word (`id` 7), a multiword token (`id` 7-8) or an empty node (`id` 7.1)."""

    id: str
    form: str
    lemma: str
    upos: str
    xpos: str
    feats: str
    head: str
    deprel: str
    deps: str
    misc: str


@dataclass(frozen=True, slots=True)
class ConlluSentence:
    """A sentence with its comment lines (which begin with `#`) and all its rows in order."""

    comments: tuple[str, ...]
    rows: tuple[ConlluRow, ...]

    @property
    def words(self) -> tuple[ConlluRow, ...]:
        """The syntactic words: no multiword tokens, no empty nodes."""
        return tuple(row for row in self.rows if row.id.isdecimal())

    @property
    def multiword_tokens(self) -> tuple[ConlluRow, ...]:
        """The surface tokens that stand for several words."""
        return tuple(row for row in self.rows if "-" in row.id)

    @property
    def empty_nodes(self) -> tuple[ConlluRow, ...]:
        """The nodes of the enhanced graph that have no surface form."""
        return tuple(row for row in self.rows if "." in row.id)

    @property
    def forms(self) -> tuple[str, ...]:
        """The word forms."""
        return tuple(row.form for row in self.words)

    @property
    def upos(self) -> tuple[str, ...]:
        """The universal part-of-speech tags of the words."""
        return tuple(row.upos for row in self.words)

    @property
    def xpos(self) -> tuple[str, ...]:
        """The treebank's own part-of-speech tags of the words."""
        return tuple(row.xpos for row in self.words)

    def tagged(
        self, column: str, tags: Sequence[str], chances: Sequence[float] | None = None
    ) -> ConlluSentence:
        """The sentence with tags in a column, and their probabilities among the remarks."""
        rows, number = [], 0
        for row in self.rows:
            if row.id.isdecimal():  # multiword tokens and empty nodes have no tag
                row = row._replace(**{column: tags[number]})
                if chances is not None:
                    more = f"TagProbability={chances[number]:.4f}"
                    row = row._replace(misc=more if row.misc == "_" else f"{row.misc}|{more}")
                number += 1
            rows.append(row)
        return ConlluSentence(self.comments, tuple(rows))

    def __str__(self) -> str:
        """The lines of a file, the blank one at the end among them."""
        return "\n".join([*self.comments, *map("\t".join, self.rows)]) + "\n\n"

    def comment(self, key: str) -> str | None:
        """The value in `# key = value`, or None: `comment("sent_id")`."""
        for line in self.comments:
            name, equals, value = line[1:].partition("=")
            if equals and name.strip() == key:
                return value.strip()
        return None


def read_conllu(path: PathLike) -> Iterator[ConlluSentence]:
    """The sentences of a file, one at a time, their row numbers checked to be in order."""
    with Lines(path) as lines:
        yield from _sentences(lines)


def write_conllu(path: PathLike, sentences: Iterable[ConlluSentence]) -> None:
    """Writes sentences as they are; what would not read back the same is a `DataError`."""
    with write_text(path) as stream:
        for sentence in sentences:
            comments, rows = tuple(sentence.comments), tuple(sentence.rows)
            own = ConlluSentence(comments, rows)
            text = str(own)
            if "\r" in text or [*_sentences(text.split("\n"))] != [own]:
                raise DataError(
                    f"{text[:80]!r} has a comment that does not begin with #, or tabs or line ends "
                    "inside cells."
                )
            stream.write(text)


def _sentences(lines: Iterable[str]) -> Iterator[ConlluSentence]:
    comments: list[str] = []
    rows: list[ConlluRow] = []
    for line in chain(lines, [""]):
        if line.startswith("#") and not rows:
            comments.append(line)
        elif line:
            cells = line.split("\t")
            _check_row(cells, rows[-1].id if rows else "0")
            rows.append(ConlluRow(*cells))
        elif rows or comments:
            _check_sentence(rows)
            yield ConlluSentence(tuple(comments), tuple(rows))
            comments, rows = [], []


FIELDS = ConlluRow._fields
_NUMBER = re.compile(r"(\d{1,9})(?:([-.])(\d{1,9}))?", re.ASCII).fullmatch


def _check_row(cells: Sequence[str], previous: str) -> None:
    """Whether a row is complete and may come after the row number `previous`."""
    if len(cells) != len(FIELDS) or "" in cells:
        filled = sum(1 for cell in cells if cell)
        raise DataError(
            f"{filled} filled columns, separated by tabs, where CoNLL-U has {len(FIELDS)} (an "
            "empty one is written `_`; comments may only stand above a sentence's first row)."
        )
    if not _follows(cells[0], previous):
        raise DataError(
            f"row number '{cells[0]}' cannot come after '{previous}': words count from 1, 7-8 "
            "stands before word 7, 7.1 after it. Is a blank line missing between two sentences?"
        )


@lru_cache(maxsize=4096)  # the same few pairs come in every sentence
def _follows(this: str, previous: str) -> bool:
    """Whether a row number may come right after another."""
    before, now = _NUMBER(previous), _NUMBER(this)
    if before is None or now is None:
        return False
    word, kind, minor = int(now[1]), now[2], int(now[3] or 0)
    last = int(before[1])
    if kind == ".":  # 7.1 after 7, 7.2 after 7.1
        return before[2] != "-" and word == last and minor == int(before[3] or 0) + 1
    if before[2] == "-":
        return kind is None and word == last
    return word == last + 1 and (kind is None or minor > word)


def _check_sentence(rows: Sequence[ConlluRow]) -> None:
    """Whether there are rows, and multiword tokens do not overlap."""
    if not rows:
        raise DataError("comments with no sentence below them.")
    covered = 0
    last = rows[-1].id.partition(".")[0]
    for row in rows:
        first, dash, end = row.id.partition("-")
        if dash:
            if int(first) <= covered or "-" in last or int(end) > int(last):
                raise DataError(
                    f"multiword token {row.id} overlaps another or reaches beyond the sentence, "
                    f"whose last word is {last}."
                )
            covered = int(end)

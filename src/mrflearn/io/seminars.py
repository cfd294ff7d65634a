"""Seminar announcements (Freitag 1998): text with inline tags, which may cross one another."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mrflearn.errors import DataError
from mrflearn.io.files import PathLike, located, read_whole, write_text
from mrflearn.io.spans import Span

FIELDS = ("stime", "etime", "location", "speaker")
_FIELD = "|".join(FIELDS)
_TAG = re.compile(rf"<(/?)(?:({_FIELD})|sentence|paragraph)>")
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Seminar:
    """An announcement without its tags, and the fields that were marked in it.

    `marks` are the fields as character spans of `text`, in the order in which they open.  `fields`
    are those marks as token spans: of all tokens that a mark touches.
    """

    text: str
    marks: tuple[Span, ...]
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]  # of each token, in characters of `text`
    fields: tuple[Span, ...]

    @classmethod
    def of(cls, text: str, marks: Iterable[Span]) -> Seminar:
        """An announcement with its tokens (runs of letters and digits, or single signs)."""
        marks = tuple(Span(*mark) for mark in marks)
        found = list(_TOKEN.finditer(text))
        starts = [token.start() for token in found]
        ends = [token.end() for token in found]
        touched = (
            Span(bisect_right(ends, mark.start), bisect_left(starts, mark.end), mark.label)
            for mark in marks
        )
        return cls(
            text=text,
            marks=marks,
            tokens=tuple(token[0] for token in found),
            offsets=tuple(zip(starts, ends, strict=True)),
            fields=tuple(span for span in touched if span.start < span.end),
        )


def read_seminar(path: PathLike) -> Seminar:
    """The announcement in a file; sentence and paragraph tags are taken off and forgotten."""
    with located(path):
        return _parsed(read_whole(path))


def read_seminars(*paths: PathLike) -> Iterator[Seminar]:
    """The announcements of several files; a folder stands for its .txt files in order of name."""
    for path in paths:
        folder = Path(path)
        for file in sorted(folder.glob("*.txt")) if folder.is_dir() else [path]:
            yield read_seminar(file)


def write_seminar(path: PathLike, seminar: Seminar) -> None:
    """Writes an announcement with its fields as inline tags."""
    with write_text(path) as stream:
        tagged = _tagged(seminar)
        if _parsed(tagged) != seminar:
            raise DataError(
                "the announcement would not read back the same: its text has tags in it, a mark is "
                f"of no field ({', '.join(FIELDS)}) or outside the text, or the marks are not in "
                "the order of their beginnings."
            )
        stream.write(tagged)


def _parsed(raw: str) -> Seminar:
    pieces: list[str] = []
    marks: list[Span] = []
    opened: dict[str, tuple[int, int]] = {}  # field -> its place in marks and in the file
    done = length = 0
    for tag in _TAG.finditer(raw):
        pieces.append(raw[done : tag.start()])
        length += tag.start() - done
        done = tag.end()
        field = tag[2]
        if field is None:
            continue
        closing = bool(tag[1])
        if closing != (field in opened):
            problem = "closes but was not open" if closing else "opens inside itself"
            raise _unmatched(field, problem, raw, tag.start())
        if closing:
            index = opened.pop(field)[0]
            marks[index] = marks[index]._replace(end=length)
        else:
            opened[field] = len(marks), tag.start()
            marks.append(Span(length, length, field))
    for field, (_, place) in opened.items():
        raise _unmatched(field, "never closes", raw, place)
    return Seminar.of("".join([*pieces, raw[done:]]), marks)


def _tagged(seminar: Seminar) -> str:
    """The text with tags; where several meet, closing ones come first."""
    tags: list[tuple[int, int, int, str]] = []  # position, closing before opening, order, tag
    for index, (start, end, label) in enumerate(seminar.marks):
        if start == end:
            tags.append((start, 1, index, f"<{label}></{label}>"))
        else:
            tags.append((start, 1, index, f"<{label}>"))
            tags.append((end, 0, -index, f"</{label}>"))
    pieces: list[str] = []
    done = 0
    for position, _, _, tag in sorted(tags):
        pieces += [seminar.text[done:position], tag]
        done = position
    return "".join([*pieces, seminar.text[done:]])


def _unmatched(field: str, problem: str, raw: str, place: int) -> DataError:
    return DataError(
        f"<{field}> {problem}. Each of {', '.join(FIELDS)} must open and close in turn.",
        line=1 + raw.count("\n", 0, place),
    )

"""Feature templates of CRF++ and Wapiti, applied to columns.

A template is a line such as `U05:%x[-1,0]/%x[0,0]` (CRF++) or `u:word=%x[-1,0]` (Wapiti): each
`%x[row,column]` stands for the cell so many tokens away.  Beyond the ends of a sequence stand the
marks of CRF++: `_B-1`, `_B-2` before it, `_B+1`, `_B+2` after it.  A line that begins with `B` or
`b` makes attributes of the transition into the token; if it reads no cells it asks for plain
transitions, which a chain always has.  Wapiti's `*` is `u` and `b` at once; `#` begins a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mrflearn.errors import DataError
from mrflearn.features.index import edge
from mrflearn.io.files import PathLike, read_lines

_CELL = re.compile(r"%x\[\s*(-?\d+)\s*,\s*(\d+)\s*\]")
FARTHEST_DIGITS = 3  # of the distance to a row, and of the number of a column
_OTHER = re.compile(r"%[a-zA-Z]")


@dataclass(frozen=True)
class FeatureTemplate:
    """Texts around cells: text[0] cell[0] text[1] cell[1] ... text[n]; a cell is (row, column)."""

    texts: tuple[str, ...]
    cells: tuple[tuple[int, int], ...]

    def __call__(self, columns: Sequence[Sequence[str]]) -> list[str]:
        """The attribute of each token."""
        length = len(columns[0])
        if not self.cells:
            return [self.texts[0]] * length
        parts: list[Iterable[str]] = [_shifted(columns[c], row) for row, c in self.cells]
        form = self.texts[0] + "".join(f"%s{text}" for text in self.texts[1:])
        return [form % cells for cells in zip(*parts, strict=True)]


@dataclass(frozen=True)
class Templates:
    """The templates of a file, in its order."""

    templates: tuple[FeatureTemplate, ...]

    @classmethod
    def of(cls, lines: Iterable[str]) -> Templates:
        """The templates that the lines of a file hold."""
        return cls(tuple(made for line in lines for made in parse_template(line)))

    @property
    def columns(self) -> int:
        """How many columns the templates need."""
        return 1 + max((c for t in self.templates for _, c in t.cells), default=-1)

    def __call__(self, columns: Sequence[Sequence[str]]) -> list[list[str]]:
        """The attributes of each token of a sentence that is given by columns."""
        if len(columns) < self.columns or not columns:
            raise DataError(
                f"the templates read column {self.columns - 1} (counted from 0), but there are "
                f"{len(columns)} columns."
            )
        made = [template(columns) for template in self.templates]
        return [list(own) for own in zip(*made, strict=True)] or [[] for _ in columns[0]]


def read_template(path: PathLike) -> tuple[str, ...]:
    """The lines of a CRF++ or Wapiti file, each of which is understood."""
    lines = []
    for number, line in read_lines(path):
        try:
            parse_template(line)
        except DataError as error:
            raise DataError(error.problem, path=path, line=number) from None
        lines.append(line)
    return tuple(lines)


def parse_template(line: str) -> list[FeatureTemplate]:
    """The templates of one line; none for blank lines, comments and plain transitions."""
    text = line.strip()
    if not text or text.startswith("#"):
        return []
    cells = tuple((_number(row), _number(column)) for row, column in _CELL.findall(text))
    kind = text[0]
    if kind not in "UuBb*":
        raise DataError(f"'{text}' is no template: it should begin with U, u, B, b or *.")
    texts = tuple(piece.replace("%", "%%") for piece in _CELL.split(text)[::3])
    if other := _OTHER.search(_CELL.sub("", text)):
        raise DataError(f"'{other.group()}' in '{text}': only %x[row,column] is understood.")
    made = []
    if kind in "Uu*":
        made.append(FeatureTemplate(texts, cells) if cells else FeatureTemplate((text,), ()))
    if kind in "Bb*" and cells:
        made.append(FeatureTemplate((edge(texts[0]), *texts[1:]), cells))
    return made


def _number(text: str) -> int:
    if len(text.lstrip("+-0")) > FARTHEST_DIGITS:
        raise DataError(f"{text[:20]} in a template: rows and columns have three digits at most.")
    return int(text)


def _shifted(cells: Sequence[str], row: int) -> list[str]:
    """The cell `row` tokens on from each token; marks beyond the ends."""
    length = len(cells)
    if row < 0:
        before = [f"_B{position}" for position in range(row, 0)]
        return [*before, *cells][:length]
    after = [f"_B+{position}" for position in range(1, row + 1)]
    return [*cells, *after][row : row + length]

"""What answers are made of: a small closed set of blocks, each with a form for programs.

A block is shown in four ways: as text in a terminal (`lines`), in a report (`put_on`), on the page
of `serve` (`shown`), and as JSON (`data`): an answer is one object of all that its blocks hold.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mrflearn import plots
from mrflearn.plots.page import Page, written

WIDTH = 80  # columns of a terminal
NAMED = 40  # variables of a network, each with its name in its node


class Percent(float):
    """A share between 0 and 1, which people read in per cent."""

    def __format__(self, spec: str) -> str:
        return f"{100 * float(self):.2f} %"


class Nats(float):
    """A log-probability, or a difference of such."""

    def __format__(self, spec: str) -> str:
        return f"{float(self):{spec}} nats"


def shares(report: Any, *names: str) -> dict[str, Any]:
    """The shares that a report has under these names; none: precision, recall and F1."""
    wanted = names or ("precision", "recall", "f1")
    return {name: Percent(getattr(report, name)) for name in wanted}


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """One part of an answer, below its title where it has one."""

    title: str = ""
    caption: str = ""  # of a figure
    hidden: ClassVar = False  # from the page of `mrflearn serve`

    def data(self) -> Mapping[str, Any]:
        """What it adds to the answer as one JSON object."""
        return {}

    def lines(self) -> list[str]:
        """The block as lines of a terminal."""
        return []

    def put_on(self, page: Page) -> None:
        """Adds it to a report, its picture drawn."""
        if (figure := self.figure()) is not None:
            page.picture(figure, self.caption)
        elif lines := self.lines():
            page.lines("\n".join(lines))

    def shown(self) -> dict[str, Any]:
        """What the page of `mrflearn serve` needs to show it; nothing where it is not shown."""
        return {} if self.hidden else {"kind": type(self).__name__.lower(), **vars(self)}

    def figure(self) -> Any:
        """The block as a figure of `mrflearn.plots`; None where there is none."""
        return None


@dataclass(frozen=True, eq=False)
class Text(Block):
    """Lines as they stand."""

    text: str

    def lines(self) -> list[str]:
        return [self.text]


@dataclass(frozen=True, eq=False)
class Note(Block):
    """A remark on the answer, and no part of it: a terminal has it on standard error."""

    text: str

    def put_on(self, page: Page) -> None:
        page.text(self.text)


@dataclass(frozen=True, eq=False)
class Data(Block):
    """What programs read, and people see otherwise or not at all."""

    values: Mapping[str, Any]
    hidden: ClassVar = True

    def data(self) -> Mapping[str, Any]:
        return self.values


@dataclass(frozen=True, eq=False)
class Facts(Data):
    """Values by name, for people too; None is not shown to them."""

    floats: str = field(default=".6g", kw_only=True)  # the format of fractions
    hidden: ClassVar = False

    def _rows(self) -> list[list[str]]:
        named = ((name, written(own, self.floats)) for name, own in self.values.items())
        return [[name.replace("_", " "), text] for name, text in named if text]

    def lines(self) -> list[str]:
        return columns(self._rows())

    def put_on(self, page: Page) -> None:
        page.table(("", ""), self._rows())

    def shown(self) -> dict[str, Any]:
        return {**super().shown(), "rows": self._rows()} if not self.hidden else {}


@dataclass(frozen=True, eq=False)
class Table(Block):
    """Rows below a header; with a `key` they are data too, `records` as objects."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]  # texts, numbers, None
    key: str = field(default="", kw_only=True)
    records: bool = field(default=False, kw_only=True)
    floats: str = field(default=".4f", kw_only=True)  # the format of fractions

    def data(self) -> Mapping[str, Any]:
        names = self.header
        rows = [dict(zip(names, row, strict=True)) if self.records else row for row in self.rows]
        return {self.key: rows} if self.key else {}

    def lines(self) -> list[str]:
        cells = [[written(cell, self.floats) or "-" for cell in row] for row in self.rows]
        by_column = zip(*self.rows, strict=True)
        right = [any(isinstance(cell, int | float) for cell in own) for own in by_column]
        return columns([list(self.header), *cells], right) if self.rows else []

    def put_on(self, page: Page) -> None:
        page.table(self.header, self.rows, floats=self.floats)


@dataclass(frozen=True, eq=False)
class Matrix(Block):
    """Numbers as colours, names along both sides, or along the columns alone."""

    rows: Any  # an array of numbers
    names: Sequence[str] = ()
    meaning: str = "coupling"
    signed: bool = True  # else nothing is below zero
    axes: tuple[str, str] = ("", "")  # what rows and columns are
    first: int = 0  # what rows are counted from where there are too many names

    def figure(self) -> Any:
        look: dict[str, Any] = {"first": self.first, "signed": self.signed, "axes": self.axes}
        return plots.draw_heat_map(self.rows, self.names, self.meaning, **look)


@dataclass(frozen=True, eq=False)
class Diagram(Block):
    """Variables by name, and the strengths of the edges between them."""

    names: Sequence[str]
    edges: Any  # an array: the two variables of each
    strengths: Any
    meaning: str
    signed: bool
    columns: int = 0  # of a lattice; 0: by springs, or on a circle where there are many
    faint: Any = None  # edges drawn faintly

    def figure(self) -> Any:
        edges = (self.edges, self.strengths, self.names, self.meaning)
        if not self.columns and len(self.names) <= NAMED:
            return plots.draw_network(*edges, signed=self.signed, faint=self.faint)
        return plots.draw_graph(*edges, signed=self.signed, columns=self.columns)


@dataclass(frozen=True, eq=False)
class Picture(Block):
    """A figure, drawn only where it is looked at."""

    draw: Callable[[], Any]
    hidden: ClassVar = True

    def figure(self) -> Any:
        return self.draw()


@dataclass(frozen=True, eq=False)
class Tokens(Block):
    """Tokens as the cells of their rows, the label of each in every layer, and probabilities."""

    rows: Sequence[Sequence[str]]
    layers: Sequence[Sequence[str]]
    marginals: Sequence[Sequence[Mapping[str, float]]] | None = None  # of each layer and token
    tabs: bool = False  # between cells always, not only where one has a space

    def lines(self) -> list[str]:
        """Rows as in a file: the cells, then of each layer the label and its probability."""
        columns: list[Sequence[str]] = []
        for k, labels in enumerate(self.layers):
            columns.append(labels)
            if self.marginals is not None:
                pairs = zip(labels, self.marginals[k], strict=True)
                columns.append([f"{own[label]:.4f}" for label, own in pairs])
        cells = ([*row, *more] for row, *more in zip(self.rows, *columns, strict=True))
        tabs = self.tabs
        return [*(("\t" if tabs or " " in "".join(row) else " ").join(row) for row in cells), ""]


@dataclass(frozen=True, eq=False)
class TreeDrawing(Block):
    """A tree over a sentence; None where there is none."""

    tree: Any

    def lines(self) -> list[str]:
        return ["()" if self.tree is None else str(self.tree)]

    def shown(self) -> dict[str, Any]:
        if self.tree is None:
            return {"kind": "note", "text": "the grammar cannot produce this sentence"}
        return {"kind": "tree", "title": self.title, "tree": _nested(self.tree)}


def columns(rows: list[list[str]], right: Sequence[bool] = (False, False)) -> list[str]:
    """Aligned cells, numbers to the right; a last column of text is folded at the margin."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for *first, last in rows:
        places = zip(first, widths, right, strict=False)
        start = "".join(f"{c:>{w}}  " if r else f"{c:<{w}}  " for c, w, r in places)
        if right[-1]:
            last = last.rjust(widths[-1])
        elif len(start) + len(last) > WIDTH and len(start) < WIDTH // 2:
            last = f"\n{' ' * len(start)}".join(textwrap.wrap(last, WIDTH - len(start)))
        lines.append((start + last).rstrip())
    return lines


def as_text(blocks: Sequence[Block]) -> str:
    """The lines of an answer; those of a sentence with labels end in a blank one."""
    lines: list[str] = []
    for block in blocks:
        own = block.lines()
        if own and lines and (block.title or isinstance(block, Facts | Table)):
            lines.append("")
        lines += [f"{block.title}:", *own] if own and block.title else own
    return "\n".join(lines)


def add_blocks(page: Page, blocks: Sequence[Block]) -> None:
    """Puts an answer on a page; tables without rows are left out."""
    for block in blocks:
        if not isinstance(block, Table) or block.rows:
            if block.title:
                page.heading(block.title)
            block.put_on(page)


def answer(blocks: Sequence[Block]) -> dict[str, Any]:
    """The answer as one object, for `plain` to make JSON of."""
    return {name: value for block in blocks for name, value in block.data().items()}


def plain(value: Any) -> Any:
    """The value as JSON has it: arrays are lists, infinities and NaN null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(entry) for entry in value]
    return value


def _nested(tree: Any) -> list[Any]:
    if tree.word is not None:
        return [tree.label, tree.word]
    return [tree.label, *map(_nested, tree.children)]

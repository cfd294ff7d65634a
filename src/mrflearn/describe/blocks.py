"""What answers are made of: a small closed set of blocks, each with a form for programs.

A block is shown in four ways: as text in a terminal, in a report, on the served page (`shown`),
and as JSON (`data`): the answer as one object is what its blocks hold by name, put together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LABELS_SHOWN = 4  # of each token on the page, most probable first


class Percent(float):
    """A share between 0 and 1, which people read in per cent."""


class Nats(float):
    """A log-probability, or a difference of such."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """One part of an answer, below its title where it has one."""

    title: str = ""
    caption: str = ""  # of a figure

    def data(self) -> Mapping[str, Any]:
        """What it adds to the answer as one JSON object."""
        return {}

    def shown(self) -> dict[str, Any]:
        """What the page of `mrflearn serve` needs to show it; nothing where it is not shown."""
        return {"kind": type(self).__name__.lower(), **vars(self)}

    def figure(self) -> Any:
        """The block as a figure of `mrflearn.plots`; None where there is none."""
        return None


@dataclass(frozen=True, eq=False)
class Text(Block):
    """Lines as they stand."""

    text: str


@dataclass(frozen=True, eq=False)
class Note(Block):
    """A remark on the answer, and no part of it: a terminal has it on standard error."""

    text: str


@dataclass(frozen=True, eq=False)
class Facts(Block):
    """Values by name; None is not shown."""

    values: Mapping[str, Any]

    def data(self) -> Mapping[str, Any]:
        return self.values


@dataclass(frozen=True, eq=False)
class Data(Block):
    """What programs read, and people see otherwise or not at all."""

    values: Mapping[str, Any]

    def data(self) -> Mapping[str, Any]:
        return self.values

    def shown(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, eq=False)
class Table(Block):
    """Rows below a header; with a `key` they are data too, `records` as objects."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]  # texts, numbers, None
    key: str = field(default="", kw_only=True)
    records: bool = field(default=False, kw_only=True)
    floats: str = field(default=".4f", kw_only=True)  # how numbers that are not whole are written

    def data(self) -> Mapping[str, Any]:
        if not self.key:
            return {}
        if self.records:
            return {self.key: [dict(zip(self.header, row, strict=True)) for row in self.rows]}
        return {self.key: [list(row) for row in self.rows]}


@dataclass(frozen=True, eq=False)
class Matrix(Block):
    """Numbers as colours, names along both sides, or along the columns alone."""

    rows: Any  # an array of numbers
    names: Sequence[str] = ()
    meaning: str = "coupling"
    first: int = 0  # what rows are counted from where there are too many names

    def figure(self) -> Any:
        from mrflearn.plots.fields import draw_heat_map

        return draw_heat_map(self.rows, self.names, self.meaning, first=self.first)


@dataclass(frozen=True, eq=False)
class Network(Block):
    """Variables by name, and the strengths of the edges between them."""

    names: Sequence[str]
    edges: Any  # an array: the two variables of each
    strengths: Any
    meaning: str
    signed: bool

    def figure(self) -> Any:
        from mrflearn.plots.fields import draw_graph

        return draw_graph(self.edges, self.strengths, self.names, self.meaning, signed=self.signed)


@dataclass(frozen=True, eq=False)
class Picture(Block):
    """A figure, drawn only where it is looked at."""

    draw: Callable[[], Any]

    def shown(self) -> dict[str, Any]:
        return {}

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
        return [
            ("\t" if self.tabs or any(" " in own for own in row) else " ").join(row)
            for row in cells
        ]

    def shown(self) -> dict[str, Any]:
        marginals = self.marginals[0] if self.marginals else [{}] * len(self.rows)
        tokens = [
            {"word": row[0], "label": label, "chances": likeliest(own)}
            for row, label, own in zip(self.rows, self.layers[0], marginals, strict=True)
        ]
        return {"kind": "tokens", "title": self.title, "tokens": tokens}


@dataclass(frozen=True, eq=False)
class TreeDrawing(Block):
    """A tree over a sentence; None where there is none."""

    tree: Any

    def shown(self) -> dict[str, Any]:
        if self.tree is None:
            return {"kind": "note", "text": "the grammar cannot produce this sentence"}
        return {"kind": "tree", "title": self.title, "tree": _nested(self.tree)}


def likeliest(marginals: Mapping[str, float]) -> list[tuple[str, float]]:
    """The labels to show, best first."""
    return sorted(marginals.items(), key=lambda pair: -pair[1])[:LABELS_SHOWN]


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

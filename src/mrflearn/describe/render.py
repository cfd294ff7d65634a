"""Blocks as people see them: lines in a terminal, and the page of a report."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mrflearn.describe.blocks import (
    Block,
    Facts,
    Nats,
    Note,
    Percent,
    Table,
    Text,
    Tokens,
    TreeDrawing,
)

if TYPE_CHECKING:
    from mrflearn.plots.page import Page

WIDTH = 80  # columns of a terminal


def as_text(blocks: Sequence[Block]) -> str:
    """The lines of an answer; those of a sentence with labels end in a blank one."""
    lines: list[str] = []
    for block in blocks:
        own = _lines(block)
        if own and lines and (block.title or isinstance(block, Facts | Table)):
            lines.append("")
        lines += [f"{block.title}:"] if own and block.title else []
        lines += own
    return "\n".join(lines)


def _lines(block: Block) -> list[str]:
    match block:
        case Text(text):
            return [text]
        case Facts(values):
            shown = [[_name(name), _value(own)] for name, own in values.items()]
            return columns([row for row in shown if row[1]])
        case Table():
            written = [[_value(cell, block.floats) or "-" for cell in row] for row in block.rows]
            cells = zip(*block.rows, strict=True)
            right = [any(isinstance(cell, int | float) for cell in own) for own in cells]
            return columns([list(block.header), *written], right) if block.rows else []
        case Tokens():
            return [*block.lines(), ""]
        case TreeDrawing(tree):
            return ["()" if tree is None else str(tree)]
    return []


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


def _name(name: str) -> str:
    return name.replace("_", " ")


def _value(value: Any, floats: str = ".6g") -> str:
    """A value as people read it; nothing for None and for what has parts within parts."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            if not math.isfinite(value):
                return "-"
            if isinstance(value, Percent):
                return f"{100 * value:.2f} %"
            return format(value, floats) + (" nats" if isinstance(value, Nats) else "")
        case Mapping():
            some = {name: _value(own) for name, own in value.items() if own is not None}
            return ", ".join(f"{name}={own}" for name, own in some.items())
    return ", ".join(_value(own) for own in value)


def add_blocks(page: Page, blocks: Sequence[Block]) -> None:
    """Puts an answer on a page, its pictures drawn."""
    for block in blocks:
        if isinstance(block, Table) and not block.rows:
            continue
        if block.title:
            page.heading(block.title)
        match block:
            case Note(text):
                page.text(text)
            case Facts(values):
                shown = [(_name(name), _value(own)) for name, own in values.items()]
                page.table(("", ""), [row for row in shown if row[1]])
            case Table():
                rows = [[_cell(cell) for cell in row] for row in block.rows]
                page.table(block.header, rows, floats=block.floats)
            case Text() | Tokens() | TreeDrawing():
                page.lines("\n".join(_lines(block)))
            case _ if (figure := block.figure()) is not None:
                page.picture(figure, block.caption)


def _cell(value: Any) -> Any:
    return _value(value) if isinstance(value, Percent) else value

"""A self-contained page of text, tables and pictures: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from mrflearn.io.files import write_text
from mrflearn.plots.figure import render

Cell = str | int | float | None


@dataclass(eq=False)
class Page:
    """A page that grows from the top."""

    title: str
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """Begins a section."""
        self.parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> None:
        """A paragraph."""
        self.parts.append(f"<p>{escape(text)}</p>")

    def lines(self, text: str) -> None:
        """Text as it stands, such as a command or a bracketed tree."""
        self.parts.append(f"<pre>{escape(text)}</pre>")

    def table(
        self, header: Sequence[str], rows: Sequence[Sequence[Cell]], *, floats: str = ".6g"
    ) -> None:
        """A table; numbers stand to the right, fractions in this format."""
        right = [any(not isinstance(cell, str) for cell in own) for own in zip(*rows, strict=True)]
        kinds = [' class="number"' if own else "" for own in right] or [""] * len(header)
        cells = zip(header, kinds, strict=True)
        head = "".join(f'<th scope="col"{kind}>{escape(cell)}</th>' for cell, kind in cells)
        body = "".join(f"<tr>{''.join(_cell(cell, floats) for cell in row)}</tr>" for row in rows)
        top = f"<tr>{head}</tr>" if any(header) else ""
        kind = "" if top else ' class="facts"'
        table = f"<table{kind}>{top}{body}</table>"
        self.parts.append(f'<div class="scroll" tabindex="0">{table}</div>')

    def picture(self, figure: Any, caption: str) -> None:
        """A figure of `plots`, embedded in the page."""
        stream = io.BytesIO()
        render(figure, stream, "png", dpi=130)
        data = base64.b64encode(stream.getvalue()).decode()
        words = escape(caption)
        image = f'<img alt="{words}" src="data:image/png;base64,{data}">'
        self.parts.append(f"<figure>{image}<figcaption>{words}</figcaption></figure>")

    def html(self) -> str:
        """The page as text."""
        page = Template(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))
        return page.substitute(title=escape(self.title), body="\n".join(self.parts))

    def write(self, path: str | Path) -> None:
        """Writes the file completely or not at all."""
        with write_text(path) as stream:
            stream.write(self.html())


def written(value: Any, floats: str = ".6g") -> str:
    """A value as people read it, fractions in this format; nothing for None."""
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
            return format(value, floats) if math.isfinite(value) else "-"
        case Mapping():
            parts = ((name, written(own)) for name, own in value.items() if own is not None)
            return ", ".join(f"{name}={text}" for name, text in parts)
    return ", ".join(map(written, value))


def _cell(value: Cell, floats: str) -> str:
    kind = "" if isinstance(value, str) else ' class="number"'
    return f"<td{kind}>{escape(written(value, floats) or '-')}</td>"

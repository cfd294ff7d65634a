"""A self-contained page of text, tables and pictures: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from mrflearn.io.files import write_text
from mrflearn.plots.figure import render

STYLE = """
body { margin: 0 auto; max-width: 56rem; padding: 2rem 1.25rem 4rem; color: #22313f;
       background: #fff; font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; max-width: 46rem; }
figure { margin: 1rem 0; }
img { max-width: 100%; height: auto; }
figcaption { color: #566573; font-size: .9rem; max-width: 46rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; margin: .6rem 0; }
th, td { text-align: left; padding: .25rem 1rem .25rem 0; border-bottom: 1px solid #d8dee4;
         vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.facts td.number { text-align: left; }
.facts td:first-child { color: #566573; white-space: nowrap; }
pre { background: #f0f3f5; padding: .8rem; white-space: pre-wrap; border-radius: .4rem; }
"""
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
        """A table; numbers stand to the right, those that are not whole in this format."""
        right = [any(not isinstance(cell, str) for cell in own) for own in zip(*rows, strict=True)]
        kinds = [' class="number"' if own else "" for own in right] or [""] * len(header)
        cells = zip(header, kinds, strict=True)
        head = "".join(f'<th scope="col"{kind}>{escape(cell)}</th>' for cell, kind in cells)
        body = "".join(f"<tr>{''.join(_cell(cell, floats) for cell in row)}</tr>" for row in rows)
        top = f"<tr>{head}</tr>" if any(header) else ""
        kind = "" if top else ' class="facts"'
        self.parts.append(
            f'<div class="scroll" tabindex="0"><table{kind}>{top}{body}</table></div>'
        )

    def picture(self, figure: Any, caption: str) -> None:
        """A figure of `plots`, embedded in the page."""
        stream = io.BytesIO()
        render(figure, stream, "png", dpi=130)
        data = base64.b64encode(stream.getvalue()).decode()
        words = escape(caption)
        self.parts.append(
            f'<figure><img alt="{words}" src="data:image/png;base64,{data}">'
            f"<figcaption>{words}</figcaption></figure>"
        )

    def html(self) -> str:
        """The page as text."""
        title = escape(self.title)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
            + "\n".join(self.parts)
            + "\n</body>\n</html>\n"
        )

    def write(self, path: str | Path) -> None:
        """Writes the file, whole or not at all."""
        with write_text(path) as stream:
            stream.write(self.html())


def _cell(value: Cell, floats: str) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    text = "-" if value is None or math.isnan(value) else format(value, floats)
    return f'<td class="number">{f"{value:,}" if isinstance(value, int) else text}</td>'

"""Answers on standard output, remarks on standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]


def say_json(answer: Mapping[str, Any]) -> None:
    """One JSON object on one line; numbers JSON does not know (infinities, NaN) become null."""
    sys.stdout.write(json.dumps(_plain(answer), ensure_ascii=False, allow_nan=False) + "\n")


def say(text: str = "") -> None:
    """One line of the answer."""
    sys.stdout.write(text + "\n")


def remark(text: str) -> None:
    """One line on what is being done or should be known; never part of the answer."""
    sys.stderr.write(text + "\n")


def say_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns: the first to the left, the others to the right."""
    cells = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    for row in cells:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        say("  ".join([first, *rest]).rstrip())


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    return value

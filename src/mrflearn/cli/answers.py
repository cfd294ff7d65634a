"""Answers on standard output, remarks on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from mrflearn.describe.blocks import plain
from mrflearn.describe.render import columns

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]


def say_json(answer: Mapping[str, Any]) -> None:
    """One JSON object on one line; numbers JSON does not know (infinities, NaN) become null."""
    sys.stdout.write(json.dumps(plain(answer), ensure_ascii=False, allow_nan=False) + "\n")


def say(text: str = "") -> None:
    """One line of the answer."""
    sys.stdout.write(text + "\n")


def remark(text: str) -> None:
    """One line on what is being done or should be known; never part of the answer."""
    sys.stderr.write(text + "\n")


def say_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns: the first to the left, the others to the right."""
    right = [False, *[True] * (len(header) - 1)]
    say("\n".join(columns([list(header), *map(list, rows)], right)))

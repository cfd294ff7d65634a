"""Puts the table of a room's files where a page says `<!-- files: ROOM -->`."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent / "src" / "mrflearn"
MARK = re.compile(r"<!-- files: (\w+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its tables, read off the source as it stands."""
    return MARK.sub(lambda found: files_of(found[1]), markdown)


def files_of(room: str) -> str:
    """A table of the files of a room and the first sentence of each."""
    rows = ["| file | what it is |", "|---|---|"]
    for path in sorted((SOURCE / room).glob("*.py")):
        if path.stem == "__init__":
            continue
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        first = " ".join(text.split("\n\n")[0].split()).replace("|", r"\|")
        rows.append(f"| `{room}/{path.name}` | {first} |")
    return "\n".join(rows)

"""What commands print and write: answers, remarks, pictures, pages."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrflearn.describe.blocks import plain


def say(text: str = "") -> None:
    """One line of the answer."""
    sys.stdout.write(text + "\n")


def say_json(answer: Mapping[str, Any]) -> None:
    """One JSON object on one line; numbers JSON does not know (infinities, NaN) become null."""
    say(json.dumps(plain(answer), ensure_ascii=False, allow_nan=False))


def remark(text: str) -> None:
    """One line on what is being done or should be known, on standard error."""
    sys.stderr.write(text + "\n")


def write_picture(figure: Any, path: Path) -> None:
    """Writes the picture, and says where it is."""
    from mrflearn.plots.figure import save

    save(figure, path)
    remark(f"picture: {path}")


def write_page(model: Any, title: str, path: Path, facts: Mapping[str, Any] | None = None) -> None:
    """Writes all that there is to say of a model; `facts` are what training reported."""
    from mrflearn.describe import describe
    from mrflearn.describe.render import add_blocks
    from mrflearn.plots.page import Page

    page = Page(title)
    add_blocks(page, describe(model).report(facts))
    page.write(path)

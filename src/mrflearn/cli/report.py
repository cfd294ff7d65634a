"""The page that every `mrflearn train` writes beside its model, and `mrflearn inspect --html`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrflearn.cli.answers import remark
from mrflearn.errors import MissingExtraError

REPORT = "report.html"


def write_report(
    model: Any, folder: Path, facts: Mapping[str, Any], *, quiet: bool = False
) -> None:
    """Writes `report.html` into the model's directory; without matplotlib says why it cannot."""
    try:
        write_page(model, folder.resolve().name, folder / REPORT, facts)
    except MissingExtraError as missing:
        remark(f"no {REPORT}: {missing}")
        return
    if not quiet:
        remark(f"report: {folder / REPORT}")


def write_page(model: Any, title: str, path: Path, facts: Mapping[str, Any] | None = None) -> None:
    """Writes all that there is to say of a model; `facts` are what training reported."""
    from mrflearn.describe import describe
    from mrflearn.describe.render import add_blocks
    from mrflearn.plots.page import Page

    page = Page(title)
    add_blocks(page, describe(model).report(facts))
    page.write(path)

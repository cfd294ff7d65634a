"""The page that every `mrflearn train` writes beside its model."""

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
        from mrflearn.plots.model_page import model_page

        model_page(model, folder.resolve().name, facts).write(folder / REPORT)
    except MissingExtraError as missing:
        remark(f"no {REPORT}: {missing}")
        return
    if not quiet:
        remark(f"report: {folder / REPORT}")

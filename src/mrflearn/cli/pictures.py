"""The option --plot: checked before any work is done, and told when the picture is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from mrflearn.cli.answers import remark


def picture_of(what: str) -> Any:
    """The option --plot of a command that can draw this."""
    return typer.Option("--plot", help=f"Draw {what} (.png, .svg, .pdf).", callback=_checked)


def keep(figure: Any, path: Path) -> None:
    """Writes the picture, and says where it is."""
    from mrflearn.plots.figure import save

    save(figure, path)
    remark(f"picture: {path}")


def _checked(path: Path | None) -> Path | None:
    if path is not None:
        from mrflearn.plots.figure import check_picture

        check_picture(path)
    return path

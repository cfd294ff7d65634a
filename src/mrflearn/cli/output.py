"""The option that names the model to write, checked before any training begins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _checked(path: Path) -> Path:
    if path.exists():  # torch, which storage needs, takes long to import where nothing can be wrong
        from mrflearn.models.storage import check_target

        check_target(path)
    return path


Output = Annotated[
    Path,
    typer.Option("--output", "-o", help="The model directory to write.", callback=_checked),
]

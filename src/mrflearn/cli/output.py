"""The options that name the model to write, checked before any training begins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _checked(context: typer.Context, path: Path) -> Path:
    if path.exists():  # torch, which storage needs, takes long to import where nothing can be wrong
        from mrflearn.models.storage import check_target

        # Both are eager, so their values are known here; a resumed training is gone on with.
        replace = context.params.get("overwrite") or context.params.get("resume")
        check_target(path, overwrite=bool(replace))
    return path


Output = Annotated[
    Path,
    typer.Option("--output", "-o", help="The model directory to write.", callback=_checked),
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", is_eager=True, help="Replace a model that is there already."),
]

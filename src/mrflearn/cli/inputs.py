"""Files and models that a command is to read, looked for before any work is done."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import typer

from mrflearn.errors import DataError, StorageError

Given = TypeVar("Given", Path, Path | None, list[Path])
STANDARD_INPUT = Path("-")
MOMENTS = ".moments"


def input_argument(text: str) -> Any:
    """An argument that names one file to read, or several."""
    return typer.Argument(help=text, callback=_found)


def model_argument(text: str) -> Any:
    """An argument that names a model to ask, or several."""
    return typer.Argument(help=text, callback=_found_model)


def input_option(text: str, *names: str) -> Any:
    """An option that names a file to read; a missing one is told now, not after the training."""
    return typer.Option(*names, help=text, callback=_found)


def holds_moments(path: Path) -> bool:
    """Whether the name says that counts stand in the file."""
    return Path(path.name.removesuffix(".gz")).suffix == MOMENTS


def _found(given: Given) -> Given:
    for path in given if isinstance(given, list) else [given]:
        if path is not None and path != STANDARD_INPUT and not path.exists():
            raise DataError(f"there is no such file.{_near(path)}", path=path)
    return given


def _found_model(given: Given) -> Given:
    for path in given if isinstance(given, list) else [given]:
        if path is not None and not path.is_dir():
            what = "is a file" if path.exists() else "does not exist"
            raise StorageError(
                f"{path} {what}; a model is a directory written by `save` or `train`.{_near(path)}"
            )
    return given


def _near(path: Path) -> str:
    """What has a like name beside it, for whoever mistyped."""
    folder = path.parent
    beside = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    close = get_close_matches(path.name, beside, n=1)
    return f" Is {folder / close[0]} meant?" if close else ""

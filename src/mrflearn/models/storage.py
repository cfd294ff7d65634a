"""A model on disk: a directory with `config.json` and `model.safetensors`, written atomically.

Loading reads numbers and text and never executes anything from the directory.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
from torch import Tensor

from mrflearn import __version__
from mrflearn.errors import StorageError

FORMAT = "mrflearn model"
FORMAT_VERSION = 2
CONFIG = "config.json"
TENSORS = "model.safetensors"


@dataclass(frozen=True, eq=False)
class StoredModel:
    """What a model directory holds: the class that wrote it, its settings, and what it learned.

    What was learned is numbers in tensors, and plain values: names, sizes, figures.
    """

    kind: str
    settings: dict[str, Any]
    tensors: dict[str, Tensor]
    learned: dict[str, Any] = field(default_factory=dict)


def write_model(path: str | os.PathLike[str], model: StoredModel) -> None:
    """Writes the directory whole or not at all; replaces an older model of that name."""
    target = Path(path)
    check_target(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            _fill(draft, model)
            draft.chmod(0o755)
            _put_in_place(draft, target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    except (OSError, safetensors.SafetensorError) as error:  # no such place, or the disk is full
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"{target} cannot be written: {reason}.") from error


def check_target(path: str | os.PathLike[str]) -> None:
    """Raises `StorageError` where something stands that is not a model and must not be lost."""
    target = Path(path)
    if target.exists() and not _may_replace(target):
        raise StorageError(
            f"{target} exists and is not a mrflearn model; it is left alone. Choose another name."
        )


def read_model(path: str | os.PathLike[str], *, device: str = "cpu") -> StoredModel:
    """The stored model; `StorageError` says what is wrong with a directory that holds none."""
    folder = Path(path)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise StorageError(f"{folder} {what}; a model is a directory written by `save` or `train`.")
    config = _read_config(folder)
    tensors_path = folder / TENSORS
    if not tensors_path.is_file():
        raise StorageError(f"{folder}: {TENSORS} is missing; was the directory copied in part?")
    try:
        # Memory-mapped: a model of several gigabytes is not held twice.
        tensors = safetensors.torch.load_file(tensors_path, device=device)
    except (safetensors.SafetensorError, OSError) as error:
        raise StorageError(
            f"{tensors_path} is damaged or truncated ({error}). Copy or train the model again."
        ) from error
    expected = {name: list(shape) for name, shape in config["tensors"].items()}
    found = {name: list(tensor.shape) for name, tensor in tensors.items()}
    if expected != found:
        raise StorageError(
            f"{folder}: {CONFIG} and {TENSORS} do not belong together "
            f"({_difference(expected, found)})."
        )
    return StoredModel(config["class"], config["settings"], tensors, config["learned"])


def _fill(folder: Path, model: StoredModel) -> None:
    tensors = {name: value.detach().contiguous().cpu() for name, value in model.tensors.items()}
    config = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "class": model.kind,
        "settings": model.settings,
        "learned": model.learned,
        "tensors": {name: list(value.shape) for name, value in tensors.items()},
    }
    try:
        text = json.dumps(config, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:  # no plain value, or no finite number
        raise StorageError(f"this {model.kind} cannot be stored: {error}.") from error
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    safetensors.torch.save_file(tensors, folder / TENSORS)
    # safetensors lets the owner alone read; whoever may read the one file may read the other.
    (folder / TENSORS).chmod((folder / CONFIG).stat().st_mode)


def _plain(value: Any) -> Any:
    """A number of numpy, such as searches over settings set, as Python's own."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is no plain value")


def _put_in_place(draft: Path, target: Path) -> None:
    # A directory cannot be swapped in one step everywhere: the old model steps aside first, and
    # comes back if the new one cannot take its place.
    if not target.exists():
        draft.rename(target)
        return
    aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.old."))
    target.rename(aside / target.name)
    try:
        draft.rename(target)
    except BaseException:
        (aside / target.name).rename(target)  # where even that fails, it stays aside
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _may_replace(target: Path) -> bool:
    if not target.is_dir():
        return False
    if not any(target.iterdir()):
        return True
    try:
        config = json.loads((target / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and config.get("format") == FORMAT


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StorageError(f"{folder}: no {CONFIG} here; this is not a mrflearn model.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged ({error}).") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise StorageError(f"{path} was not written by mrflearn.")
    if config.get("format_version") != FORMAT_VERSION:
        raise StorageError(
            f"{path} has format version {config.get('format_version')!r}; this library reads "
            f"{FORMAT_VERSION}. Update mrflearn, or train the model again."
        )
    shapes = config.get("tensors")
    sound = (
        isinstance(config.get("class"), str)
        and isinstance(config.get("settings"), dict)
        and isinstance(config.get("learned"), dict)
        and isinstance(shapes, dict)
        and all(isinstance(shape, list) for shape in shapes.values())
    )
    if not sound:
        raise StorageError(
            f"{path} lacks 'class', 'settings', 'learned' or 'tensors'; it was edited."
        )
    return config


def _difference(expected: dict[str, list[int]], found: dict[str, list[int]]) -> str:
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            return f"tensor '{name}': {expected.get(name)} against {found.get(name)}"
    return "no difference"

"""A model on disk: a directory with `config.json` and `model.safetensors`, written atomically.

Loading reads numbers and text and never executes anything from the directory.  `config.json` has
SHA-256 checksums of both files (its own without that checksum), so that damage is noticed.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import safetensors

from mrflearn import __version__
from mrflearn.errors import StorageError
from mrflearn.io.files import (
    check_folder,
    exists,
    joined,
    new_draft,
    plain,
    remove_drafts,
    sync_folder,
    url_of,
)
from mrflearn.io.remote import download, upload

if TYPE_CHECKING:  # a target is checked before torch is needed
    from torch import Tensor

FORMAT = "mrflearn model"
FORMAT_VERSION = 6
CONFIG = "config.json"
TENSORS = "model.safetensors"
LARGEST_EMPTY = 1 << 20  # rows of no columns: a file of any size can say that it has these
Record = TypeVar("Record")


@dataclass(frozen=True, eq=False)
class StoredModel:
    """What a model directory holds: the class that wrote it, its settings, and what it learned.

    What was learned is numbers in tensors, and plain values: names, sizes, figures.
    """

    kind: str
    settings: dict[str, Any]
    tensors: dict[str, Tensor]
    learned: dict[str, Any] = field(default_factory=dict)


def write_model(
    path: str | os.PathLike[str], model: StoredModel, *, overwrite: bool = False
) -> None:
    """Writes the directory, atomically.

    An older model of that name is replaced only with `overwrite`, and in one step where the system
    can exchange two directories (Linux: renameat2, macOS: renamex_np): whoever opens the name
    finds the old model or the new one.  Elsewhere the old one steps aside first, so that the name
    is free for a moment.  What a killed process left beside it is removed.
    """
    if url := url_of(path):
        check_target(url, overwrite=overwrite)
        with tempfile.TemporaryDirectory() as folder:
            write_model(Path(folder, "model"), model)
            upload(str(Path(folder, "model")), url)
        return
    target = Path(os.path.realpath(plain(path)))
    check_target(target, overwrite=overwrite)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():  # else a leftover might be the only model there is
            remove_drafts(target)
        draft, lock = new_draft(target, folder=True)
        try:
            _fill(draft, model)
            draft.chmod(0o755)
            sync_folder(draft)
            _put_in_place(draft, target, overwrite=overwrite)
            sync_folder(target.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)  # the old model, or what was not finished
            os.close(lock)
        remove_drafts(target)
    except (OSError, safetensors.SafetensorError) as error:  # no such place, or the disk is full
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"{target} cannot be written: {reason}.") from error


def check_target(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Raises `StorageError` where something stands that must not be lost, or nothing can stand."""
    if url := url_of(path):
        if exists(url) and not (exists(joined(url, CONFIG)) and overwrite):
            raise StorageError(
                f"{url} exists. Choose another name, or replace a model by overwrite=True."
            )
        return
    target = Path(plain(path))
    check_folder(next(own for own in target.absolute().parents if own.exists()), target)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not _is_model(target):
        raise StorageError(
            f"{target} exists and is not a mrflearn model; it is left alone. Choose another name."
        )
    if not overwrite:
        raise StorageError(
            f"{target} holds a model already. Choose another name, or replace it by overwrite=True."
        )


def read_model(path: str | os.PathLike[str], *, device: str = "cpu") -> StoredModel:
    """The stored model; `StorageError` says what is wrong with a directory that holds none."""
    if url := url_of(path):
        with tempfile.TemporaryDirectory() as copy:
            download(url, copy)
            return read_model(copy, device=device)
    folder = Path(plain(path))
    while True:
        before = _identity(folder)
        # Where another process has just replaced the model, the files may be of two.
        try:
            stored = _read(folder, device)
            if _identity(folder) == before:
                return stored
        except StorageError:
            if _identity(folder) == before:
                raise


def _identity(folder: Path) -> tuple[int, int, int] | None:
    """What is another for another directory of that name."""
    try:
        found = folder.stat()
    except (OSError, ValueError):  # ValueError: a NUL character in the name
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _read(folder: Path, device: str) -> StoredModel:
    from safetensors.torch import load_file

    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise StorageError(f"{folder} {what}; a model is a directory written by `save` or `train`.")
    config = _read_config(folder)
    path = folder / TENSORS
    if not path.is_file():
        raise StorageError(f"{folder}: {TENSORS} is missing; was the directory copied in part?")
    try:
        if _digest(path) != config["sha256"][TENSORS]:
            raise StorageError(
                f"{path} is damaged, or belongs to another model: its checksum is not that in "
                f"{CONFIG}. Copy or train the model again."
            )
        # Memory-mapped: a model of several gigabytes is not held twice.
        tensors = load_file(path, device=device)
    except (safetensors.SafetensorError, OSError) as error:
        raise StorageError(
            f"{path} is damaged or truncated ({error}). Copy or train the model again."
        ) from error
    for name, tensor in tensors.items():
        if not tensor.numel() and math.prod(size or 1 for size in tensor.shape) > LARGEST_EMPTY:
            raise StorageError(f"{path}: '{name}' has the shape {[*tensor.shape]}.")
    return StoredModel(config["class"], config["settings"], tensors, config["learned"])


def texts(learned: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The list of texts of that name; `StorageError` where it is anything else."""
    found = learned[name]
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise StorageError(f"'{name}' should be a list of texts")
    return tuple(found)


def figure(found: Any) -> float:
    """The number; `StorageError` where it is anything else."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise StorageError(f"{found!r:.80} should be a number")
    return found


def record(kind: type[Record], fields: Mapping[str, Any]) -> Record:
    """The dataclass with these fields; `StorageError` where one is of the wrong kind."""
    hints = get_type_hints(kind)
    for name, value in fields.items():
        if name in hints and not fits(value, hints[name]):
            raise StorageError(f"'{name}' of {kind.__name__} is {value!r:.80}")
    return kind(**{n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()})


def fits(value: Any, hint: Any) -> bool:
    """Whether a value of JSON is of a kind: a number, a text, a list or a mapping of such."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, own) for own in inner)
    if origin is Literal:
        return isinstance(value, str)
    if hint in (int, float, bool):  # verbose=1 and max_iterations=1e3 are as good
        return isinstance(value, int | float)
    if hint in (str, NoneType):
        return isinstance(value, hint)
    if origin is tuple and Ellipsis not in inner:
        sized = isinstance(value, list) and len(value) == len(inner)
        return sized and all(map(fits, value, inner))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(fits(own, inner[1]) for own in value.values())
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, list) and all(fits(own, inner[0]) for own in value)
    return hint is Any


def _fill(folder: Path, model: StoredModel) -> None:
    from safetensors.torch import save_file

    tensors = {name: value.detach().contiguous().cpu() for name, value in model.tensors.items()}
    save_file(tensors, folder / TENSORS)
    _sync_file(folder / TENSORS)
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "class": model.kind,
        "settings": model.settings,
        "learned": model.learned,
        "sha256": {TENSORS: _digest(folder / TENSORS)},
    }
    try:
        # What is written is what JSON gives back: tuples are lists, keys are texts.
        config = json.loads(json.dumps(content, allow_nan=False, default=_plain))
        config["sha256"][CONFIG] = _config_digest(config)
        text = json.dumps(config, indent=2, ensure_ascii=False).encode() + b"\n"
    except (TypeError, ValueError) as error:  # no plain value, no finite number, no Unicode text
        raise StorageError(f"this {model.kind} cannot be stored: {error}.") from error
    (folder / CONFIG).write_bytes(text)
    _sync_file(folder / CONFIG)
    # safetensors lets the owner alone read; whoever may read the one file may read the other.
    (folder / TENSORS).chmod((folder / CONFIG).stat().st_mode)


def _config_digest(config: dict[str, Any]) -> str:
    """The checksum of everything in a configuration but the checksum itself."""
    sums = {name: value for name, value in config["sha256"].items() if name != CONFIG}
    text = json.dumps({**config, "sha256": sums}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync_file(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _plain(value: Any) -> Any:
    """A number of numpy, such as searches over settings set, as Python's own."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is no plain value")


def _put_in_place(draft: Path, target: Path, *, overwrite: bool) -> None:
    """The draft under the target's name; what stood there is under the draft's, or is gone."""
    try:
        draft.rename(target)  # nothing is there, or an empty directory
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    check_target(target, overwrite=overwrite)  # it may have come meanwhile
    if _exchange(draft, target):
        return
    # The old model steps aside, and comes back if the new one cannot take its place.
    aside, lock = new_draft(target, folder=True)
    try:
        target.rename(aside / target.name)
        try:
            draft.rename(target)
        except BaseException:
            (aside / target.name).rename(target)  # where even that fails, it stays aside
            aside.rmdir()
            raise
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        os.close(lock)


def _exchange(first: Path, second: Path) -> bool:
    """Exchanges two directories in one step; False where the system cannot."""
    if os.name == "nt":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(first), os.fsencode(second)
    exchange = 2  # RENAME_EXCHANGE, RENAME_SWAP
    if hasattr(libc, "renameat2"):
        here = -100  # AT_FDCWD
        failed = libc.renameat2(here, paths[0], here, paths[1], exchange)
    elif hasattr(libc, "renamex_np"):
        failed = libc.renamex_np(*paths, exchange)
    else:
        return False
    if failed and ctypes.get_errno() not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return not failed


def _is_model(target: Path) -> bool:
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
    version = config.get("format_version")
    if version != FORMAT_VERSION:
        seen = f"{path} has format version {version!r}; this library reads {FORMAT_VERSION}."
        if not isinstance(version, int) or version < FORMAT_VERSION:
            raise StorageError(f"{seen} Train the model again.")
        made = str(config.get("library_version"))[:40]
        raise StorageError(
            f"{seen} It was made by a newer mrflearn ({made}; this is {__version__}). Upgrade: "
            "pip install --upgrade mrflearn."
        )
    kinds = {"class": str, "settings": dict, "learned": dict, "sha256": dict}
    sound = all(isinstance(config.get(name), kind) for name, kind in kinds.items())
    sums: dict[str, Any] = config["sha256"] if sound else {}
    if TENSORS not in sums or sums.get(CONFIG) != _config_digest(config):
        raise StorageError(
            f"{path} is damaged or was edited: it does not have the checksum that was written. "
            "Copy or train the model again."
        )
    return config

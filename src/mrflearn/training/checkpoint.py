"""A training stopped half-way, in one safetensors file whose metadata says what it belongs to."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mrflearn.errors import SettingsError, StorageError, TrainingError
from mrflearn.io.files import PathLike, check_folder, write_binary
from mrflearn.objectives.base import under

FORMAT, VERSION = "mrflearn training checkpoint", 3
KINDS = {torch.float32: "F32", torch.float64: "F64"}
DIGEST = "the digest of the data"
# Settings that say when to stop, not how to move: a resumed training may have others.
LIMITS = {"max_iterations", "max_evaluations", "max_seconds", "epochs", "rounds"}
LIMITS |= {"tolerance", "period", "delta", "patience"}
# What says where a training runs and what it shows, which changes no answer but its rounding.
PLACES = {"device", "n_jobs", "verbose", "progress", "checkpoint", "resume"}


@final
@dataclass(frozen=True)
class Checkpoint:
    """Where a training is saved, and how often beside its end (None: not by that measure)."""

    path: PathLike
    every_iterations: int | None = None
    every_seconds: float | None = 60.0
    data: str = field(default="", repr=False)  # a digest of them, by `on`

    @classmethod
    def on(cls, checkpoint: PathLike | Checkpoint | None, *data: Any) -> Checkpoint | None:
        """The checkpoint of a training on these data and no others; None where there is none.

        Data are tensors, arrays and plain values, in records, lists and mappings.
        """
        if checkpoint is None:
            return None
        known = checkpoint if isinstance(checkpoint, Checkpoint) else cls(checkpoint)
        digest = hashlib.blake2b(digest_size=16)
        _add_up((known.data, *data), digest.update)
        return replace(known, data=digest.hexdigest())

    def due(self, iterations: int, seconds: float) -> bool:
        """Whether to save, so many iterations and seconds after the last time."""
        by_count = self.every_iterations is not None and iterations >= self.every_iterations
        return by_count or (self.every_seconds is not None and seconds >= self.every_seconds)

    def write(self, identity: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Writes the file, atomically.

        Tensors go to it one by one: a history of gradients can be larger than the memory left.
        """
        contents = _contents(tensors)
        belongs_to = {**identity, DIGEST: self.data}
        written = {"identity": json.dumps(belongs_to), "contents": json.dumps(contents)}
        kind = {"format": FORMAT, "version": str(VERSION)}
        header: dict[str, Any] = {"__metadata__": kind | written}
        end = 0
        for name, (dtype, *shape) in contents.items():
            start, end = end, end + tensors[name].numel() * tensors[name].element_size()
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with write_binary(self.path) as stream:
            stream.write(len(text).to_bytes(8, "little") + text)
            for value in tensors.values():
                stream.write(value.detach().cpu().contiguous().numpy().reshape(-1).data)

    def read(self, identity: Mapping[str, Any]) -> dict[str, Tensor]:
        """The tensors of the file, on the host, if it was written for the same identity.

        Raises `TrainingError` that names what differs where it belongs to another training.
        """
        saved, tensors = read_checkpoint(self.path)
        wanted = json.loads(json.dumps({**identity, DIGEST: self.data}))
        pairs = {key: (saved.get(key), wanted.get(key)) for key in {**saved, **wanted}}
        others = [
            f"{key} was {old!r} and is {new!r}" for key, (old, new) in pairs.items() if old != new
        ]
        if others:
            raise TrainingError(
                f"{self.path} is the checkpoint of another training: {'; '.join(others)}. Resume "
                "with the same data and settings, name another checkpoint, or train without resume "
                "to start again, which replaces it."
            )
        return tensors


def checkpoint_of(path: PathLike | Checkpoint | None) -> Checkpoint:
    """Where a training is saved, with the usual settings where a path alone is given.

    Raises where nothing can be written there, or where there is nothing to resume from: now, rather
    than after an hour of training.
    """
    if path is None:
        raise SettingsError("resume needs the checkpoint to go on from: checkpoint='FILE'.")
    checkpoint = path if isinstance(path, Checkpoint) else Checkpoint(path)
    file, folder = Path(checkpoint.path), Path(checkpoint.path).parent
    check_folder(folder, file)
    if file.is_dir():
        raise StorageError(f"{file} is a folder; a checkpoint is one file.")
    if file.suffix == ".gz":
        raise StorageError(f"{file}: checkpoints are not gzipped; use another name.")
    return checkpoint


def _add_up(value: Any, update: Callable[[Any], None]) -> None:
    """Hands out all bytes of a value, each part behind its kind and size."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        update(f"{value.dtype}{value.shape}".encode())
        update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    elif is_dataclass(value):
        used = [own.name for own in fields(value) if own.init and own.name not in LIMITS | PLACES]
        _add_up([(name, getattr(value, name)) for name in used], update)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        parts = list(value.items() if isinstance(value, Mapping) else value)
        update(b"[%d" % len(parts))
        for part in parts:
            _add_up(part, update)
    elif not callable(value):  # a function shows in what it made
        text = repr(value).encode()
        update(b"'%d" % len(text) + text)


@final
class Stages:
    """The checkpoints of trainings that follow each other: FILE, FILE.2, FILE.3 and so on.

    On resuming, trainings that were over end at once with what they had.
    """

    def __init__(self, path: PathLike | Checkpoint | None, resume: bool) -> None:
        self.first = checkpoint_of(path) if path or resume else None
        self.resumes, self.number = resume, 0
        if self.first is not None and not resume:
            # A stage of an earlier training must not be taken for one of this.
            own = Path(self.first.path)
            for later in own.parent.glob(f"{glob.escape(own.name)}.*"):
                if later.suffix.removeprefix(".").isdecimal():
                    later.unlink()

    def next(self) -> tuple[Checkpoint | None, bool]:
        """Where the next training is saved, and whether it goes on from there."""
        self.number += 1
        if self.first is None or self.number == 1:
            return self.first, self.resumes
        path = f"{os.fspath(self.first.path)}.{self.number}"
        return replace(self.first, path=path), self.resumes and Path(path).is_file()


def settings_of(optimiser: Any) -> dict[str, Any]:
    """The optimiser's name and those of its settings that decide how it moves."""
    found = {"optimiser": type(optimiser).__name__}
    for item in fields(optimiser):
        value = getattr(optimiser, item.name)
        if item.name not in LIMITS and not callable(value):
            found[f"optimiser.{item.name}"] = value
    return found


def tensors_of(state: Any) -> dict[str, Tensor]:
    """The fields that make a state: its numbers in one tensor, tensors and records by name."""
    numbers: list[float] = []
    found: dict[str, Tensor] = {}
    for name, value in _fields(state).items():
        if isinstance(value, int | float):
            numbers.append(value)
        elif isinstance(value, Tensor | np.ndarray):
            found[name] = torch.as_tensor(value)
        elif value is not None:
            found |= {f"{name}.{own}": held for own, held in tensors_of(value).items()}
    if numbers:
        found["numbers"] = torch.tensor(numbers, dtype=torch.float64)
    return found


def restore_into(state: Any, tensors: Mapping[str, Tensor]) -> None:
    """Gives a state the fields that `tensors_of` gave, in the memory that it has."""
    numbers = iter(tensors["numbers"].tolist() if "numbers" in tensors else ())
    for name, value in _fields(state).items():
        if isinstance(value, int | float):
            setattr(state, name, type(value)(next(numbers)))
        elif isinstance(value, Tensor | np.ndarray):
            if name in tensors:  # else nothing had been put there
                torch.as_tensor(value)[: len(tensors[name])].copy_(tensors[name])
        elif value is not None:
            restore_into(value, under(f"{name}.", tensors))


def _fields(state: Any) -> dict[str, Any]:
    """The arguments of a dataclass's constructor; what else it holds is made of them."""
    if isinstance(state, dict):
        return state
    return {own.name: getattr(state, own.name) for own in fields(state)}


def read_checkpoint(path: PathLike) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(identity, tensors on the host) of a file that `Checkpoint.write` wrote."""
    if not Path(path).is_file():
        raise StorageError(f"{path}: there is no checkpoint to resume; train without resume first.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Copied to where torch would put them: sums depend on alignment in their last bits.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        if metadata.get("format") != FORMAT:
            raise StorageError(f"{path} is a safetensors file, but no training checkpoint.")
        if metadata.get("version") != str(VERSION):
            raise StorageError(
                f"{path} has checkpoint version {metadata.get('version')}; this library reads "
                f"version {VERSION}. Train without resume to start again."
            )
        if json.loads(metadata["contents"]) != _contents(tensors):
            raise ValueError("names or shapes are not those that were written")
        return dict(json.loads(metadata["identity"])), tensors
    except StorageError:
        raise
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"{path} cannot be read ({error}): it is truncated, damaged, or no checkpoint."
        ) from error


def _contents(tensors: Mapping[str, Tensor]) -> dict[str, list[Any]]:
    """The type and shape under each name, written twice to a file so that damage shows."""
    return {name: [KINDS[value.dtype], *value.shape] for name, value in tensors.items()}

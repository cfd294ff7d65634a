"""Which device the numbers live on, and how precise they are."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch

from mrflearn.errors import SettingsError

Record = TypeVar("Record")
FLOATS = {"float32": torch.float32, "float64": torch.float64}


def choose_device(name: str) -> torch.device:
    """The device called `name`; `auto` is CUDA where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingsError(
            f"no device is called {name!r}; try 'cpu', 'cuda' or 'auto'."
        ) from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError("device 'cuda' was asked for, but torch finds no CUDA GPU; try 'cpu'.")
    return device


def choose_dtype(name: str) -> torch.dtype:
    """The type of numbers called `name`."""
    if name not in FLOATS:
        raise SettingsError(f"dtype {name!r} is not one of {', '.join(FLOATS)}.")
    return FLOATS[name]


def moved(record: Record, device: torch.device | str) -> Record:
    """The same record, all tensors in it on a device."""
    found: Any = record
    if isinstance(record, torch.Tensor):
        found = record.to(device)
    elif isinstance(record, tuple):
        found = tuple(moved(own, device) for own in record)
    elif is_dataclass(record) and not isinstance(record, type):
        own = {part.name: getattr(record, part.name) for part in fields(record)}
        found = replace(record, **{name: moved(value, device) for name, value in own.items()})
    moved_record: Record = found
    return moved_record

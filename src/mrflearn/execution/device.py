"""Which device the numbers live on, and how precise they are."""

from __future__ import annotations

import torch

from mrflearn.errors import SettingsError

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

"""The class that describes each kind of model."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mrflearn.describe import DESCRIPTIONS


def description(kind: str) -> Any:
    """The class of the description of a kind of model."""
    module, _, name = DESCRIPTIONS[kind].partition(":")
    return getattr(import_module(f"mrflearn.describe.{module}"), name)

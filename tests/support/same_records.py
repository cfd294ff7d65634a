"""Equality of records that hold arrays, which `==` compares entry by entry."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def same_records(left: Any, right: Any) -> bool:
    """Whether two records, or sequences of them, are equal through and through."""
    if isinstance(left, np.ndarray):
        return left.shape == right.shape and bool((left == right).all())
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same_records, left, right))
    if is_dataclass(left):
        names = [field.name for field in fields(left)]
        return all(same_records(getattr(left, name), getattr(right, name)) for name in names)
    return bool(left == right)

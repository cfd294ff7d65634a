"""What each kind of model can be asked on the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrflearn.errors import MrflearnError
from mrflearn.kinds import KINDS, found_in
from mrflearn.serving.blocks import Block


@dataclass(frozen=True)
class Task:
    """A question in words: its name, what the field for it says, and who answers it."""

    name: str
    hint: str
    example: str
    answer: Callable[[str], list[Block]]


def tasks_of(model: Any) -> list[Task]:
    """The tasks of a fitted estimator; an error where there are none."""
    kind = type(model).__name__
    if kind not in KINDS:
        raise MrflearnError(f"there is no page for a {kind}.")
    tasks: list[Task] = found_in("serving", KINDS[kind].tasks)(model)
    return tasks

"""What each kind of model can be asked on the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrflearn.errors import DataError, SettingsError
from mrflearn.kinds import KINDS, found_in
from mrflearn.serving.blocks import Block


@dataclass(frozen=True)
class Task:
    """A question in words: its name, what the field for it says, and who answers it.

    `answer` is given between `least` and `most` words, never more: the time and the memory that an
    answer takes are bounded by what the task declares here.
    """

    name: str
    hint: str
    example: str
    answer: Callable[[list[str]], list[Block]]
    most: int
    least: int = 1

    def __call__(self, text: str) -> list[Block]:
        """The answer to a text; an error where it has too few words, or too many."""
        words = text.split()
        if len(words) > self.most:
            raise DataError(
                f"{len(words)} words; '{self.name}' takes at most {self.most} on this page."
            )
        if len(words) < self.least:
            found = f"{len(words)} words" if words else "there are no words in it"
            raise DataError(f"{found}; '{self.name}' takes {self.least} or more.")
        return self.answer(words)


def tasks_of(model: Any) -> list[Task]:
    """The tasks of a fitted estimator; an error where there are none."""
    kind = type(model).__name__
    place = KINDS[kind].tasks if kind in KINDS else None
    if place is None:
        raise SettingsError(f"there is no page for a {kind}.")
    tasks: list[Task] = found_in("serving", place)(model)
    return tasks

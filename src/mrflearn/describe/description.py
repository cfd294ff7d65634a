"""`Description`: what a fitted model learned and what it can be asked, as blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from mrflearn import plots
from mrflearn.describe.blocks import Block, Facts, Note, Picture
from mrflearn.errors import DataError, SettingsError

# The questions of the command line, and the methods that answer them: those that a class has.
_ASKED = ("tag", "fill", "neighbors", "next-word", "parse", "sample", "score", "evaluate")
VERBS = {**{verb: verb.replace("-", "_") for verb in _ASKED}, "inspect": "learned"}
ENTRIES = 15  # of each table of a report
Answers = Iterator[list[Block]]  # one for each sentence, as they come in


class OptionError(SettingsError):
    """Options that do not go together, or a value that an option cannot have."""


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


class Description(ABC):
    """A fitted model, described: a method for each verb that it answers.

    Such a method gives an answer, or several one by one; its parameters are the arguments and
    options of the verb that it reads.  `rows` are read from the file of samples that was named.
    """

    pictures: ClassVar = frozenset[str]()  # verbs with figures in their answers
    ignores: ClassVar = frozenset[str]()  # options that its methods take and have no use for
    settings: ClassVar[tuple[str, ...]] = ()  # arguments of the model among its facts
    objective: ClassVar = "objective, nats"
    curve: ClassVar = ""  # a function of `mrflearn.plots` that draws a history of its own
    curve_shows: ClassVar = "What training minimised, after each pass over the data."

    def __init__(self, model: Any) -> None:
        self.model = model
        self.kind = type(model).__name__

    def facts(self) -> dict[str, Any]:
        """The class and the size of the model."""
        facts = {"class": self.kind, **{name: getattr(self.model, name) for name in self.settings}}
        known = getattr(self.model, "vocabulary_", None)
        return facts if known is None else {**facts, "vocabulary": len(known)}

    @abstractmethod
    def learned(self, n: int) -> list[Block]:
        """What was learned, with at most `n` entries in each table."""

    @abstractmethod
    def tasks(self) -> list[Task]:
        """What can be asked on a page."""

    def training(self) -> list[Block]:
        """How training went, where it took steps."""
        history = self._history()
        if len(history) < 2:
            return []

        def draw() -> Any:
            if self.curve:
                return getattr(plots, self.curve)(history)
            values = [row.value for row in history]
            training = {"training": ([row.evaluations for row in history], values)}
            return plots.draw_curves(training, across="evaluations", upward=self.objective)

        return [Picture(draw, title="Training", caption=self.curve_shows)]

    def _history(self) -> Sequence[Any]:
        return getattr(getattr(self.model, "outcome_", None), "history", ())

    def report(self, facts: Mapping[str, Any] | None = None) -> list[Block]:
        """All that there is to say; `facts` are what training reported."""
        if facts is None and (outcome := getattr(self.model, "outcome_", None)) is not None:
            facts = {"ending": outcome.reason, "seconds": outcome.seconds}
            facts |= {"iterations": outcome.iterations, "objective": outcome.value}
        known = {"model", *self.facts()}  # where the report is, and what it says further down
        plain = {
            name: value
            for name, value in (facts or {}).items()
            if isinstance(value, str | int | float) and name not in known
        }
        first = [Note(f"A {self.kind}. What training reported:"), Facts(plain)] if plain else []
        return [*first, *self.training(), *self.learned(ENTRIES)]


def batches(examples: Any, size: int) -> Iterator[list[Any]]:
    """The examples in lists of this size."""
    stream = iter(examples)
    while part := list(islice(stream, size)):
        yield part

"""`Description`: what a fitted model learned and what it can be asked, as blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from itertools import islice
from typing import Any, ClassVar

from mrflearn import plots
from mrflearn.describe.blocks import Block, Facts, Note, Picture, add_blocks
from mrflearn.errors import DataError, SettingsError
from mrflearn.plots.page import Page

# The questions of the command line, and the methods that answer them: those that a class has.
_ASKED = ("tag", "fill", "neighbors", "next-word", "parse", "sample", "score", "evaluate")
VERBS = {**{verb: verb.replace("-", "_") for verb in _ASKED}, "inspect": "learned"}
ENTRIES = 15  # of each table of a report
FACTS = {"classes_": "labels", "num_attributes_": "attributes"}  # attributes by other names
Blocks = list[Block]  # an answer
Answers = Iterator[Blocks]  # one for each sentence, as they come in


class OptionError(SettingsError):
    """Options that do not go together, or a value that an option cannot have."""


@dataclass(frozen=True)
class Task:
    """A question in words: its name, by which the page explains it, and who answers it.

    `answer` is given between `least` and `most` words, never more (without words where `most` is
    0), and of every option one of the values that it may have: the time and the memory that an
    answer takes are bounded by what the task declares here.
    """

    name: str
    usual: str  # the example where no built-in one will do, if there is one
    answer: Callable[..., Blocks]
    most: int
    least: int = 1
    columns: Sequence[str] = ("word",)  # of each word, with / between them
    options: Mapping[str, tuple[Any, Sequence[Any]]] = field(default_factory=dict)  # usual, all

    def __call__(self, text: str, /, **given: Any) -> Blocks:
        """The answer to a text; an error where it, or an option, is out of bounds."""
        words, options = text.split(), {name: usual for name, (usual, _) in self.options.items()}
        if not min(self.least, self.most) <= len(words) <= self.most:
            bounds = f"'{self.name}' takes {self.least} to {self.most} on this page"
            raise DataError(f"there are {len(words)} words in it; {bounds}.")
        for name, value in given.items():
            values = self.options[name][1] if name in options else ()
            if value not in values:
                raise DataError(f"'{self.name}' does not take {name}={value!r:.40} on this page.")
            options[name] = values[values.index(value)]  # 1, where it was 1.0 or True
        return self.answer(words, **options) if self.most else self.answer(**options)


def parameters(own: type[Description], verb: str) -> set[str]:
    """What the method of a verb reads; one that takes `**more` hands it on to that of its base."""
    methods = (vars(base).get(VERBS[verb]) for base in own.__mro__)
    read: set[str] = {"more"}
    for method in filter(None, methods):
        if "more" in read:
            read = (read - {"more"}) | set(signature(method).parameters)
    return read - {"self", "more"}


class Description(ABC):
    """A fitted model, described: a method for each verb that it answers.

    Such a method gives an answer, or several one by one; its parameters are the arguments and
    options of the verb that it reads.  `rows` are read from the file of samples that was named.
    """

    pictures: ClassVar = frozenset[str]()  # verbs with figures in their answers
    ignores: ClassVar = frozenset[str]()  # options that its methods take and have no use for
    settings: ClassVar[tuple[str, ...]] = ()  # attributes of the model among its facts
    objective: ClassVar = "objective, nats"
    curve_shows: ClassVar = "What training minimised, after each pass over the data."

    def __init__(self, model: Any) -> None:
        self.model = model
        self.kind = type(model).__name__

    def facts(self) -> dict[str, Any]:
        """The class and the size of the model."""
        named = {FACTS.get(name, name.rstrip("_")): name for name in self.settings}
        facts = {name: getattr(self.model, own) for name, own in named.items()}
        facts = {"class": self.kind, **facts}
        outcome = getattr(self.model, "outcome_", None)
        if outcome is not None and outcome.ending in ("limit", "stuck", "interrupted"):
            facts |= {"converged": False, "reason": outcome.reason}
        known = getattr(self.model, "vocabulary_", None)
        return facts if known is None else {**facts, "vocabulary": len(known)}

    @abstractmethod
    def learned(self, n: int) -> Blocks:
        """What was learned, with at most `n` entries in each table."""

    @abstractmethod
    def tasks(self) -> list[Task]:
        """What can be asked on a page."""

    def training(self) -> Blocks:
        """How training went, where it took steps."""
        outcome = getattr(self.model, "outcome_", getattr(self.model, "fit_", None))
        history = getattr(outcome, "history", ())
        picture = Picture(partial(self._curve, history), title="Training", caption=self.curve_shows)
        return [picture] if len(history) > 1 else []

    def _curve(self, history: Sequence[Any]) -> Any:
        evaluations = [row.evaluations for row in history]
        curves = {"training": (evaluations, [row.value for row in history])}
        return plots.draw_curves(curves, across="evaluations", upward=self.objective)

    def page(self, title: str, facts: Mapping[str, Any] | None = None) -> Page:
        """The report as a page."""
        page = Page(title)
        add_blocks(page, self.report(facts))
        return page

    def report(self, facts: Mapping[str, Any] | None = None) -> Blocks:
        """All that there is to say; `facts` are what training reported."""
        if facts is None and (outcome := getattr(self.model, "outcome_", None)) is not None:
            facts = {"ending": outcome.reason, "seconds": outcome.seconds}
            facts |= {"iterations": outcome.iterations, "objective": outcome.value}
        known = {"model", *self.facts()}  # where the report is, and what it says further down
        new = {name: value for name, value in (facts or {}).items() if name not in known}
        plain = {name: own for name, own in new.items() if isinstance(own, str | int | float)}
        first = [Note(f"A {self.kind}. What training reported:"), Facts(plain)] if plain else []
        return [*first, *self.training(), *self.learned(ENTRIES)]


def batches(examples: Any, size: int) -> Iterator[list[Any]]:
    """The examples in lists of this size."""
    stream = iter(examples)
    while part := list(islice(stream, size)):
        yield part

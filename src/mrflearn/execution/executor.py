"""Where independent pieces of work run: here, one after the other, or wherever `map` says.

An executor offers three things: `map`, whose results come in the order of the items; `total`, their
sum; and `map_totals`, for results in parts: the sum of each part is worked on where it was made,
and only what comes of that goes home.  A task is any function of one item; to run outside this
process it must be a function or an object of an importable module (no lambda).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, final

from mrflearn.errors import ExecutionError

Item = TypeVar("Item")
Part = TypeVar("Part")
Result = TypeVar("Result")


class Executor(Protocol):
    """A place to run; sums are made here unless a place can do better."""

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The result for every item, in their order."""
        ...

    def total(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Result:
        """The sum (`+`) of the results; at least one item is needed."""
        return added_up(self.map(task, items))

    def map_totals(
        self,
        task: Callable[[Item], Sequence[Part]],
        items: Iterable[Item],
        finish: Callable[[tuple[int, Part]], Result],
    ) -> Iterator[Result]:
        """`finish` of (k, the sum of every k-th part) for all k, in order."""
        return self.map(finish, enumerate(parts_added_up(self.map(task, items))))


@final
@dataclass(frozen=True)
class Serial(Executor):
    """Runs here, one item after the other."""

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return map(task, items)


def parts_added_up(results: Iterable[Sequence[Part]]) -> list[Part]:
    """The sum of all first parts, of all second ones, and so on."""
    stream = iter(results)
    total: list[Any] = list(next(stream, ()))
    if not total:
        raise ExecutionError("there is nothing to add up: no items were given, or no parts.")
    for result in stream:
        for number, part in enumerate(result):
            total[number] = total[number] + part
    return total


def added_up(results: Iterable[Result]) -> Result:
    """Their sum, from the first to the last, so that it has the same bits wherever they came from.

    Nothing is added in place: a result may be shared with who made it.
    """
    stream = iter(results)
    try:
        total: Any = next(stream)
    except StopIteration:
        raise ExecutionError("there is nothing to add up: no items were given.") from None
    for result in stream:
        total = total + result
    added: Result = total
    return added

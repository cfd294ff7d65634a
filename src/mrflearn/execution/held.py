"""Data that stay where an executor runs: sent once, and made into what tasks need once.

A worker keeps what it made of a block by the block's content.  So any process may serve any task:
one that never had the block, lost it with its predecessor, or gave it up for others makes the same
again from the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import ExecutionError

if TYPE_CHECKING:
    from mrflearn.execution.executor import Executor

Item = TypeVar("Item")
Made = TypeVar("Made")
Part = TypeVar("Part")
Result = TypeVar("Result")
GROWTH = 4  # what is made of a block takes about so many times the bytes of the block


@final
class Store:
    """What a process has made of blocks; the least recently used are given up above `limit` bytes.

    The limit is on GROWTH times the blocks' own bytes; None: half of the memory that is free when
    the store is first used, divided by the cores, since each of them may have a process.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self._kept: OrderedDict[Hashable, tuple[int, Any]] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kept

    def get(self, key: Hashable, make: Callable[[], Any], size: int) -> Any:
        """What `make` made of the block of this key, now or before; `size`: bytes of the block."""
        if key not in self._kept:
            if self.limit is None:
                from mrflearn.execution.resources import available_memory

                self.limit = (available_memory() or 1 << 32) // (2 * (os.cpu_count() or 1))
            taken = GROWTH * size + sum(size for size, _ in self._kept.values())
            while self._kept and taken > self.limit:  # before there are both in memory
                taken -= self._kept.popitem(last=False)[1][0]
            self._kept[key] = GROWTH * size, make()
        self._kept.move_to_end(key)
        return self._kept[key][1]

    def pop(self, key: Hashable) -> Any:
        """What was made of the block of this key, which is given up."""
        return self._kept.pop(key)[1]


STORE = Store()  # of this process


class HeldItem(Protocol):
    """One item of held data: where it is, and what is made of it."""

    def __call__(self) -> Any:
        """What was made of it."""
        ...

    def then(self, make: Any) -> HeldItem:
        """The same with one step more."""
        ...


class Held(Generic[Item]):
    """Items that stay where `place` runs; tasks are sent to them.

    Until `release`, or the end of a `with` block.  What is made of items is made where they are,
    when a task first asks for it.
    """

    def __init__(
        self,
        place: Executor,
        sources: Sequence[HeldItem],
        share: Callable[[Any], Any] = lambda make: make,
        end: Callable[[], object] = lambda: None,
    ) -> None:
        self.place, self._sources, self._share, self._end = place, sources, share, end

    def then(self, make: Callable[[Item], Made]) -> Held[Made]:
        """What is made of every item further; both are released together."""
        shared = self._share(make)
        steps = [source.then(shared) for source in self._sources]
        return Held(self.place, steps, self._share, self._end)

    def map(self, task: Callable[[Item], Result]) -> Iterator[Result]:
        """The result for every item, in their order."""
        return self.place.map(_Asked(task), self._sources)

    def first(self, task: Callable[[Item], Result]) -> Result | None:
        """The result for the first item; None where there is no item."""
        return next(self.map(task), None)

    def total(self, task: Callable[[Item], Result]) -> Result:
        """The sum (`+`) of the results."""
        return self.place.total(_Asked(task), self._sources)

    def map_totals(
        self, task: Callable[[Item], Sequence[Part]], finish: Callable[[tuple[int, Part]], Result]
    ) -> Iterator[Result]:
        """`finish` of (k, the sum of every k-th part of the results) for all k, in order."""
        return self.place.map_totals(_Asked(task), self._sources, finish)

    def release(self) -> None:
        """Gives up the items everywhere."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


@dataclass(frozen=True)
class _Asked(Generic[Result]):
    """A task for what is made of a source."""

    task: Callable[[Any], Result]

    def __call__(self, source: HeldItem) -> Result:
        return self.task(source())


@final
class Here:
    """An item of this process."""

    def __init__(self, item: Any, make: Callable[[Any], Any] | None = None) -> None:
        self.item, self.make = item, make  # of an item that is made of another, that one
        self._made: list[Any] = []

    def __call__(self) -> Any:
        if self.make is None:
            return self.item
        if not self._made:
            self._made.append(self.make(self.item()))
        return self._made[0]

    def then(self, make: Callable[[Any], Any]) -> Here:
        return Here(self, make)


class InFile(NamedTuple):
    """An item in a file, and files of what makes something of it, all named by their content."""

    paths: tuple[Path, ...]

    def __call__(self) -> Any:
        key = tuple(path.name for path in self.paths)
        return STORE.get(key, self.read, self.paths[0].stat().st_size)

    def read(self) -> Any:
        """What was made of it, from the files."""
        found, *makers = (pickle.loads(path.read_bytes()) for path in self.paths)  # noqa: S301 - ours
        return applied(makers, found)

    def then(self, make: Path) -> InFile:
        return InFile((*self.paths, make))


def applied(makers: Iterable[Callable[[Any], Any]], item: Any) -> Any:
    """What one function after the other makes of an item."""
    for make in makers:
        item = make(item)
    return item


def hold_in_files(place: Executor, items: Iterable[Any]) -> Held[Any]:
    """Items held in files of a folder that all processes read, until they are released."""
    folder = tempfile.TemporaryDirectory(prefix="mrflearn-held-")

    def share(item: Any) -> Path:
        content = pickled(item)
        path = Path(folder.name, digest(content))
        if not path.exists():
            path.write_bytes(content)
        return path

    try:
        return Held(place, [InFile((share(item),)) for item in items], share, folder.cleanup)
    except BaseException:
        folder.cleanup()
        raise


def narrowed(own: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in the smallest type that holds each of them as it is, on their way."""
    if not len(own):
        return own
    if own.dtype.kind in "iu":
        kinds = map(np.min_scalar_type, (own.min(), own.max()))
        return own.astype(np.result_type(*kinds))
    for kind in (np.int64, np.float32):
        for some in (own[:64], own):  # mostly the first tell
            with np.errstate(over="ignore", invalid="ignore"):  # what is too large then differs
                small = some.astype(kind)
            if not np.array_equal(small, some):
                break
        else:
            return narrowed(small) if kind is np.int64 else small
    return own


def digest(content: bytes) -> str:
    """A name that only this content has."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def pickled(task: Any) -> bytes:
    """What is sent to another process; an error says what cannot be."""
    try:
        return pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ExecutionError(
            f"the task cannot be sent to another process ({error}). Use a function or a class of "
            "an importable module, not a lambda or a function inside another."
        ) from error

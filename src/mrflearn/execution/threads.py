"""Threads of this process: torch kept to one, or work shared by several with one core each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Self, TypeVar, final

import torch

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block, operations on tensors stay on the calling thread.

    For long sequences of operations of a fraction of a millisecond each: threads would have to
    meet after every one of them, which costs up to ten times the work itself on a busy machine.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@final
class Threads:
    """A pool of `count` threads; inside its `with` block torch itself uses one thread for each.

    Torch's own threads make the many small products of a recursion over positions slower, not
    faster; whole shards of the data in parallel keep every core busy.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(one_thread())
        if self.count > 1:
            self._pool = ThreadPoolExecutor(
                self.count, initializer=torch.set_num_threads, initargs=(1,)
            )
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        self._open.close()

    def map(self, task: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The results in the order of the items."""
        if self._pool is None:
            return [task(item) for item in items]
        return list(self._pool.map(task, items))

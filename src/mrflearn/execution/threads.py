"""Work shared by threads of this process, each of which computes on one core."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar, final

import torch

from mrflearn.errors import MrflearnError

T = TypeVar("T")
R = TypeVar("R")


@final
class Threads:
    """A pool of `count` threads; inside its `with` block torch itself uses one thread for each.

    Torch's own threads make the many small products of a recursion over positions slower, not
    faster; whole shards of the data in parallel keep every core busy.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._before = 0

    def __enter__(self) -> Self:
        self._before = torch.get_num_threads()
        torch.set_num_threads(1)
        if self.count > 1:
            self._pool = ThreadPoolExecutor(
                self.count, initializer=torch.set_num_threads, initargs=(1,)
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        torch.set_num_threads(self._before)

    def map(self, task: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The results in the order of the items."""
        if self._pool is None:
            return [task(item) for item in items]
        return list(self._pool.map(task, items))


def count_cores(wanted: int | None) -> int:
    """How many cores to use: `wanted`, or with None or -1 all that this process may use."""
    if wanted is None or wanted == -1:
        available = getattr(os, "sched_getaffinity", None)
        return len(available(0)) if available else os.cpu_count() or 1
    if wanted < 1:
        raise MrflearnError(f"n_jobs={wanted}: give a number of cores, or -1 for all of them.")
    return wanted

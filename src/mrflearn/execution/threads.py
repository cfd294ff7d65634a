"""Threads of this process: torch kept to one, or work shared by several with one core each.

Torch holds one count of threads for the process, which every thread takes over when it first
computes; from then on OpenMP counts for each thread by itself.  So a block that sets torch's own
count may hand it to threads that somebody else starts meanwhile, for good.  Here only OpenMP's
count of the calling thread is changed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar, final

import torch

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block, operations on tensors stay on the calling thread.

    For long sequences of operations of a fraction of a millisecond each: threads would have to
    meet after every one of them, which costs up to ten times the work itself on a busy machine.
    Not to be held across a `yield`: the caller would compute on one thread, too.
    """
    if torch.get_num_threads() == 1:  # has torch prepare this thread, too, if it is a new one
        yield
        return
    before = _set_mkl_threads()(1)
    try:
        with _openmp().limit(limits=1):
            yield
    finally:
        _set_mkl_threads()(before)


def stay_on_one_thread() -> None:
    """For new threads of a pool: what the calling thread computes stays on it from now on."""
    if torch.get_num_threads() > 1:
        _openmp().limit(limits=1)
        _set_mkl_threads()(1)


@cache
def _openmp() -> Any:
    """The OpenMP libraries of this process; looked for once, when torch has loaded its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="openmp")


@cache
def _set_mkl_threads() -> Callable[[int], int]:
    """Sets MKL's count for the calling thread and gives the one before; 0 is to follow OpenMP's.

    `torch.set_num_threads` sets that count, which from then on goes before OpenMP's.  MKL is a part
    of torch's library on Linux; elsewhere nothing is set.
    """
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        found: Callable[[int], int] = ctypes.CDLL(str(library)).MKL_Set_Num_Threads_Local
    except (OSError, AttributeError):
        return lambda count: count
    return found


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
            self._pool = ThreadPoolExecutor(self.count, initializer=stay_on_one_thread)
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

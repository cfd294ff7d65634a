"""Where independent pieces of work run: here, one after the other, or wherever `map` says.

An executor offers four things: `map`, whose results come in the order of the items; `total`, their
sum; `map_totals`, for results in parts: the sum of each part is worked on where it was made, and
only what comes of that goes home; and `hold`, for items that many tasks are about: they are sent
once.  A task is any function of one item; to run outside this process it must be a function or an
object of an importable module (no lambda).
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import islice
from multiprocessing import current_process, get_context
from operator import add
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, final

from mrflearn.errors import ExecutionError
from mrflearn.execution.held import Held, Here, hold_in_files, pickled

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

    def hold(self, items: Iterable[Any], make: Callable[[Any], Item] | None = None) -> Held[Item]:
        """Items, or what is made of each, kept where tasks run."""
        held: Held[Any] = Held(self, [Here(item) for item in items])
        return held if make is None else held.then(make)

    @property
    def width(self) -> int:
        """In how many pieces work is best cut."""
        return 1


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
        first = next(stream)
    except StopIteration:
        raise ExecutionError("there is nothing to add up: no items were given.") from None
    return reduce(add, stream, first)


UNGUARDED = 86  # how a worker ends that was to start workers itself, while it read the main script
AHEAD = 2  # items handed out before they are needed, for each process


@final
class Processes(Executor):
    """`count` processes (all cores for None) that start on first use and stay until `close`.

    Each computes with `threads` threads.  A task travels once to each process, however many items
    it has.  What a task raises is raised here; Ctrl-C ends the processes with everything else.
    Each process imports the script that was run, whose own work must therefore stand below
    `if __name__ == "__main__":`.
    """

    def __init__(self, count: int | None = None, *, threads: int = 1) -> None:
        # Not above: it imports torch, which workers set up first.
        from mrflearn.execution.resources import count_cores

        self.count = count_cores(-1) if count is None else count
        self.threads = threads
        self._pool: ProcessPoolExecutor | None = None
        if self.count < 1 or threads < 1:
            raise ExecutionError(f"{self.count} processes of {threads} threads can do no work.")

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        pool = self._started()
        with _on_disk(task) as path:
            waiting: deque[Future[Result]] = deque()
            stream = iter(items)
            try:
                for item in islice(stream, AHEAD * self.count):
                    waiting.append(pool.submit(_work, path, item))
                while waiting:
                    result = waiting.popleft().result()
                    waiting.extend(pool.submit(_work, path, item) for item in islice(stream, 1))
                    yield result
            except BrokenProcessPool as broken:
                raise ExecutionError(self._why_broken()) from broken
            except KeyboardInterrupt:
                self._end()
                raise
            finally:
                for future in waiting:
                    future.cancel()

    def hold(self, items: Iterable[Any], make: Callable[[Any], Item] | None = None) -> Held[Item]:
        held = hold_in_files(self, items)
        return held if make is None else held.then(make)

    @property
    def width(self) -> int:
        return AHEAD * self.count

    def close(self) -> None:
        """Ends the processes once their work is done; the next `map` starts new ones."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.close() if kind is None else self._end()

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            if getattr(current_process(), "_inheriting", False):
                raise SystemExit(UNGUARDED)  # the parent says why; Python would, in 60 lines each
            # Forking a process whose threads hold locks can hang; a fresh interpreter cannot.
            context = get_context("spawn")
            self._pool = ProcessPoolExecutor(self.count, context, _prepare, (self.threads,))
        return self._pool

    def _why_broken(self) -> str:
        """What made a worker end, once all have."""
        pool, self._pool = self._pool, None
        workers = list((getattr(pool, "_processes", None) or {}).values())
        if pool is not None:
            pool.shutdown()  # from here on it is known how each of them ended
        if any(worker.exitcode == UNGUARDED for worker in workers):
            return (
                "each process starts by importing the script that was run, and this one starts "
                "processes whenever it is imported. Put the work of the script below "
                '`if __name__ == "__main__":`, and run it again.'
            )
        return (
            "a worker process ended in the middle of its work. Was it killed for memory? Try fewer "
            "processes."
        )

    def _end(self) -> None:
        """Ends the processes at once, work or no work."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


@contextmanager
def _on_disk(task: Callable[..., Any]) -> Iterator[str]:
    """A file that holds the task, so that workers read it once and not with every item."""
    content = pickled(task)
    with tempfile.TemporaryDirectory(prefix="mrflearn-task-") as folder:
        path = Path(folder, "task")
        path.write_bytes(content)
        yield str(path)


def _prepare(threads: int) -> None:
    """What each worker does first."""
    # Ctrl-C reaches all processes of a terminal; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Read when a library is loaded; without torch a task starts sooner.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    if "torch" in sys.modules:  # the script that was run has loaded it
        sys.modules["torch"].set_num_threads(threads)


def _work(path: str, item: Any) -> Any:
    """The result for one item."""
    return _task(path)(item)


@lru_cache(maxsize=1)  # a task comes with many items
def _task(path: str) -> Callable[[Any], Any]:
    with Path(path).open("rb") as stream:
        task: Callable[[Any], Any] = pickle.load(stream)  # noqa: S301 - written by the parent
    return task


def executor_for(jobs: int | None) -> AbstractContextManager[Executor]:
    """`Serial` for None and 1, else that many processes until the block ends; -1 is all cores."""
    if jobs is None or jobs == 1:
        return nullcontext(Serial())
    from mrflearn.execution.resources import count_cores

    return Processes(count_cores(jobs))

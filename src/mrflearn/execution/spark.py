"""Work on a Spark cluster; the only file that imports pyspark.

Workers need Python, this library and Java 17 (for Spark itself); see docs/start/spark.md.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from itertools import chain, pairwise
from typing import Any, Self, TypeVar, final

from mrflearn.errors import ExecutionError, MissingExtraError
from mrflearn.execution.executor import added_up, parts_added_up

Item = TypeVar("Item")
Part = TypeVar("Part")
Result = TypeVar("Result")
Outcome = tuple[bool, Any]  # (False, a result), or (True, the error that was met)
SLICES_PER_CORE = 4  # so that a lost or slow worker costs little
SECONDS_TO_REACH = 10.0  # a master
STANDALONE = "spark://"
MASTERS = re.compile(r"spark://.+|yarn|k8s://.+|local|local\[[^\]]+\]|local-cluster\[[^\]]+\]")


@final
class Spark:
    """The cluster at a master URL: `spark://host:7077`, `yarn`, `k8s://...` or `local[2]`.

    `settings` are Spark's own (`{"spark.executor.memory": "4g"}`).  A master that cannot be reached
    is refused at once; Spark itself starts with the first task, so that what cannot be learned is
    refused before.  A task that raises fails the job at once with its own error; a worker that is
    lost has its work done again by others.
    """

    def __init__(self, master: str, settings: dict[str, str] | None = None) -> None:
        try:
            import pyspark  # noqa: F401
        except ImportError as missing:
            message = "needs Spark and Java 17: pip install 'mrflearn[spark]'"
            raise MissingExtraError(message) from missing
        _reach(master)
        self.master, self.settings = master, dict(settings or {})

    @cached_property
    def _context(self) -> Any:
        """Spark, which starts on first use."""
        from pyspark import SparkConf, SparkContext

        conf = SparkConf().setMaster(self.master).setAppName("mrflearn")
        conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
        for name, value in self.settings.items():
            conf.set(name, value)
        try:
            with _same_ctrl_c():
                context: Any = SparkContext.getOrCreate(conf)
        except Exception as error:  # py4j raises kinds of its own, some of them plain Exceptions
            raise ExecutionError(f"no Spark at {self.master!r}: {_cause(error)}") from error
        context.setLogLevel("ERROR")
        if "PYSPARK_PYTHON" not in os.environ:
            # Spark would take any python3; workers on this machine have the one that runs this.
            context.pythonExec = sys.executable
        return context

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return chain.from_iterable(self._slices(task, items, list))

    def total(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Result:
        """The sum, each slice added up by the worker that made it."""
        sums: list[Result] = self._slices(task, items, added_up)
        return added_up(sums)

    def map_totals(
        self,
        task: Callable[[Item], Sequence[Part]],
        items: Iterable[Item],
        finish: Callable[[tuple[int, Part]], Result],
    ) -> Iterator[Result]:
        """The parts go from worker to worker; the driver, which is one, sees the last results."""
        parts = SLICES_PER_CORE * self._context.defaultParallelism

        def plan(rows: Any, sent: Any) -> Any:
            summed = rows.mapPartitions(partial(_parts, sent)).reduceByKey(_plus, parts)
            return summed.map(partial(_finish, sent))

        answers = self._collect((task, finish), items, plan)
        if not answers:
            raise ExecutionError("there is nothing to add up: no items were given, or no parts.")
        return (result for _, result in sorted(answers, key=lambda answer: answer[0]))

    def close(self) -> None:
        """Leaves the cluster; the next task would start Spark again."""
        if (context := self.__dict__.pop("_context", None)) is not None:
            context.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _slices(self, task: Any, items: Iterable[Any], gather: Callable[..., Any]) -> list[Any]:
        """What `gather` makes of the results of each slice."""

        def plan(rows: Any, sent: Any) -> Any:
            return rows.mapPartitions(partial(_work, sent, gather))

        return self._collect(task, items, plan)

    def _collect(
        self, work: Any, items: Iterable[Any], plan: Callable[[Any, Any], Any]
    ) -> list[Any]:
        """What a plan (of rows, and the work that was sent to all workers) comes to."""
        held = list(items)
        if not held:
            return []
        slices = min(len(held), SLICES_PER_CORE * self._context.defaultParallelism)
        sent = self._context.broadcast(pickle.dumps(work))
        try:
            outcomes: list[Outcome] = plan(self._context.parallelize(held, slices), sent).collect()
        except _failures() as error:
            raise ExecutionError(f"the Spark job failed: {_cause(error)}") from error
        except KeyboardInterrupt:
            self._context.cancelAllJobs()
            raise
        finally:
            sent.destroy()
        for failed, met in outcomes:
            if failed:
                raise met
        return [value for _, value in outcomes]


def _reach(master: str) -> None:
    """An error where a master cannot be, or a standalone one does not listen.

    Spark would print what Java says of the first, and try for a minute to reach the second.
    """
    if not MASTERS.fullmatch(master):
        raise ExecutionError(
            f"no Spark at {master!r}: that is not the URL of a master. Such are spark://HOST:7077, "
            "yarn, k8s://https://HOST:PORT, and local[2] for two cores of this machine."
        )
    if not master.startswith(STANDALONE):
        return
    problem: Exception | None = None
    for address in master.removeprefix(STANDALONE).split(","):  # several stand by for each other
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            problem = ValueError(f"{address!r} has no port. Masters mostly listen at 7077")
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_REACH).close()
        except (OSError, OverflowError) as error:
            problem = error
        else:
            return
    raise ExecutionError(f"no Spark at {master!r}: {problem}.")


@contextmanager
def _same_ctrl_c() -> Iterator[None]:
    """Puts back what Ctrl-C did: a SparkContext replaces it for good, for all later trainings."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _failures() -> tuple[type[Exception], ...]:
    """What Spark raises where a job fails; anything else is a fault of ours, and stays as it is."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped, import-not-found, unused-ignore]
    from pyspark.errors import PySparkException

    return Py4JError, PySparkException, OSError, pickle.PicklingError


# Errors are handed back as values: they come home whole, and Spark does not try three times more
# what cannot succeed.


def _caught(make: Callable[[], Any]) -> Outcome:
    """What comes of it, or the error that was met."""
    try:
        return False, make()
    except Exception as error:
        return True, error


def _work(sent: Any, gather: Callable[..., Any], items: Iterator[Any]) -> Iterator[Outcome]:
    """What one slice comes to, on a worker: the result for each item, or their sum."""
    held = list(items)
    if held:
        yield _caught(lambda: gather(map(_received(sent), held)))


def _parts(sent: Any, items: Iterator[Any]) -> Iterator[tuple[int, Outcome]]:
    """The summed parts of one slice, each with its number."""
    held = list(items)
    if held:
        failed, found = _caught(lambda: parts_added_up(map(_received(sent)[0], held)))
        yield from enumerate((failed, part) for part in ([found] if failed else found))


def _plus(one: Outcome, other: Outcome) -> Outcome:
    """The sum of two parts, or the error that either met."""
    if one[0] or other[0]:
        return one if one[0] else other
    return False, one[1] + other[1]


def _finish(sent: Any, summed: tuple[int, Outcome]) -> Outcome:
    """What is to be made of one sum."""
    number, (failed, part) = summed
    if failed:
        return True, part
    return _caught(lambda: (number, _received(sent)[1]((number, part))))


@lru_cache(maxsize=1)  # a worker may serve several tasks of one job, each with many items
def _received(sent: Any) -> Any:
    """What the driver sent, on a worker, which computes with one thread."""
    import torch

    torch.set_num_threads(1)
    return pickle.loads(sent.value)  # noqa: S301 - sent by the driver


def _cause(error: Exception) -> str:
    """The line of a Java stack trace that says what happened: Python's own error where it has one.

    pyspark ends the traceback of a worker with a blank line, and Java's frames begin with `at`.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    before = [a for a, b in pairwise(lines) if a and not b and not a.startswith("at ")]
    return (before or [line for line in lines if line] or [type(error).__name__])[0]

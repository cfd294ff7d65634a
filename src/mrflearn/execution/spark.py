"""Work on a Spark cluster; the only file that imports pyspark.

Workers need Python, this library and Java 17 (for Spark itself); see docs/start/spark.md.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, Self, TypeVar, final

from mrflearn.errors import ExecutionError, MissingExtraError
from mrflearn.execution.executor import added_up

Item = TypeVar("Item")
Result = TypeVar("Result")
SLICES_PER_CORE = 4  # so that a lost or slow worker costs little


@final
class Spark:
    """The cluster at a master URL: `spark://host:7077`, `yarn`, `k8s://...` or `local[2]`.

    `settings` are Spark's own (`{"spark.executor.memory": "4g"}`).  A task that raises fails the
    job at once with its own error; a worker that is lost has its work done again by others.
    """

    def __init__(self, master: str, settings: dict[str, str] | None = None) -> None:
        try:
            from pyspark import SparkConf, SparkContext
        except ImportError as missing:
            raise MissingExtraError(
                "needs Spark and Java 17: pip install 'mrflearn[spark]'"
            ) from missing
        conf = SparkConf().setMaster(master).setAppName("mrflearn")
        conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
        for name, value in (settings or {}).items():
            conf.set(name, value)
        try:
            self._context: Any = SparkContext.getOrCreate(conf)
        except Exception as error:  # py4j raises kinds of its own, some of them plain Exceptions
            raise ExecutionError(f"no Spark at {master!r}: {_cause(error)}") from error
        self._context.setLogLevel("ERROR")
        if "PYSPARK_PYTHON" not in os.environ:
            # Spark would take any python3; workers on this machine have the one that runs this.
            self._context.pythonExec = sys.executable

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        for part in self._run(task, items, each=True):
            yield from part

    def total(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Result:
        """The sum, each slice added up by the worker that made it."""
        sums: Iterator[Result] = (part[0] for part in self._run(task, items, each=False))
        return added_up(sums)

    def close(self) -> None:
        """Leaves the cluster."""
        self._context.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, task: Any, items: Iterable[Any], *, each: bool) -> list[list[Any]]:
        """The results of every slice: one for each item, or their sum."""
        held = list(items)
        if not held:
            return []
        slices = min(len(held), SLICES_PER_CORE * self._context.defaultParallelism)
        sent = self._context.broadcast(pickle.dumps(task))
        try:
            rows = self._context.parallelize(held, slices)
            answers = rows.mapPartitions(partial(_work, sent, each)).collect()
        except Exception as error:  # py4j's
            raise ExecutionError(f"the Spark job failed: {_cause(error)}") from error
        finally:
            sent.destroy()
        for failed, value in answers:
            if failed:
                raise value
        return [value for _, value in answers]


def _work(task: Any, each: bool, items: Iterator[Any]) -> Iterator[tuple[bool, Any]]:
    """What one slice comes to, on a worker: (False, results), or (True, the error they met).

    An error is handed back as a value: it comes home whole, and Spark does not try three times
    more what cannot succeed.
    """
    import torch

    torch.set_num_threads(1)
    call = pickle.loads(task.value)  # noqa: S301 - sent by the driver
    try:
        results = [call(item) for item in items]
        if results:
            yield False, results if each else [added_up(results)]
    except Exception as error:
        yield True, error


def _cause(error: Exception) -> str:
    """The line of a Java stack trace that says what happened: Python's own error where it has one.

    pyspark ends the traceback of a worker with a blank line, and Java's frames begin with `at`.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    before = [a for a, b in pairwise(lines) if a and not b and not a.startswith("at ")]
    return (before or [line for line in lines if line] or [type(error).__name__])[0]

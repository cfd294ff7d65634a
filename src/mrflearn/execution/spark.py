"""Work on a Spark cluster, by DataFrames alone; with `mrflearn.spark` the only place of pyspark.

Neither SparkContext nor RDDs are used, so Spark Connect serves as well.  Blocks of data are rows
(`block` in a persisted DataFrame); a task is a function of Arrow batches (`mapInArrow`) that holds
what the driver sends.  Answers are rows as well:

    block      rank of the block in the data: all sums run in this order
    part       0, or which part of a result in parts, or which group of blocks
    kind       a result, an error, or a block that this worker has not got
    value      a pickled result or error

Sums have two levels: a worker adds up the items of a block, reducers add up the parts (groups of
blocks) that Spark sorted to them, the driver gets a row for each part.  Every block counts once
however often Spark ran its task (speculation, lost workers), and always in the same place.

Workers need Python, this library and Java 17 (for Spark itself); see docs/start/spark.md.
"""

from __future__ import annotations

import math
import os
import pickle
import re
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, Self, TypeVar, final

from mrflearn.errors import ExecutionError, MissingExtraError
from mrflearn.execution.executor import Executor, added_up, parts_added_up
from mrflearn.execution.held import Held, digest, pickled
from mrflearn.execution.spark_tasks import (
    ANSWER,
    BLOCK,
    ERROR,
    MISSING,
    MOST_BYTES,
    PLACE_BITS,
    Reduce,
    Work,
    group_of,
    packed_rows,
    row_count,
    sizes,
    table_of,
)

Item = TypeVar("Item")
Part = TypeVar("Part")
Result = TypeVar("Result")
SLICES_PER_CORE = 2  # so that a lost or slow worker costs little
FEW = 16  # so many sums of blocks are added up by the driver itself
AS_OBJECTS = 8  # Python's lists of texts take about so many times the bytes of Arrow's
SECONDS_TO_REACH = 10.0  # a master
MASTERS = re.compile(r"spark://.+|sc://.+|yarn|k8s://.+|local|local(-cluster)?\[[^\]]+\]")
PORTS = {"spark://": None, "sc://": 15002}  # what is listened at where the address has no port


@final
class Spark(Executor):
    """A Spark cluster.

    Parameters
    ----------
    cluster
        A `SparkSession` (also of Spark Connect); or the URL of a master (`spark://host:7077`,
        `yarn`, `k8s://...`, `local[2]`) or of a Spark Connect server (`sc://host`); None takes the
        session that runs, or else starts what Spark's own configuration says.
    settings
        Spark's own, for a session that is started here: `{"spark.executor.memory": "4g"}`.

    A master that cannot be reached is refused at once; Spark itself starts with the first task, so
    that what cannot be learned is refused before.  A session that ran before is never stopped.  A
    task that raises fails the job with its own error; what a lost worker was to do others do again.

    """

    def __init__(self, cluster: Any = None, settings: dict[str, str] | None = None) -> None:
        try:
            import pandas  # noqa: F401, ICN001 - pyspark needs it for functions of Arrow batches
            import pyspark  # noqa: F401
        except ImportError as missing:
            message = "needs Spark and Java 17: pip install 'mrflearn[spark]'"
            raise MissingExtraError(message) from missing
        if isinstance(cluster, str):
            _reach(cluster)
        self.cluster, self.settings, self.sent = cluster, dict(settings or {}), 0
        self._ours = False

    @cached_property
    def session(self) -> Any:
        """The SparkSession, which starts on first use."""
        if self.cluster is not None and not isinstance(self.cluster, str):
            return self.cluster
        try:
            with _same_ctrl_c(), _same_python():
                found, self._ours = _session(self.cluster, self.settings)
        except ExecutionError:
            raise
        except Exception as error:  # py4j raises kinds of its own, some of them plain Exceptions
            raise ExecutionError(f"no Spark at {self.cluster!r}: {_cause(error)}") from error
        return found

    @cached_property
    def width(self) -> int:
        """In how many pieces work is best cut."""
        self._rows(self.session.range(1), "id")  # workers have registered once this is done
        return SLICES_PER_CORE * max(1, self._partitions(self.session.range(1 << 16)))

    def map(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return self._sent_once(items, self.width).map(task)

    def total(self, task: Callable[[Item], Result], items: Iterable[Item]) -> Result:
        """The sum, each block added up by the worker that made it."""
        return self._sent_once(items).total(task)

    def map_totals(
        self,
        task: Callable[[Item], Sequence[Part]],
        items: Iterable[Item],
        finish: Callable[[tuple[int, Part]], Result],
    ) -> Iterator[Result]:
        """The parts go from worker to worker; the driver, which is one, sees the last results."""
        return self._sent_once(items).map_totals(task, finish)

    def hold(self, items: Any, make: Callable[[Any], Item] | None = None) -> Held[Item]:
        """Items kept in the memory of the workers; also the rows of a DataFrame.

        Of a DataFrame no row passes through the driver.  `make` is given a `pyarrow.Table` for each
        block, some rows of one partition; they are in the order of `collect` unless there are
        fewer partitions than cores, which are then repartitioned.
        """
        if hasattr(items, "mapInArrow"):
            rows = self._packed(items)
            if len(rows.partitions) < self._cores:
                rows.release(self.session)
                rows = self._packed(items.repartition(self._cores))
            found: Held[Any] = HeldFrame(self, rows, (pickled(table_of),))
        else:
            frame, blocks = self._frame(list(items))
            found = HeldFrame(self, _Rows.persisted(frame, blocks), ())
        return found if make is None else found.then(make)

    def _packed(self, frame: Any) -> _Rows:
        """The rows of a DataFrame in blocks, which are made at once."""
        rows = _Rows.persisted(frame.mapInArrow(packed_rows, BLOCK), [])
        rows.blocks = sorted(self._rows(self.session.table(rows.view).select("block"), "block"))
        return rows

    def collect(self, frame: Any, columns: Sequence[str]) -> Any:
        """Some columns of a DataFrame as a `pyarrow.Table`, if the driver has the memory."""
        from mrflearn.execution.resources import require_memory

        chosen = frame.select(*columns)
        size = sum(self._rows(chosen.mapInArrow(sizes, "size long"), "size"))
        require_memory(
            AS_OBJECTS * size,
            f"collecting the columns {', '.join(columns)} to the driver",
            "Give the driver more memory, or learn from fewer rows.",
        )
        return self._table(chosen)

    def close(self) -> None:
        """Leaves the cluster; the next task would start Spark again."""
        if (session := self.__dict__.pop("session", None)) is not None and self._ours:
            session.stop()
            self._ours = False
        self.__dict__.pop("width", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _cores(self) -> int:
        """In how many pieces work is cut whose results are added up: each travels once."""
        return max(1, self.width // SLICES_PER_CORE)

    def _sent_once(self, items: Iterable[Any], pieces: int | None = None) -> HeldFrame[Any]:
        """Items that one task is about."""
        return HeldFrame(self, _Rows(*self._frame(list(items), pieces)), None)

    def _frame(self, items: list[Any], pieces: int | None = None) -> tuple[Any, list[int]]:
        """A DataFrame of the items in blocks, each in a partition of its own, and their numbers."""
        if not items:
            return None, []
        import pyarrow as pa

        from mrflearn.execution.resources import require_memory

        count = min(len(items), pieces or self._cores)
        cuts = [len(items) * k // count for k in range(count + 1)]
        blocks: list[bytes] = []
        for begin, end in pairwise(cuts):
            blocks += _blocks(items[begin:end])
            require_memory(
                3 * sum(map(len, blocks)) * count // max(1, end * count // len(items)),
                f"sending {len(items):,} items to the cluster from the driver",
                "Hold a DataFrame or the paths of files instead: workers then read them.",
            )
        columns = {"block": range(len(blocks)), "name": map(digest, blocks), "content": blocks}
        self.sent += sum(map(len, blocks))
        table = pa.table({name: pa.array(list(own)) for name, own in columns.items()})
        frame = self.session.createDataFrame(table)
        dealt = _dealt(frame, len(blocks), "block")
        if dealt is None:  # by hash some would have several; this looks at the rows first
            dealt = frame.repartitionByRange(len(blocks), "block")
        return dealt, list(range(len(blocks)))

    def _partitions(self, frame: Any) -> int:
        """How many partitions have rows."""
        rows = frame.selectExpr("true AS there").mapInArrow(row_count, "rows long")
        return len(self._rows(rows, "rows"))

    def _rows(self, frame: Any, *names: str) -> list[Any]:
        """The rows of a DataFrame: values of one column, or tuples of several."""
        table = self._table(frame)
        columns = [table.column(name).to_pylist() for name in names]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def _table(self, frame: Any) -> Any:
        """All of a DataFrame, as a `pyarrow.Table`."""
        session, tag = self.session, f"mrflearn-{uuid.uuid4().hex}"
        session.addTag(tag)
        try:
            return frame.toArrow()
        except _failures() as error:
            raise ExecutionError(f"the Spark job failed: {_cause(error)}") from error
        except KeyboardInterrupt:
            session.interruptTag(tag)
            raise
        finally:
            session.removeTag(tag)


@final
@dataclass
class _Rows:
    """A DataFrame of blocks, and their numbers.

    What is persisted is asked for by the name of a view: Spark Connect would send a plan with all
    data of the driver again and again.
    """

    frame: Any
    blocks: list[int]
    view: str = ""

    @classmethod
    def persisted(cls, frame: Any, blocks: list[int]) -> _Rows:
        if frame is None:
            return cls(frame, blocks)
        view = f"mrflearn_{uuid.uuid4().hex}"
        frame.persist().createOrReplaceTempView(view)
        return cls(frame, blocks, view)

    @property
    def partitions(self) -> set[int]:
        """Those in which there are rows of a DataFrame."""
        return {block >> PLACE_BITS for block in self.blocks}

    def release(self, session: Any) -> None:
        if self.view:
            self.frame.unpersist()
            session.catalog.dropTempView(self.view)
            self.view = ""


@final
class HeldFrame(Held[Item]):
    """Blocks of items in a DataFrame.

    `steps` (pickled functions) make of each what tasks are about; workers keep that in their store,
    and from then on only tasks and names of blocks are sent to them.  None: there is one task,
    nothing is kept.
    """

    def __init__(self, place: Spark, rows: _Rows, steps: tuple[bytes, ...] | None) -> None:
        super().__init__(place, ())
        self.spark, self.rows, self.steps = place, rows, steps
        self._made = False  # whether the workers should have made it

    def then(self, make: Callable[[Any], Any]) -> HeldFrame[Any]:
        return HeldFrame(self.spark, self.rows, (*(self.steps or ()), pickled(make)))

    @property
    def _frame(self) -> Any:
        return self.spark.session.table(self.rows.view) if self.rows.view else self.rows.frame

    @property
    def _blocks(self) -> list[int]:
        """The numbers of all blocks, in order."""
        return self.rows.blocks

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """Under which the items are kept, and what each step made."""
        names = ["items"]
        for step in self.steps or ():
            names.append(digest(names[-1].encode() + step))
        return tuple(names)

    def map(self, task: Callable[[Item], Result]) -> Iterator[Result]:
        return chain.from_iterable(value for *_, value in self._answers(task, list, None))

    def first(self, task: Callable[[Item], Result]) -> Result | None:
        """The result for the first item, of whose block alone the task is done."""
        found = self._answers(task, list, None, asked=self._blocks[:1])
        return next(chain.from_iterable(value for *_, value in found), None)

    def total(self, task: Callable[[Item], Result]) -> Result:
        count = len(self._blocks)
        width = math.isqrt(count) if count > FEW else count or 1
        bounds = self._blocks[::width] if count > FEW else None
        result: Result = added_up(value for *_, value in self._answers(task, added_up, bounds))
        return result

    def map_totals(
        self, task: Callable[[Item], Sequence[Part]], finish: Callable[[tuple[int, Part]], Result]
    ) -> Iterator[Result]:
        found = self._answers(task, parts_added_up, [], finish)
        if not found:
            raise ExecutionError("there is nothing to add up: no items were given, or no parts.")
        return (value for *_, value in found)

    def release(self) -> None:
        self.rows.release(self.spark.session)

    def _answers(
        self,
        task: Callable[[Any], Any],
        gather: Callable[[Iterable[Any]], Any],
        bounds: list[int] | None,
        finish: Callable[[tuple[int, Any]], Any] | None = None,
        asked: list[int] | None = None,
    ) -> list[tuple[int, int, Any]]:
        """(part, block, value) of every answer that comes home, in this order.

        bounds: None where the results of blocks come home; the first block of each group whose
        results are added up; empty where the results are in parts already.  asked: the blocks that
        the task is about; None: all.
        """
        asked = self._blocks if asked is None else asked
        if not asked:
            return []
        keep, spark = self.steps is not None, self.spark
        coming = len(bounds) if bounds else len(asked)
        names = self._names if keep else ()
        summed = gather is added_up and bounds is None
        work = Work(pickled((task, gather)), names, None, bounds, _room(coming), summed)
        # Parts are worked on in the end, once: no worker may then find that it has not got a block.
        sure = not keep or not self._made or finish is not None
        wanted, found = asked, list[tuple[int, int, int, bytes]]()
        while wanted:
            frame = self._frame
            if len(wanted) < len(self._blocks):
                frame = frame.where(f"block IN ({', '.join(map(str, wanted))})")
            if not sure:
                frame = frame.select("block", "name")
            own = replace(work, steps=(self.steps or ()) if sure else None)
            spark.sent += len(own.task) + sum(map(len, own.steps or ()))
            frame = frame.mapInArrow(own, ANSWER)
            if bounds is not None:
                reducers = min(len(bounds) or spark.width, spark.width)
                dealt = _dealt(frame, reducers, "part")
                frame = frame.repartition(reducers, "part") if dealt is None else dealt
                frame = frame.sortWithinPartitions("part", "block")
                frame = frame.mapInArrow(Reduce(pickled(finish), _room(coming)), ANSWER)
            answers = spark._rows(frame, "part", "block", "kind", "value")
            missing = {(part, block) for part, block, kind, _ in answers if kind == MISSING}
            parts = {part for part, _ in missing}
            # Of a group that lacks a block no other sum is there yet: all its blocks are asked.
            wanted = [
                block
                for block in asked
                if (group_of(bounds, block) in parts if bounds else (0, block) in missing)
            ]
            found += [answer for answer in answers if answer[2] != MISSING]
            sure = True
        for *_, kind, value in found:
            if kind == ERROR:
                raise pickle.loads(value)  # noqa: S301 - sent by our own workers
        self._made = self._made or len(asked) == len(self._blocks)
        found.sort(key=itemgetter(0, 1))
        if len({answer[:2] for answer in found}) < len(found):
            raise ExecutionError("Spark handed in the same block twice.")
        return [(part, block, pickle.loads(value)) for part, block, _, value in found]  # noqa: S301


def _dealt(frame: Any, count: int, name: str) -> Any | None:
    """The rows in so many partitions, dealt in turn by the number in a column; None: not here."""
    if not hasattr(frame, "repartitionById"):  # before Spark 4.1
        return None
    return frame.repartitionById(count, frame[name].cast("int"))


def _room(answers: int) -> int:
    """How many bytes each of so many answers may have, so that they all fit into this process."""
    from mrflearn.execution.resources import available_memory

    free = available_memory()
    return 1 << 31 if free is None else min(1 << 31, free // (3 * max(1, answers)))


def _blocks(items: list[Any]) -> Iterator[bytes]:
    """The items, pickled together, in as many blocks as their size asks for."""
    content = pickled(items)
    if len(content) <= MOST_BYTES or len(items) == 1:
        yield content
    else:
        yield from _blocks(items[: len(items) // 2])
        yield from _blocks(items[len(items) // 2 :])


# Where the session comes from.


def _reach(url: str) -> None:
    """An error where a master cannot be, or a standalone one or a server does not listen.

    Spark would print what Java says of the first, and try for a minute to reach the second.
    """
    if not MASTERS.fullmatch(url):
        raise ExecutionError(
            f"no Spark at {url!r}: that is not the URL of a master. Such are spark://HOST:7077, "
            "sc://HOST (Spark Connect), yarn, k8s://https://HOST:PORT, and local[2] for two cores "
            "of this machine."
        )
    kind = next((kind for kind in PORTS if url.startswith(kind)), None)
    if kind is None:
        return
    problem: Exception | None = None
    addresses = re.split("[/;]", url.removeprefix(kind))[0]
    for address in addresses.split(","):  # several stand by for each other
        host, colon, port = address.rpartition(":")
        if not colon and PORTS[kind] is not None:
            host, port = address, str(PORTS[kind])
        if not host or not port.isdecimal():
            problem = ValueError(f"{address!r} has no port. Masters mostly listen at 7077")
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_REACH).close()
        except (OSError, OverflowError) as error:
            problem = error
        else:
            return
    raise ExecutionError(f"no Spark at {url!r}: {problem}.")


def _session(url: str | None, settings: dict[str, str]) -> tuple[Any, bool]:
    """A session, and whether it was started here."""
    if url is not None and url.startswith("sc://"):
        from pyspark.sql.connect.session import SparkSession as Connected

        builder = Connected.builder.remote(url)
        for name, value in settings.items():
            builder = builder.config(name, value)
        return builder.create(), True
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is None and SparkContext._active_spark_context is not None:  # in another thread
        running = SparkSession._instantiatedSession
    if running is not None:
        master = running.conf.get("spark.master", None)
        if url is not None and url != master:
            raise ExecutionError(
                f"no Spark at {url!r}: this process has a session at {master!r} already. Give that "
                "session in place of a URL, or stop it."
            )
        return running, False
    own = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    own |= {"spark.sql.adaptive.enabled": "false"}  # plans here have nothing to adapt
    own |= {"spark.log.level": "ERROR", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    builder = SparkSession.builder.appName("mrflearn")
    for name, value in {**(own if url else {}), **settings}.items():
        builder = builder.config(name, value)
    return (builder.master(url) if url else builder).getOrCreate(), True


@contextmanager
def _same_ctrl_c() -> Iterator[None]:
    """Puts back what Ctrl-C did: Spark replaces it for good, for all later trainings."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def _same_python() -> Iterator[None]:
    """While Spark starts: workers on this machine have the Python that runs this, not any other."""
    name, chosen = "PYSPARK_PYTHON", "PYSPARK_PYTHON" in os.environ
    os.environ.setdefault(name, sys.executable)
    try:
        yield
    finally:
        if not chosen:
            os.environ.pop(name, None)


def _failures() -> tuple[type[Exception], ...]:
    """What Spark raises where a job fails; anything else is a fault of ours, and stays as it is."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped, import-not-found, unused-ignore]
    from pyspark.errors import PySparkException

    found: list[type[Exception]] = [Py4JError, PySparkException, OSError, pickle.PicklingError]
    with suppress(ImportError):
        import grpc

        found.append(grpc.RpcError)
    return tuple(found)


def _cause(error: Exception) -> str:
    """The line of a Java stack trace that says what happened: Python's own error where it has one.

    pyspark ends the traceback of a worker with a blank line, and Java's frames begin with `at`.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    before = [a for a, b in pairwise(lines) if a and not b and not a.startswith("at ")]
    return (before or [line for line in lines if line] or [type(error).__name__])[0]

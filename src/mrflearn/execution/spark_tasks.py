"""What Spark's workers do: blocks made of rows, tasks done for blocks, answers added up.

Errors are handed back as values: they come home whole, and Spark does not try three times more what
cannot succeed.
"""

from __future__ import annotations

import gc
import io
import pickle
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import add, itemgetter
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import ExecutionError, OutOfMemoryError
from mrflearn.execution.held import STORE, applied, digest, narrowed

MOST_BYTES = 1 << 26  # of a block, where it can be cut
MOST_ROWS = 1 << 14  # of a DataFrame in a block
PLACE_BITS = 32  # of the number of a block: its place among those of a partition
RESULT, ERROR, MISSING = range(3)
BLOCK = "block long, name string, content binary"
ANSWER = "block long, part long, kind int, value binary"


def group_of(bounds: Sequence[int] | None, block: int) -> int:
    """Which group a block belongs to."""
    return bisect_right(bounds, block) - 1 if bounds else 0


def packed_rows(batches: Iterable[Any]) -> Iterator[Any]:
    """The rows of a partition in blocks, numbered by partition and place in it."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    number = (context.partitionId() if context is not None else 0) << PLACE_BITS
    held: list[Any] = []

    def packed() -> Any:
        nonlocal number, held
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, held[0].schema) as stream:
            for batch in held:
                stream.write_batch(batch)
        content, held = pickle.dumps([sink.getvalue().to_pybytes()]), []
        own = {"block": [number], "name": [digest(content)], "content": [content]}
        number += 1
        return pa.RecordBatch.from_pydict(own)

    for batch in batches:
        width = max(1, batch.nbytes // max(1, len(batch)))
        step = max(1, min(MOST_ROWS, MOST_BYTES // width))
        for begin in range(0, len(batch), step):
            piece = batch.slice(begin, step)
            rows = sum(map(len, held)) + len(piece)
            if held and (rows > MOST_ROWS or rows * width > MOST_BYTES):
                yield packed()
            held.append(piece)
    if held:
        yield packed()


def row_count(batches: Iterable[Any]) -> Iterator[Any]:
    """How many rows a partition has, if any."""
    import pyarrow as pa

    count = sum(map(len, batches))
    if count:
        yield pa.RecordBatch.from_pydict({"rows": [count]})


def sizes(batches: Iterable[Any]) -> Iterator[Any]:
    """How many bytes each batch has."""
    import pyarrow as pa

    for batch in batches:
        yield pa.RecordBatch.from_pydict({"size": [batch.nbytes]})


def table_of(content: bytes) -> Any:
    """The rows that were packed."""
    import pyarrow as pa

    return pa.ipc.open_stream(content).read_all()


@final
@dataclass(frozen=True)
class Work:
    """One task for every block that a worker is handed.

    task: (task, gather), pickled; names: those of `HeldFrame._names`, none where nothing is kept;
    steps: None where all should have been made; bounds: as in `HeldFrame._answers`; room: the most
    bytes of an answer; summed: whether the answers to the blocks of a partition are added up.
    """

    task: bytes
    names: tuple[str, ...]
    steps: tuple[bytes, ...] | None
    bounds: list[int] | None
    room: int
    summed: bool

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        rows = (row for batch in batches for row in batch.to_pylist())
        if self.summed:
            yield from self._of_partition(rows)
            return
        for row in rows:
            yield _answer_rows(self._of_block(row), row["block"], self.room)

    def _of_partition(self, rows: Iterator[dict[str, Any]]) -> Iterator[Any]:
        """The sum over the blocks of a partition, by the name of the first.

        Where one is missing all are, so that sums are always taken in the same order.
        """
        blocks, total, lost = [], None, False
        for row in rows:
            ((part, kind, value),) = self._of_block(row)
            blocks.append(row["block"])
            if kind == ERROR:
                yield _answer_rows([(part, kind, value)], blocks[-1], self.room)
                return
            lost = lost or kind == MISSING
            total = value if total is None else total + value if not lost else None
        if lost:
            for block in blocks:
                yield _answer_rows([(0, MISSING, None)], block, self.room)
        elif blocks:
            yield _answer_rows([(0, RESULT, total)], blocks[0], self.room)

    def _of_block(self, row: dict[str, Any]) -> list[tuple[int, int, Any]]:
        """(part, kind, value) of every answer."""
        part, key = group_of(self.bounds, row["block"]), (row["name"], *self.names[-1:])
        if self.steps is None and key not in STORE:
            return [(part, MISSING, None)]
        try:
            task, gather = _received(self.task)
            if self.names:
                size = len(row.get("content", b""))
                made = STORE.get(key, lambda: _lasting(self._made(row)), size)
            else:
                made = pickle.loads(row["content"])  # noqa: S301 - sent by the driver
            found = gather(map(task, made))
        except Exception as error:
            return [(part, ERROR, error)]
        if self.bounds == []:
            return [(k, RESULT, own) for k, own in enumerate(found)]
        return [(part, RESULT, found)]

    def _made(self, row: dict[str, Any]) -> list[Any]:
        """What the steps make of the items, from what some of them made before, which is given up.

        Only the last is needed from now on.
        """
        steps = self.steps or ()
        for count in range(len(steps) - 1, -1, -1):
            before = row["name"], self.names[count]
            if before in STORE:
                items = STORE.pop(before)
                break
        else:
            count, items = 0, pickle.loads(row["content"])  # noqa: S301 - sent by the driver
        return [applied(map(_received, steps[count:]), item) for item in items]


def _lasting(made: list[Any]) -> list[Any]:
    """The same, as what the process will have for long.

    pyspark collects garbage after every task, which took a seventh of a second to look through the
    modules alone; what is frozen lives by its count of references.
    """
    gc.collect()
    gc.freeze()
    return made


@final
@dataclass(frozen=True)
class Reduce:
    """The sum of the answers of each part, which come sorted by part and block; then `finish`."""

    finish: bytes
    room: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for part, own in groupby(rows, itemgetter("part")):
            yield self._of_part(part, own)

    def _of_part(self, part: int, rows: Iterator[dict[str, Any]]) -> Any:
        total: Any = None
        first, lost, failed = -1, False, None
        for row in rows:
            lost, first = lost or row["kind"] == MISSING, row["block"] if first < 0 else first
            if row["kind"] == ERROR and failed is None:
                failed = row["value"]
            if lost or failed is not None or row["kind"] != RESULT:
                continue
            own = pickle.loads(row["value"])  # noqa: S301 - sent by another worker
            total = own if total is None else add(total, own)
        if failed is not None:
            return _answer_rows([(part, ERROR, pickle.loads(failed))], first, self.room)  # noqa: S301
        if lost:
            return _answer_rows([(part, MISSING, None)], first, self.room)
        try:
            finish = _received(self.finish)
            answer = part, RESULT, total if finish is None else finish((part, total))
        except Exception as error:
            answer = part, ERROR, error
        return _answer_rows([answer], first, self.room)


def _answer_rows(answers: list[tuple[int, int, Any]], block: int, room: int) -> Any:
    """Answers as an Arrow batch."""
    import pyarrow as pa

    parts, kinds, values = [], [], []
    for part, kind, value in answers:
        content = b"" if kind == MISSING else _content(value)
        if kind == RESULT and len(content) > room:
            kind, content = ERROR, _content(_too_large(len(content), room))
        parts.append(part)
        kinds.append(kind)
        values.append(content)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([block] * len(parts), pa.int64()),
            pa.array(parts, pa.int64()),
            pa.array(kinds, pa.int32()),
            pa.array(values, pa.binary()),
        ],
        names=["block", "part", "kind", "value"],
    )


def _too_large(size: int, room: int) -> OutOfMemoryError:
    from mrflearn.execution.resources import size_in_words

    return OutOfMemoryError(
        f"results of {size_in_words(size)} for each block of data would come to the driver, which "
        f"has {size_in_words(room)} for each. Give the driver more memory, or use fewer parameters."
    )


class _Narrowing(pickle.Pickler):
    """Counts, which are whole numbers, take as many bytes as the largest needs."""

    def reducer_override(self, own: Any) -> Any:
        import torch

        if type(own) is torch.Tensor and own.dtype == torch.float64 and own.device.type == "cpu":
            array = own.detach().numpy().reshape(-1)
            small = narrowed(array)
            if small.dtype != array.dtype and not own.requires_grad:
                return _widened, (small, own.shape)
        return NotImplemented


def _widened(small: NDArray[Any], shape: Sequence[int]) -> Any:
    import torch

    return torch.from_numpy(small.astype(np.float64)).view(shape)


def _content(value: Any) -> bytes:
    """What is sent home; of an error that cannot be pickled, what it says."""
    try:
        stream = io.BytesIO()
        _Narrowing(stream, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
        return stream.getvalue()
    except Exception as error:
        said = value if isinstance(value, Exception) else error
        return pickle.dumps(ExecutionError(f"{type(said).__name__}: {said}"))


@lru_cache(maxsize=8)  # a worker may serve several blocks of one job, each with many items
def _received(content: bytes) -> Any:
    """What the driver sent, on a worker, which computes with one thread."""
    import torch

    torch.set_num_threads(1)
    return pickle.loads(content)  # noqa: S301 - sent by the driver

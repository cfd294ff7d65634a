"""Spark on this machine: 1, 2 and (with as many cores) 4 workers of one core, and no Spark at all.

    make bench-spark                                   # into results/spark.json and the pages
    python benchmarks/spark.py --only crf lap          # some jobs
    python benchmarks/spark.py --only wide             # a 300 x 300 grid from csv shards: memory
    python benchmarks/spark.py --scale 0.1             # smaller data

The same job runs here with one thread and on each cluster, whose workers have done a small part of
it before.  Processor time: of the busiest worker, with Java's.  Sent: what left the ports of the
driver towards the workers in one evaluation, as the kernel counted it (`ss`, where there is one),
for each worker.
Memory: the sum of the peaks of all processes of the driver, and of the largest worker.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests"))

import mrflearn  # noqa: E402
from mrflearn import MarkovField, NgramLanguageModel  # noqa: E402
from mrflearn.execution.executor import Serial  # noqa: E402
from mrflearn.execution.spark import Spark  # noqa: E402
from mrflearn.objectives.distributed import Distributed  # noqa: E402
from support.spark_cluster import LOOPBACK, SparkCluster, why_not  # noqa: E402 - found above

WORDS, LABELS, ITERATIONS = 5_000, 9, 10
SENTENCES, SAMPLES, SIDE, SHARDS = 50_000, 20_000, 100, 8
WIDE_SIDE, WIDE_ROWS, WIDE_SHARDS = 300, 10_000, 2
HEADER = (
    "job", "data", "place", "seconds", "worker cpu s", "s/evaluation", "speed", "sent/parameters",
    "driver MB", "worker MB",
)  # fmt: skip
Text = list[list[str]]


class Done(NamedTuple):
    """One job at one place."""

    seconds: float
    answer: Any
    evaluation: float | None = None  # seconds of the quickest, each but the first
    sent: float | None = None  # bytes to each worker in an evaluation / bytes of the parameters


# Data.


def sentences(count: int) -> tuple[Text, Text]:
    """Words and labels of a hidden Markov chain; few words are frequent, as in real text."""
    draw = np.random.default_rng(0)
    moves = draw.dirichlet(np.full(LABELS, 0.3), LABELS).cumsum(axis=1)
    own = [draw.permutation(WORDS) for _ in range(LABELS)]
    X, y = [], []
    for length in draw.poisson(14, count) + 1:
        chances, rank = draw.random(length), (WORDS ** draw.random(length)).astype(int) - 1
        label, labels = 0, []
        for chance in chances:
            label = min(int(np.searchsorted(moves[label], chance)), LABELS - 1)
            labels.append(label)
        X.append([f"w{own[k][n]}" for k, n in zip(labels, rank, strict=True)])
        y.append([f"L{k}" for k in labels])
    return X, y


def write_bits(folder: Path, side: int, rows: int, count: int, ending: str) -> list[Path]:
    """Files of correlated random bits, `rows` in each."""
    paths = [folder / f"part-{number}.{ending}" for number in range(count)]
    for number, path in enumerate(paths):
        draw = np.random.default_rng(number)
        parts = (bits(draw, min(500, rows - begin), side**2) for begin in range(0, rows, 500))
        if ending == "npy":
            np.save(path, np.concatenate(list(parts)))
            continue
        with path.open("wb") as stream:
            for part in parts:
                cells = np.full((len(part), 2 * side**2), ord(","), dtype=np.uint8)
                cells[:, ::2], cells[:, -1] = part + ord("0"), ord("\n")
                stream.write(cells.tobytes())
    return paths


def bits(draw: np.random.Generator, rows: int, variables: int) -> np.ndarray:
    """Random bits, each of which says something of the one after it."""
    found = draw.integers(0, 2, (rows, variables), dtype=np.uint8)
    found[:, 1:] &= found[:, :-1] | (draw.integers(0, 4, (rows, variables - 1), np.uint8) > 0)
    return found


# Jobs: each at a place, `None` for no Spark.


class Jobs:
    """Data of all jobs; before the work of a job its workers warm up on a small part of them."""

    def __init__(self, folder: Path, scale: float, only: Sequence[str]) -> None:
        self.scale, self.warming = scale, False
        words = bool({"crf", "count", "tag"} & set(only))
        self.X, self.y = sentences(int(SENTENCES * scale)) if words else ([], [])
        self.small: list[Path] = []
        self.large: list[Path] = []
        if "lap" in only:
            self.small = write_bits(folder, SIDE, int(SAMPLES // SHARDS * scale), SHARDS, "npy")
        if "wide" in only:
            self.large = write_bits(folder, WIDE_SIDE, int(WIDE_ROWS * scale), WIDE_SHARDS, "csv")
        self.texts = [folder / f"text-{number}.txt" for number in range(SHARDS)]
        for number, path in enumerate(self.texts):
            lines = (" ".join(own) + "\n" for own in self.X[number::SHARDS])
            path.write_text("".join(lines))
        self.frames: list[Any] = []
        self.tagger: Any = None
        if "tag" in only:
            few = max(1, len(self.X) // 10)
            own = mrflearn.CRF(features="words", c2=1.0, max_iterations=3)
            self.tagger = own.fit(self.X[:few], self.y[:few])

    def on(self, place: Spark, cores: int) -> None:
        """Puts the sentences into the memory of a cluster: a few, and all."""
        import pyarrow as pa

        words, self.frames = pa.list_(pa.string()), []
        for count in (len(self.X) // 20, len(self.X)):
            columns = [pa.array(own[:count], words) for own in (self.X, self.y)]
            frame = place.session.createDataFrame(pa.table(columns, ["words", "labels"]))
            self.frames.append(frame.repartition(cores).persist())
            self.frames[-1].count()

    def amount(self, name: str) -> str:
        """How much data a job has."""
        if name not in ("lap", "wide"):
            return f"{len(self.X):,} sentences"
        shards = len(self.small if name == "lap" else self.large)
        rows = SAMPLES // SHARDS if name == "lap" else WIDE_ROWS
        return f"{shards * int(rows * self.scale):,} samples"

    @property
    def frame(self) -> Any:
        return self.frames[not self.warming]

    def _part(self, files: list[Path]) -> list[Path]:
        return files[: len(files) // 2] if self.warming else files

    def crf(self, place: Cluster | None) -> Done:
        settings: dict[str, Any] = {"features": "words", "c2": 1.0, "max_iterations": ITERATIONS}
        settings["dtype"] = "float64"  # so that all places must find the same
        with timed_evaluations(place) as watch:
            begun = time.perf_counter()
            if place is None:
                fitted = mrflearn.CRF(**settings, n_jobs=1).fit(self.X, self.y)
                outcome = fitted.outcome_
                seconds = time.perf_counter() - begun
                return Done(seconds, outcome.value, outcome.seconds / outcome.evaluations)
            from mrflearn.spark import CRF

            fitted = CRF(**settings).fit(self.frame).fitted
            seconds = time.perf_counter() - begun
        return Done(seconds, fitted.outcome_.value, watch.quickest(), watch.sent())

    def lap(self, place: Cluster | None) -> Done:
        return self._field(place, SIDE, self._part(self.small))

    def wide(self, place: Cluster | None) -> Done:
        return self._field(place, WIDE_SIDE, self.large)

    def _field(self, place: Cluster | None, side: int, shards: list[Path]) -> Done:
        begun = time.perf_counter()
        field = MarkovField(f"grid:{side}x{side}", estimator="lap", l2=0.1, states=2, n_jobs=1)
        field.fit_shards(shards, Serial() if place is None else place.spark)
        return Done(time.perf_counter() - begun, float(np.abs(field.couplings_).sum()))

    def count(self, place: Cluster | None) -> Done:
        begun = time.perf_counter()
        with (Serial() if place is None else place.spark).hold(self._part(self.texts)) as held:
            model = NgramLanguageModel(order=3).fit(held)
        return Done(time.perf_counter() - begun, sum(model.ngrams_))

    def tag(self, place: Cluster | None) -> Done:
        begun = time.perf_counter()
        if place is None:
            tags = self.tagger.predict(self.X)
            return Done(time.perf_counter() - begun, sum(own[0] == "L0" for own in tags))
        from mrflearn.spark import TaggerModel

        tagged = TaggerModel(self.tagger).transform(self.frame)
        found = tagged.filter("prediction[0] = 'L0'").count()
        return Done(time.perf_counter() - begun, found)


# Clusters, and what is measured of them.


class Cluster(NamedTuple):
    """A running one: where the driver listens, and who else computes."""

    spark: Spark
    ports: tuple[int, int]
    master: int
    pids: list[int]

    @property
    def workers(self) -> int:
        return len(self.pids)

    def sent(self) -> int:
        """Bytes that the driver has sent to workers so far."""
        found = 0
        if shutil.which("ss") is None:
            return found
        for port in self.ports:
            words = ["ss", "-tinH", "state", "established", f"sport = :{port}"]
            said = subprocess.run(words, capture_output=True, text=True).stdout
            found += sum(map(int, re.findall(r"bytes_sent:(\d+)", said)))
        return found


class Watch:
    """Seconds and bytes of evaluations."""

    def __init__(self, cluster: Cluster | None) -> None:
        self.cluster, self.seconds, self.bytes = cluster, list[float](), list[int]()
        self.parameters = 0

    def quickest(self) -> float | None:
        return min(self.seconds[1:], default=None)

    def sent(self) -> float | None:
        """Of an evaluation after the first, to each worker, against the parameters."""
        if self.cluster is None or not any(self.bytes) or not self.parameters:
            return None
        return float(np.median(self.bytes[1:])) / (self.cluster.workers * self.parameters)


@contextmanager
def timed_evaluations(cluster: Cluster | None) -> Iterator[Watch]:
    watch, evaluate = Watch(cluster), Distributed.__call__

    def watched(self: Distributed, vector: Any) -> Any:
        before = 0 if cluster is None else cluster.sent()
        begun = time.perf_counter()
        found = evaluate(self, vector)
        watch.seconds.append(time.perf_counter() - begun)
        watch.parameters = vector.numel() * vector.element_size()
        watch.bytes.append(0 if cluster is None else cluster.sent() - before)
        return found

    Distributed.__call__ = watched  # type: ignore[method-assign]
    try:
        yield watch
    finally:
        Distributed.__call__ = evaluate  # type: ignore[method-assign]


def free_ports() -> tuple[int, int]:
    with socket.create_server((LOOPBACK, 0)) as one, socket.create_server((LOOPBACK, 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


@contextmanager
def cluster_of(workers: int, memory: str) -> Iterator[Cluster]:
    """A cluster of so many workers with one core each."""
    ports = free_ports()
    settings = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.port": str(ports[0]),
        "spark.driver.blockManager.port": str(ports[1]),
        "spark.executor.memory": memory,
    }
    with SparkCluster(workers, memory=memory) as cluster, Spark(cluster.url, settings) as place:
        assert place.width  # the workers have registered
        assert cluster.master is not None
        yield Cluster(place, ports, cluster.master.pid, [own.pid for own in cluster.workers])


def peak(pid: int) -> int:
    """The most memory that a process ever had, in MB."""
    with suppress(OSError, TypeError):
        status = Path(f"/proc/{pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]
    return 0


def descendants(pids: Sequence[int]) -> list[int]:
    found, wanted = [], set(pids)
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    while wanted:
        found += wanted
        wanted = {pid for pid, parent in parents.items() if parent in wanted}
    return found


def busiest_worker(cluster: Cluster) -> float:
    """Seconds of processor time that the processes of each worker had; of the one that had most."""
    ticks = [sum(map(_ticks, descendants([pid]))) for pid in cluster.pids]
    return max(ticks) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    """Of a process, and of its children that have ended."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, words[11:15]))
    return 0


def largest_worker(cluster: Cluster) -> int:
    """The peaks of all processes of a worker, Java's among them; of the worker with the most."""
    return max(sum(map(peak, descendants([pid]))) for pid in cluster.pids)


def measured(jobs: Jobs, name: str, cluster: Cluster | None) -> tuple[Done, float, int, int]:
    """One job, processor time of the busiest worker, peak memory of driver and worker in MB."""
    job = getattr(jobs, name)
    if cluster is not None and name != "wide":
        jobs.warming = True
        job(cluster)
        jobs.warming = False
    before = 0.0 if cluster is None else busiest_worker(cluster)
    done: Done = job(cluster)
    where = "no Spark" if cluster is None else f"{cluster.workers} workers"
    sys.stderr.write(f"{name}, {where}: {done.seconds:.1f} s\n")
    if cluster is None:
        return done, 0.0, peak(os.getpid()), 0
    others = set(descendants([cluster.master, *cluster.pids]))
    driver = sum(peak(pid) for pid in descendants([os.getpid()]) if pid not in others)
    return done, busiest_worker(cluster) - before, driver, largest_worker(cluster)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["crf", "lap", "count", "tag", "wide"]
    parser.add_argument("--only", nargs="+", choices=names, default=names[:-1])
    parser.add_argument("--scale", type=float, default=1.0, help="of the data")
    parser.add_argument("--workers", type=int, nargs="+")
    parser.add_argument("--memory", default="2g", help="of Java in each worker")
    options = parser.parse_args()
    missing = why_not()
    if missing:
        sys.exit(missing)
    torch.set_num_threads(1)
    # Java's thorough compiler would take the cores from the workers for the minute that all lasts.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    warnings.simplefilter("ignore", FutureWarning)  # pyspark's of new versions of pandas
    workers = options.workers or [n for n in (1, 2, 4) if n <= (os.cpu_count() or 1)]
    table: dict[str, list[tuple[str, ...]]] = {name: [] for name in options.only}
    answers: dict[str, list[float]] = {name: [] for name in options.only}
    first: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        jobs = Jobs(Path(folder), options.scale, options.only)

        def add(name: str, place: str, found: tuple[Any, ...], base: float | None) -> None:
            done, busy, driver, worker = found
            answers[name].append(done.answer)
            cells = (name, jobs.amount(name), place, f"{done.seconds:.2f}")
            ratio = None if base is None else base / done.seconds
            cells += (_cell(busy or None, ".2f"), _cell(done.evaluation, ".2f"))
            cells += (_cell(ratio, ".2f"), _cell(done.sent, ".2f"), str(driver), str(worker or "-"))
            table[name].append(cells)

        for count in workers:
            with cluster_of(count, options.memory) as cluster:
                if jobs.X:
                    jobs.on(cluster.spark, cluster.workers)
                for name in options.only:
                    found = measured(jobs, name, cluster)
                    first.setdefault(name, found[0].seconds)
                    base = first[name] if count > workers[0] else None
                    add(name, f"{count} worker{'s' * (count > 1)}", found, base)
        for name in options.only:
            if name != "wide":
                add(name, "no Spark", measured(jobs, name, None), first[name])
    rows = [HEADER, *(row for name in options.only for row in table[name])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
    for name, found in answers.items():
        if not np.allclose(found, found[0], rtol=1e-4):
            sys.exit(f"{name}: the answers of the places differ: {found}")


def _cell(figure: float | None, form: str) -> str:
    return "-" if figure is None else format(figure, form)


if __name__ == "__main__":
    main()

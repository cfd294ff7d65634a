"""LAP on a Spark cluster of this machine: one worker against two, and against no Spark at all.

    make bench-spark                                  # a 100 x 100 grid, 80,000 samples in 8 shards
    python benchmarks/spark.py --side 60 --rows 4000  # smaller

Each worker is a process with one core.  A cluster does the same job twice and the second one
counts: by then its workers have started.  Needs pyspark and Java 17 (extra `spark`).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests"))

from mrflearn import MarkovField  # noqa: E402
from mrflearn.execution.executor import Executor, Serial  # noqa: E402
from mrflearn.execution.spark import Spark  # noqa: E402
from support.spark_cluster import SparkCluster, why_not  # noqa: E402 - found by the line above


def write_shards(folder: Path, side: int, rows: int, count: int) -> list[Path]:
    """Files of correlated random bits."""
    paths = [folder / f"part-{number}.npy" for number in range(count)]
    for number, path in enumerate(paths):
        generator = np.random.default_rng(number)
        bits = generator.integers(0, 2, (rows, side * side), dtype=np.uint8)
        noise = generator.integers(0, 4, (rows, side * side - 1), dtype=np.uint8)
        bits[:, 1:] &= bits[:, :-1] | (noise > 0)
        np.save(path, bits)
    return paths


@contextmanager
def cluster_of(workers: int) -> Iterator[Executor]:
    """A cluster of so many workers with one core each."""
    settings = {"spark.driver.host": "127.0.0.1"}
    with SparkCluster(workers=workers) as cluster, Spark(cluster.url, settings) as place:
        yield place


def last_of(jobs: int, place: Executor, side: int, shards: list[Path]) -> tuple[float, np.ndarray]:
    """Seconds of the last of some equal jobs, and its couplings."""
    for number in range(jobs):
        begun = time.perf_counter()
        field = MarkovField(f"grid:{side}x{side}", estimator="lap", l2=0.1)
        field.fit_shards(shards, place)
        seconds = time.perf_counter() - begun
        sys.stderr.write(f"{type(place).__name__}, job {number + 1}: {seconds:.1f} s\n")
    return seconds, field.couplings_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=100)
    parser.add_argument("--rows", type=int, default=10_000, help="of each shard")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    missing = why_not()
    if missing:
        sys.exit(missing)
    torch.set_num_threads(1)
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        shards = write_shards(Path(folder), options.side, options.rows, options.shards)
        answers = []
        for workers in options.workers:
            with cluster_of(workers) as place:
                name = f"{workers} worker{'s' * (workers > 1)}"
                seconds[name], found = last_of(2, place, options.side, shards)
                answers.append(found)
        seconds["this process"], expected = last_of(1, Serial(), options.side, shards)
        if not all(np.array_equal(found, expected) for found in answers):
            sys.exit("the answers of the cluster differ from those of one process")
    first, *_, last = (f"{n} worker{'s' * (n > 1)}" for n in options.workers)
    cliques = 3 * options.side**2 - 2 * options.side
    print(f"{last} are {seconds[first] / seconds[last]:.2f} times as fast as {first}")
    print(f"LAP, {cliques:,} cliques, {options.shards} shards of {options.rows:,} samples:")
    for name, took in seconds.items():
        print(f"  {name}: {took:.1f} s")
    print(f"  (load of the machine at the end: {os.getloadavg()[0]:.1f})")


if __name__ == "__main__":
    main()

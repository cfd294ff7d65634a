"""What both CRF engines do with a problem: data in, an answer out.  Needs numpy alone."""

import json
import os
import resource
import sys
import time
from pathlib import Path

from crf_synthetic import synthetic_sentences


def read_problem():
    """The problem on standard input; this process keeps to as many cores as it says."""
    problem = json.load(sys.stdin)
    available = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, available[: problem["cores"]])
    return problem


def sentences(problem, part):
    """(items, labels) of the sentences of a part, one at a time."""
    if "synthetic" in problem:
        yield from synthetic_sentences(**problem["synthetic"])
        return
    with Path(problem["files"][part]).open() as stream:
        for line in stream:
            sentence = json.loads(line)
            yield sentence["items"], sentence["labels"]


class Clock:
    """Wall and processor seconds of a block."""

    def __enter__(self):
        self.began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_):
        self.wall = time.perf_counter() - self.began[0]
        self.cpu = time.process_time() - self.began[1]


def best_of(times, work):
    """What the work gives, and the least processor seconds it took.

    Tagging is quick and done by one thread, so what else runs here must not count.
    """
    seconds = []
    for _ in range(times):
        with Clock() as clock:
            result = work()
        seconds.append(clock.cpu)
    return result, min(seconds)


def answer(**figures):
    """One line of JSON, with the peak memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**figures, "peak_mb": peak}))

"""What each tagger is asked to do: read tagged sentences, train, tag, say how long it took.

Nothing here depends on any of the measured systems.
"""

import json
import resource
import sys
import time
from pathlib import Path


def read_problem():
    return json.loads(sys.stdin.read())


def sentences(problem, part):
    """(words, tags) of a part."""
    return [json.loads(line) for line in Path(problem["files"][part]).read_text().splitlines()]


def timed(action):
    began = time.perf_counter()
    result = action()
    return result, time.perf_counter() - began


def best_of(times, action):
    runs = [timed(action) for _ in range(times)]
    return runs[0][0], min(seconds for _, seconds in runs)


def answer(**figures):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(figures | {"peak_mb": peak}))

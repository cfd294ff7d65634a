"""Other programs, each asked in a process of its own, and work of ours, timed."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any


def ask_process(
    command: Sequence[str],
    problem: Any = None,
    *,
    seconds: float | None = None,
    threads: int | None = 1,
    prepare: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """What the command prints last, as JSON, or a record with the reason why there is nothing.

    The problem is handed over as JSON on standard input.  threads: of the process, None for as
    many as it takes; prepare: run in the process before the command, to set limits.
    """
    own = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    try:
        done = subprocess.run(
            command,
            input=None if problem is None else json.dumps(problem),
            capture_output=True,
            text=True,
            timeout=seconds,
            preexec_fn=prepare,
            env=os.environ | own,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {seconds} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        return {"error": lines[-1][:120]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def best(action: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Least seconds of a few runs, and what the last one gave."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        answer = action()
        times.append(time.perf_counter() - began)
    return min(times), answer

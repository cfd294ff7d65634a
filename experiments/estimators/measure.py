"""One measurement in a process of its own, so that its memory is its own.

    python measure.py '{"graph": "grid:4x4", "estimator": "pl", ...}'

prints one JSON object.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mrflearn import MarkovField
from mrflearn.errors import MrflearnError
from mrflearn.evaluation.recovery import recovery
from mrflearn.graph.builders import graph_from_text
from mrflearn.graph.gauges import random_ising, reference_gauge
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.sampling import Drawing

STRENGTH = 0.5  # spin fields and couplings are uniform within plus and minus this
L2 = 0.1  # one and the same small price, so that every estimate exists


def peak_mb() -> float:
    """The largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory_mb() -> float:
    """What this process holds now, where the system tells; else its largest memory so far."""
    status = Path("/proc/self/status")
    if not status.exists():
        return peak_mb()
    held = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(held.split()[1]) / 1024


def field(graph: str, run: int) -> Potentials:
    """The field of a run."""
    return random_ising(graph_from_text(graph), scale=STRENGTH, seed=run)


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Where samples lie while this process lives."""
    return tempfile.TemporaryDirectory()


def samples_file(graph: str, run: int, samples: int) -> Path:
    """A file of samples of the field of a run."""
    path = Path(folder().name) / f"{graph.replace(':', '-')}-{run}-{samples}.npy"
    if not path.exists():
        np.save(path, Drawing()(field(graph, run), samples, seed=run).samples.numpy().astype("u1"))
    return path


def in_a_process(point: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own finds."""
    file = samples_file(point["graph"], point["run"], point["samples"])
    command = [sys.executable, __file__, json.dumps({**point, "file": str(file)})]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(answer)
    return found


def measure_field(point: dict[str, Any]) -> dict[str, Any]:
    """Time, memory and error of one estimator on samples of a random Ising field."""
    truth = field(point["graph"], point["run"])
    rows = np.load(point["file"])
    model = MarkovField(point["graph"], estimator=point["estimator"], l2=L2)
    before, begun = memory_mb(), time.process_time()
    model.fit(rows)
    seconds = time.process_time() - begun
    memory = peak_mb() - before
    error = recovery(parameters(model.potentials_), parameters(truth)).relative
    return {"seconds": seconds, "memory_mb": memory, "error": error}


def parameters(potentials: Potentials) -> np.ndarray:
    """All parameters in the gauge that vanishes at state 0, end to end."""
    tables = [table.dense().reshape(-1) for table in reference_gauge(potentials).tables]
    return torch.cat(tables).numpy()


def main() -> None:
    torch.set_num_threads(1)
    point = json.loads(sys.argv[1])
    try:
        found = measure_field(point)
    except MrflearnError as error:
        found = {"refused": str(error)}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()

"""Results of an experiment as lines of JSON: appended, never deleted; a rerun goes on from them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from provenance import HERE, ROOT, source_hash

import mrflearn

Point: TypeAlias = Mapping[str, Any]
Row: TypeAlias = dict[str, Any]
Work: TypeAlias = Callable[[], Mapping[str, Any]]


class Rows:
    """A file of rows; each holds its point (what was asked), its figures and what made them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _commit()  # of the code as this process found it

    def __iter__(self) -> Iterator[Row]:
        if self.path.exists():
            with self.path.open(encoding="utf-8") as stream:
                yield from map(json.loads, stream)

    def __contains__(self, point: Point) -> bool:
        return any(row["point"] == dict(point) for row in self)

    def latest(self, **wanted: Any) -> list[Row]:
        """The last row of each point that has these entries, in the order they first came."""
        found = {}
        for row in self:
            if wanted.items() <= row["point"].items():
                found[key(row["point"])] = row
        return list(found.values())

    def append(self, point: Point, figures: Mapping[str, Any], code: Path | None = None) -> Row:
        """Adds a measurement, on disk before anything else happens; the row as it stands there.

        code: the script that measured, whose imports are the code of the row.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        row = {"point": dict(point), **figures, **conditions(code)}
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
        return row

    def perform(self, point: Point, work: Work) -> Row:
        """Adds what the work finds, with the seconds it took and a hash of its code."""
        began, load = time.perf_counter(), os.getloadavg()[0]
        figures = work()
        took = {"took": round(time.perf_counter() - began, 2), "load": round(load, 1)}
        return self.append(point, {**figures, **took}, code_of(work))


def key(point: Point) -> str:
    """A point as a text: equal for equal points."""
    return json.dumps(dict(point), sort_keys=True)


def code_of(work: Callable[..., Any]) -> Path:
    """The file in which a function is written."""
    function: Any = work
    while isinstance(function, partial):
        function = function.func
    return Path(function.__code__.co_filename)


def _code(script: Path | None) -> Row:
    path = None if script is None else script.resolve()
    if path is None or ROOT not in path.parents:
        return {}
    return {"code": str(path.relative_to(ROOT)), "source": source_hash(path)}


@cache
def _commit() -> str | None:
    """The commit of this code; "-dirty" if some of it is not committed.

    An archive that git made has no repository, but the commit in a file.
    """
    archived = (HERE / "COMMIT").read_text(encoding="utf-8").strip()
    if not archived.startswith("$"):
        return archived
    commit = _git("rev-parse", "--short", "HEAD")
    dirty = commit is not None and _git("status", "--porcelain", "--", ":/*.py")
    return f"{commit}-dirty" if dirty else commit


def conditions(script: Path | None = None) -> Row:
    """Commit, versions, machine and threads, and a hash of what the script imports."""
    return {
        "commit": _commit(),
        "versions": {package.__name__: package.__version__ for package in (mrflearn, np, torch)},
        "python": platform.python_version(),
        "machine": machine(),
        "threads": torch.get_num_threads(),
        **_code(script),
    }


@cache
def machine() -> str:
    """The processor and its cores, and the graphics processor if this process uses one."""
    names = Path("/proc/cpuinfo")
    lines = names.read_text(encoding="utf-8").splitlines() if names.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.machine()
    accelerator = f", {torch.cuda.get_device_name()}" if torch.cuda.is_initialized() else ""
    return f"{processor}, {os.cpu_count()} cores{accelerator}"


def _git(*command: str) -> str | None:
    """What git prints about the repository of this code; None where there is none."""
    try:
        found = subprocess.run(
            ["git", *command], cwd=HERE, capture_output=True, text=True, check=False
        )
    except OSError:  # no git on this machine
        return None
    return found.stdout.strip() or None

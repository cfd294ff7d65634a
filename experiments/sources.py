"""Where figures come from: rows of experiments, outputs of benchmarks, figures of peers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import mean
from typing import Any

from provenance import HERE, ROOT, rows_of

Row = dict[str, Any]
UNSEEN = "no committed output"
BUSY = 1.5


@cache
def _rows(experiment: str, results: str) -> list[Row]:
    return rows_of(HERE / experiment / results / "rows.jsonl")


def rows(experiment: str, results: str = "results-full", **wanted: Any) -> list[Row]:
    """The last row of each point that has these entries; there must be one."""
    found = [row for row in _rows(experiment, results) if wanted.items() <= row["point"].items()]
    if not found:
        raise LookupError(f"{experiment} has no row of {wanted}: run the experiment")
    return found


def row(experiment: str, results: str = "results-full", **wanted: Any) -> Row:
    """The only row that has these entries, or the last that was measured."""
    return rows(experiment, results, **wanted)[-1]


def average(found: Sequence[Row], name: str) -> float:
    """The mean of a figure over rows."""
    return mean(own[name] for own in found)


@cache
def output(benchmark: str) -> Row:
    """What a benchmark printed, and under which conditions."""
    path = ROOT / "benchmarks" / "results" / f"{benchmark}.json"
    found: Row = json.loads(path.read_text(encoding="utf-8"))
    return found


def cells(benchmark: str, **wanted: str) -> dict[str, str]:
    """A line of the table a benchmark printed, by the names of its columns.

    wanted: patterns of columns, `_` for a blank in a column's name.
    """
    lines = output(benchmark)["output"]
    names = re.split(r" {2,}", lines[0].strip())
    for line in lines[1:]:
        own = dict(zip(names, re.split(r" {2,}", line.strip()), strict=False))
        if all(re.search(p, own.get(n.replace("_", " "), "")) for n, p in wanted.items()):
            return own
    raise LookupError(f"benchmarks/results/{benchmark}.json has no line with {wanted}")


def printed(benchmark: str, pattern: str) -> tuple[str, ...]:
    """The groups of a pattern in what a benchmark printed."""
    found = re.search(pattern, "\n".join(output(benchmark)["output"]))
    if found is None:
        raise LookupError(f"benchmarks/results/{benchmark}.json does not say {pattern}")
    return found.groups()


def peers(experiment: str, task: str, **wanted: Any) -> dict[str, Any]:
    """A peer's figures on a task, measured at another time."""
    held = json.loads((HERE / experiment / "peers.json").read_text(encoding="utf-8"))
    return next(own for own in held[task] if wanted.items() <= own.items())


@dataclass(frozen=True)
class Figures:
    """A job, what we and others need for it, and the rows or outputs that say so."""

    job: str
    ours: str
    rival: str
    sources: Sequence[Row] = ()
    rival_sources: Sequence[Row] | None = None  # None: measured together with ours
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def conditions(self) -> str:
        """Machine, load and commit of ours, and of the rival where they differ."""
        parts = [conditions(self.sources)]
        if self.rival_sources is not None:
            parts.append(f"rival: {conditions(self.rival_sources)}")
        return "; ".join([*parts, *self.notes])


def conditions(sources: Sequence[Row]) -> str:
    """Where, with how much other work and with which code figures were measured."""
    if not sources:
        return UNSEEN
    loads: dict[tuple[str, str], list[float]] = {}
    for source in sources:
        place = str(source.get("where") or ""), ""
        if not place[0]:
            machine = "H200" if _on_gpu(source) else source.get("machine") or "x86_64"
            place = str(machine), f", {source.get('commit') or 'no commit'}"
        found = loads.setdefault(place, [])
        if source.get("load") is not None:
            found.append(source["load"])
    return ", ".join(where + _load(found) + commit for (where, commit), found in loads.items())


def _load(found: Sequence[float]) -> str:
    """How many processes wanted to run at the time: more than there are cores disturb."""
    if not found or max(found) < BUSY:
        return ""
    low, high = f"{min(found):.0f}", f"{max(found):.0f}"
    return f", load {low}" if low == high else f", load {low} to {high}"


def _on_gpu(source: Row) -> bool:
    return "cuda" in {source.get("point", {}).get("device"), source.get("device")} or (
        "H200" in str(source.get("machine"))
    )


def table(header: Sequence[str], lines: Sequence[Sequence[Any]]) -> list[str]:
    """A table in Markdown."""
    text = [list(header), ["---"] * len(header), *lines]
    return [("| " + " | ".join(map(str, own)) + " |").replace("| --- ", "|---") for own in text]

"""Inference against its peers on the same Ising grids, in one run, as ratios.

A time counts only where the answers agree.  Every engine runs in a process of its own, within
limits on time and memory, so that one that cannot cope says so and harms nothing.  Where the graph
counts too ("first"), the search for an elimination order is done anew in every repetition.
"""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rivals import ask_process

HERE = Path(__file__).parent
MEMORY = 8 * 2**30  # bytes of address space
SECONDS = 60
REPEATS = {"sweeps": 20, "exact": 3, "first": 5}  # in one process, of which the best counts
TURNS = 2  # engines take turns, as a busy machine slows whoever runs at the moment


@dataclass(frozen=True)
class Case:
    """One problem, one rival, and how far its marginals may be from ours."""

    name: str
    rival: str
    task: str
    side: int
    scale: float
    damping: float = 0.0
    tolerance: float = 1e-6

    def problem(self) -> dict[str, Any]:
        """Fields uniform in (-1, 1), couplings in (-scale, scale), spins -1 and +1."""
        n = self.side
        edges = [
            (node, other)
            for node in range(n * n)
            for other, inside in ((node + 1, node % n < n - 1), (node + n, node // n < n - 1))
            if inside
        ]
        draw = np.random.default_rng(0)
        return {
            "task": self.task,
            "edges": edges,
            "fields": draw.uniform(-1, 1, n * n).tolist(),
            "couplings": (self.scale * draw.uniform(-1, 1, len(edges))).tolist(),
            "damping": self.damping,
            "sweeps": 100,
            "repeats": REPEATS[self.task],
        }


def sweeps(side: int, scale: float, damping: float) -> Case:
    name = f"100 sweeps, {side}x{side}, couplings {scale}, damping {damping}"
    return Case(name, "pgmax", "sweeps", side, scale, damping, tolerance=1e-3)


CASES = [
    sweeps(10, 0.5, 0.0),
    sweeps(10, 1.0, 0.5),
    sweeps(50, 0.5, 0.0),
    sweeps(50, 1.0, 0.5),
    *(Case(f"exact, {n}x{n}, couplings 1.0", "pgmpy", "exact", n, 1.0) for n in (4, 10, 16)),
    *(
        Case(f"exact, {n}x{n}, graph and all", "pyagrum", "first", n, 1.0)
        for n in (6, 8, 10, 12, 14, 16)
    ),
]


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def ask(engine: str, python: Path, problem: dict[str, Any]) -> dict[str, Any]:
    """The engine's answer, or a record with the reason why there is none."""
    # -I keeps the script's folder off the path: a peer's file may be named like its library.
    command = [str(python), "-I", str(HERE / "peers" / f"{engine}.py")]
    found = ask_process(command, problem, seconds=SECONDS, threads=None, prepare=limited)
    if "error" in found and not found["error"].startswith("not done"):
        reason = found["error"].removeprefix("numpy.core._exceptions.").split(" for an array")[0]
        return {"error": f"{reason[:80]} (limit {MEMORY >> 30} GiB)"}
    return found


def compare(case: Case) -> list[str]:
    """One row of the table."""
    problem = case.problem()
    peers = HERE.parent / ".venv-peers" / "bin" / "python"
    engines = {"ours": Path(sys.executable), case.rival: peers}
    best: dict[str, dict[str, Any]] = {}
    for _ in range(TURNS):
        for engine, python in engines.items():
            if "error" not in best.get(engine, {}):  # who failed once is not asked again
                found = ask(engine, python, problem)
                best[engine] = min(
                    found, best.get(engine, found), key=lambda f: f.get("seconds", 0)
                )
    return row(case, best["ours"], best[case.rival])


def row(case: Case, ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    if "error" in ours:
        return [case.name, "fails", case.rival, "-", "-", ours["error"]]
    start = [case.name, f"{ours['seconds']:.4f}", case.rival]
    if "error" in theirs:
        return [*start, "fails", "-", theirs["error"]]
    apart = float(np.abs(np.subtract(ours["marginals"], theirs["marginals"])).max())
    if not apart <= case.tolerance:
        return [*start, "-", "-", f"answers differ by {apart:.1e}: no time counts"]
    ratio = theirs["seconds"] / ours["seconds"]
    note = f"marginals agree to {apart:.0e}; {theirs.get('note', 'float64')}"
    return [*start, f"{theirs['seconds']:.4f}", f"{ratio:.1f}x", note]


def main() -> None:
    header = ["problem", "mrflearn s", "rival", "rival s", "ratio", "remark"]
    rows = [header]
    for case in CASES:
        print(case.name, file=sys.stderr)
        rows.append(compare(case))
    widths = [max(len(cells[k]) for cells in rows) for k in range(len(header))]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


if __name__ == "__main__":
    main()

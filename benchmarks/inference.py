"""Inference against its peers on the same Ising grids, in one run, as ratios.

A time counts only where the answers agree.  Every engine runs in a process of its own, within
limits on time and memory, so that one that cannot cope says so and harms nothing.  Where the graph
counts too ("first"), the search for an elimination order is done anew in every repetition.  So it
is for the networks below $MRFLEARN_DATA, whose evidence is taken in each time.

    python benchmarks/inference.py --only pyagrum         # the problems of one rival
    python benchmarks/inference.py --peers /some/python   # of another environment, for all rivals
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rivals import ask_process

from mrflearn.io import uai

HERE = Path(__file__).parent
MEMORY = 8 * 2**30  # bytes of address space
SECONDS = 60
REPEATS = {"sweeps": 20, "exact": 3, "first": 5, "gibbs": 3, "best": 3}  # of which the best counts
SWEEPS, CHAINS = 100, 64
TURNS = 2  # engines take turns, as a busy machine slows whoever runs at the moment
# mbi and thrml need a newer jax than PGMax works with.
ENVIRONMENTS = dict.fromkeys(("mbi", "pygms", "pytoulbar2", "thrml"), ".venv-peers-inference")
Factor = tuple[list[int], list[float]]


@dataclass(frozen=True)
class Case:
    """One problem, one rival, and how far its marginals may be from ours.

    A problem has the states of all variables, and factors: their variables and their tables of
    numbers that are not logarithms, the last variable changing fastest.
    """

    name: str
    rival: str
    task: str
    states: list[int]
    factors: list[Factor]
    evidence: dict[int, int] = field(default_factory=dict)
    damping: float = 0.0
    tolerance: float = 1e-6
    published: tuple[float, ...] = ()  # marginals

    def problem(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "states": self.states,
            "factors": self.factors,
            "evidence": list(self.evidence.items()),
            "damping": self.damping,
            "sweeps": SWEEPS,
            "chains": CHAINS,
            "repeats": REPEATS[self.task],
        }


def ising(side: int, scale: float) -> tuple[list[int], list[Factor]]:
    """Fields uniform in (-1, 1), couplings in (-scale, scale), spins -1 and +1."""
    n = side
    edges = [
        (node, other)
        for node in range(n * n)
        for other, inside in ((node + 1, node % n < n - 1), (node + n, node // n < n - 1))
        if inside
    ]
    draw = np.random.default_rng(0)
    factors: list[Factor] = []
    for node, h in enumerate(draw.uniform(-1, 1, n * n).tolist()):
        factors.append(([node], [math.exp(-h), math.exp(h)]))
    for ends, j in zip(edges, (scale * draw.uniform(-1, 1, len(edges))).tolist(), strict=True):
        alike, unlike = math.exp(j), math.exp(-j)
        factors.append((list(ends), [alike, unlike, unlike, alike]))
    return [2] * (n * n), factors


def sweeps(side: int, scale: float, damping: float) -> Case:
    name = f"100 sweeps, {side}x{side}, couplings {scale}, damping {damping}"
    return Case(name, "pgmax", "sweeps", *ising(side, scale), damping=damping, tolerance=1e-3)


def exact(rival: str, side: int) -> Case:
    return Case(f"exact, {side}x{side}, couplings 1.0", rival, "exact", *ising(side, 1.0))


def first(side: int) -> Case:
    name = f"exact, {side}x{side}, graph and all"
    return Case(name, "pyagrum", "first", *ising(side, 1.0))


def networks() -> list[Case]:
    """Those of $MRFLEARN_DATA."""
    cases = []
    for path in sorted((Path(os.environ.get("MRFLEARN_DATA", "none")) / "uai").glob("*.uai")):
        network = uai.read_network(path)
        evidence = uai.read_evidence(Path(f"{path}.evid"))
        factors: list[Factor] = [
            (list(scope), np.ravel(table).tolist())
            for scope, table in zip(network.scopes, network.tables, strict=True)
        ]
        states, name = list(network.states), f"{path.stem}, network and all"
        published = tuple(p for own in uai.read_marginals(Path(f"{path}.MAR")) for p in own)
        case = Case(name, "pyagrum", "first", states, factors, evidence, published=published)
        cases.append(case)
    return cases


CASES = [
    sweeps(10, 0.5, 0.0),
    sweeps(10, 1.0, 0.5),
    sweeps(50, 0.5, 0.0),
    sweeps(50, 1.0, 0.5),
    *(exact("pgmpy", side) for side in (4, 10, 16)),
    *(exact(rival, side) for rival in ("mbi", "pygms") for side in (4, 10)),
    *(first(side) for side in (6, 8, 10, 12, 14, 16)),
    *networks(),
    Case("most probable states, 16x16", "pytoulbar2", "best", *ising(16, 1.0), tolerance=0.0),
    # Means of as many draws on both sides, which differ by chance.
    Case(
        f"{CHAINS} chains, 64x64, {SWEEPS} sweeps",
        "thrml",
        "gibbs",
        *ising(64, 0.5),
        tolerance=0.01,
    ),
]


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def ask(engine: str, python: Path, problem: dict[str, Any]) -> dict[str, Any]:
    """The engine's answer, or a record with the reason why there is none."""
    # -P keeps the script's folder off the path: a peer's file may be named like its library.
    command = [str(python), "-P", str(HERE / "peers" / f"{engine}.py")]
    found = ask_process(command, problem, seconds=SECONDS, threads=None, prepare=limited)
    if "error" in found and not found["error"].startswith("not done"):
        reason = found["error"].removeprefix("numpy.core._exceptions.").split(" for an array")[0]
        return {"error": f"{reason[:80]} (limit {MEMORY >> 30} GiB)"}
    return found


def compare(case: Case, python: Path | None) -> list[str]:
    """One row of the table; `python` has all rivals, where it is given."""
    problem = case.problem()
    folder = ENVIRONMENTS.get(case.rival, ".venv-peers")
    peers = python or HERE.parent / folder / "bin" / "python"
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
    seen = ""
    if case.published:
        off = float(np.abs(np.subtract(ours["marginals"], case.published)).max())
        seen = f"; ours off by {off:.1e} from those published"
    if "error" in theirs:
        return [*start, "fails", "-", theirs["error"] + seen]
    apart = float(np.abs(np.subtract(ours["marginals"], theirs["marginals"])).max())
    if not apart <= case.tolerance:
        return [*start, "-", "-", f"answers differ by {apart:.1e}: no time counts"]
    ratio = theirs["seconds"] / ours["seconds"]
    note = f"marginals agree to {apart:.0e}; {theirs.get('note', 'float64')}{seen}"
    if case.task == "gibbs":
        drawn = 1e-9 * CHAINS * SWEEPS * len(case.states)
        speeds = (f"{drawn / own['seconds']:.3f}" for own in (ours, theirs))
        note = f"{' against '.join(speeds)} flips a nanosecond; {note}"
    return [*start, f"{theirs['seconds']:.4f}", f"{ratio:.1f}x", note]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="rivals, or names of problems")
    parser.add_argument("--peers", type=Path, help="a Python that has the rivals")
    options = parser.parse_args()
    chosen = [
        case
        for case in CASES
        if not options.only or any(one in (case.rival, case.name) for one in options.only)
    ]
    header = ["problem", "mrflearn s", "rival", "rival s", "ratio", "remark"]
    rows = [header]
    for case in chosen:
        print(case.name, file=sys.stderr)
        rows.append(compare(case, options.peers))
    widths = [max(len(cells[k]) for cells in rows) for k in range(len(header))]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


if __name__ == "__main__":
    main()

"""Every table and figure of the papers, one experiment after the other, in one page.

    make reproduce SCALE=smoke    # a few minutes: does everything run?
    make reproduce TIME=3600      # what is not done yet and fits into an hour, after a plan of it
    make reproduce                # all of it, many hours; what is done is not done again

Each experiment writes rows as they come and goes on where it was stopped.  The page has all tables
and pictures there are: experiments/RESULTS.md (full) or experiments/output/RESULTS.md (smoke).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
# In the order of the page.
EXPERIMENTS = (
    "lifted_lm",
    "joint_tagger",
    "piecewise",
    "chain_crf",
    "composite",
    "lap",
    "lattice",
    "estimators",
    "scale",
)
# Their points depend on one another, and they measure them in an order of their own: no plan.
UNPLANNED = {"lifted_lm": True}  # whether all of it needs data sets


def folder_of(name: str, scale: str) -> Path:
    """Where an experiment keeps its rows, tables and pictures."""
    return HERE / name / ("results-full" if scale == "full" else "output/smoke")


def command(name: str, scale: str, *words: str) -> list[str]:
    """The command line of an experiment."""
    place = ["--output", str(folder_of(name, scale))]
    return [sys.executable, str(HERE / name / "run.py"), "--scale", scale, *place, *words]


def plan(name: str, scale: str, left: float) -> tuple[list[str], float]:
    """What an experiment would do in the time that is left, and how long that would take."""
    if name in UNPLANNED:
        return ["no plan: rows that are there are kept, the others measured; hours"], 0.0
    limit = [] if left == float("inf") else ["--time", f"{left:.0f}"]
    ended = subprocess.run(
        command(name, scale, "--plan", *limit), capture_output=True, text=True, check=True
    )
    lines = [*ended.stderr.splitlines(), *ended.stdout.splitlines()]
    seconds = next(line for line in lines if line.startswith("in all "))
    return lines, float(seconds.split()[2].replace(",", ""))


def run(name: str, scale: str, left: float) -> str:
    """Runs an experiment to its end, or as far as the time goes; says in a line how it went."""
    if left <= 0 or (left < float("inf") and name in UNPLANNED):
        return f"{name}: left out, it does not fit into the time"
    if UNPLANNED.get(name) and scale == "full" and not os.environ.get("MRFLEARN_DATA"):
        return f"{name}: left out: set MRFLEARN_DATA to the folder of data sets"
    words = () if left == float("inf") else ("--time", f"{left:.0f}")
    begun = time.perf_counter()
    ended = subprocess.run(command(name, scale, *words), check=False)
    seconds = time.perf_counter() - begun
    return f"{name}: {'done' if not ended.returncode else 'FAILED'} in {seconds:.0f} s"


def write_page(scale: str, remarks: list[str]) -> Path:
    """One page of everything there is so far."""
    page = HERE / "RESULTS.md" if scale == "full" else HERE / "output" / "RESULTS.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(page_text(scale, remarks, page), encoding="utf-8")
    return page


def page_text(scale: str, remarks: list[str], page: Path) -> str:
    """The tables and pictures of all reports there are."""
    text = ["# Experiments: ours beside the published figures", ""]
    text += [
        f"Scale: {scale}. Settings and differences of data: the README of each experiment.",
        "",
    ]
    text += [*(f"- {line}" for line in remarks), ""]
    for name in EXPERIMENTS:
        folder = folder_of(name, scale)
        table = folder / "report.md"
        if not table.exists():
            continue
        way = os.path.relpath(folder, page.parent)
        body = table.read_text(encoding="utf-8")
        body = re.sub(r"^#", "##", body, flags=re.MULTILINE)
        body = re.sub(r"(!\[[^]]*\]\()(?!http)", rf"\1{way}/", body)
        shown = set(re.findall(r"\]\((?:[^)]*/)?([^)/]+\.png)\)", body))
        more = sorted(path.name for path in folder.glob("*.png") if path.name not in shown)
        text += [f"## {name}", "", body, *(f"![{picture}]({way}/{picture})\n" for picture in more)]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=("smoke", "full"), default="full")
    parser.add_argument("--only", nargs="*", choices=EXPERIMENTS, default=EXPERIMENTS)
    parser.add_argument("--time", type=float, default=float("inf"), help="seconds for all of it")
    parser.add_argument("--plan", action="store_true", help="print it, and measure nothing")
    parser.add_argument("--only-write", action="store_true", help="the page, from what is there")
    options = parser.parse_args()
    until, left = time.monotonic() + options.time, options.time
    for name in () if options.only_write or options.scale == "smoke" else options.only:
        lines, seconds = plan(name, options.scale, left)
        left -= seconds
        print(f"{name}:", *(f"  {line}" for line in lines), sep="\n", flush=True)
    if options.plan:
        return
    chosen = () if options.only_write else options.only
    remarks = [run(name, options.scale, until - time.monotonic()) for name in chosen]
    print("\n".join([*remarks, str(write_page(options.scale, remarks))]))
    sys.exit(any("FAILED" in line for line in remarks))


if __name__ == "__main__":
    main()

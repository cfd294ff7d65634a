"""Every table and figure of the papers, one experiment after the other, in one page.

    make reproduce SCALE=smoke    # a few minutes: does everything run?
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
    "estimators",
    "scale",
)
NEED_DATA = {"lifted_lm", "joint_tagger", "piecewise", "chain_crf"}


def folder_of(name: str, scale: str) -> Path:
    """Where an experiment keeps its rows, tables and pictures."""
    return HERE / name / ("results-full" if scale == "full" else "output/smoke")


def run(name: str, scale: str) -> str:
    """Runs an experiment to its end; says in one line how it went."""
    if name in NEED_DATA and not os.environ.get("MRFLEARN_DATA"):
        return f"{name}: left out: set MRFLEARN_DATA to the folder of data sets"
    script = HERE / name / "run.py"
    place = ["--output", str(folder_of(name, scale))]
    begun = time.perf_counter()
    ended = subprocess.run([sys.executable, str(script), "--scale", scale, *place], check=False)
    seconds = time.perf_counter() - begun
    return f"{name}: {'done' if not ended.returncode else 'FAILED'} in {seconds:.0f} s"


def write_page(scale: str, remarks: list[str]) -> Path:
    """One page of everything there is so far."""
    page = HERE / "RESULTS.md" if scale == "full" else HERE / "output" / "RESULTS.md"
    page.parent.mkdir(parents=True, exist_ok=True)
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
    page.write_text("\n".join(text), encoding="utf-8")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=("smoke", "full"), default="full")
    parser.add_argument("--only", nargs="*", choices=EXPERIMENTS, default=EXPERIMENTS)
    parser.add_argument("--only-write", action="store_true", help="the page, from what is there")
    options = parser.parse_args()
    remarks = [] if options.only_write else [run(name, options.scale) for name in options.only]
    print("\n".join([*remarks, str(write_page(options.scale, remarks))]))
    sys.exit(any("FAILED" in line for line in remarks))


if __name__ == "__main__":
    main()

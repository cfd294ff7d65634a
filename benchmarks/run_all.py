"""All benchmarks against peers, one record each with versions and hardware, and RESULTS.md.

    make bench                                  # an hour and more
    make bench QUICK=1                          # minutes: fewer jobs, fewer repeats
    python benchmarks/run_all.py --only crf     # this one again; the others stay as they are
    python benchmarks/run_all.py --only inference --join -- --only thrml   # the rest of a table
    python benchmarks/run_all.py --only-write   # RESULTS.md from the records

What a benchmark printed stands whole in results/NAME.json; RESULTS.md, the table of the README and
those of other pages are made from these files (`make figures`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "experiments"))  # where `results` lies

from results import conditions

HERE = Path(__file__).resolve().parent
RECORDS = HERE / "results"


@dataclass(frozen=True)
class Benchmark:
    """A script, the peers to set up for it, and what makes it short."""

    title: str
    setup: tuple[str, ...] | None
    quick: tuple[str, ...]
    whole: tuple[str, ...] = ()
    needs_data: bool = True


BENCHMARKS = {
    "inference": Benchmark("Inference", ("setup_peers.py", "inference"), ()),
    "queries": Benchmark("Changing evidence", None, ("--questions", "4")),
    "bounds": Benchmark(
        "Bounds", None, ("--time", "5", "--hard-time", "5", "--only", "Grids_11", "graphs")
    ),
    "annealing": Benchmark("Annealing", None, ("--count", "4"), needs_data=False),
    "crf": Benchmark(
        "Chain CRF", ("setup_peers.py", "crf"), ("--only", "chunks", "--iterations", "15")
    ),
    "piecewise": Benchmark("CRFs on graphs", None, ("--only", "pwpl", "--runs", "1")),
    "lm": Benchmark("Language models", ("setup_lm_peers.py",), ("kernels",), needs_data=False),
    "nn": Benchmark("Torch modules", ("setup_peers.py", "nn"), ("--quick",), needs_data=False),
    "tagger": Benchmark("Taggers", ("setup_peers.py", "tagger"), ("--only", "english")),
    "composite": Benchmark("Charts", ("setup_peers.py", "composite"), (), needs_data=False),
    "plsa": Benchmark("Topics", ("setup_peers.py", "composite"), ()),
    "potts": Benchmark(
        "Potts fields", None, ("--structure", "1atzA.pdb"), ("--structure", "1atzA.pdb")
    ),
    "boltzmann": Benchmark(
        "Generative Potts fields", None, ("--chains", "200", "--max-iterations", "20", "--fresh")
    ),
    "fields": Benchmark("Tables of answers", None, ("--tables", "votes", "mixed", "words")),
    "uncertainty": Benchmark(
        "Standard errors", None, ("--replications", "10", "--bootstraps", "50"), needs_data=False
    ),
    "spark": Benchmark("Spark", None, ("--scale", "0.1"), needs_data=False),
}


def run(name: str, words: tuple[str, ...]) -> dict[str, Any]:
    """What the script prints, and under which conditions."""
    benchmark, script = BENCHMARKS[name], HERE / f"{name}.py"
    if benchmark.setup is not None:
        subprocess.run([sys.executable, str(HERE / benchmark.setup[0]), *benchmark.setup[1:]])
    load = os.getloadavg()[0]
    if "cuda" in words:
        torch.cuda.init()  # conditions name the graphics processor of a process that uses one
    began = time.perf_counter()
    command = [sys.executable, str(script), *words]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return {
        "command": " ".join(["python", f"benchmarks/{name}.py", *words]),
        "ended": ended.returncode,
        "took": round(time.perf_counter() - began, 1),
        "load": round(load, 1),
        **conditions(script),
        "output": ended.stdout.rstrip().splitlines(),
    }


def joined(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """One record of two parts of a table that the same code printed on the same machine."""
    for name in ("commit", "machine", "versions"):
        if before[name] != after[name]:
            sys.exit(f"{name} differs: {before[name]} and {after[name]}; run all parts again")
    rows = [re.split(r" {2,}", line) for line in (*before["output"], *after["output"][1:])]
    widths = [max(len(own[k]) for own in rows if k < len(own)) for k in range(len(rows[0]))]
    lines = ["  ".join(map(str.ljust, own, widths)).rstrip() for own in rows]
    together = {name: max(before[name], after[name]) for name in ("load", "ended")}
    took = round(before["took"] + after["took"], 1)
    command = after["command"].split(" --only")[0] + " (in parts)"
    return {**after, **together, "took": took, "command": command, "output": lines}


def write_page(page: Path) -> None:
    """RESULTS.md from the records."""
    text = ["# Benchmarks", "", "Ours and our peers on the same work in one run.", ""]
    for name, benchmark in BENCHMARKS.items():
        path = RECORDS / f"{name}.json"
        if path.exists():
            record = json.loads(path.read_text(encoding="utf-8"))
            versions = ", ".join(f"{k} {v}" for k, v in record["versions"].items())
            text += [f"## {benchmark.title}", ""]
            text += [f"`{record['command']}`; {record['took']:.0f} s; load {record['load']}; "]
            text += [f"{record['machine']}; Python {record['python']}, {versions}; "]
            text += [f"commit {record['commit']}", "", "```text", *record["output"], "```", ""]
    page.write_text("\n".join(text), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", choices=list(BENCHMARKS), default=list(BENCHMARKS))
    parser.add_argument("--only-write", action="store_true", help="RESULTS.md from the records")
    parser.add_argument("--join", action="store_true", help="to the lines of the record there is")
    parser.add_argument("words", nargs="*", help="after --: options of the one benchmark")
    options = parser.parse_args()
    failed = []
    for name in () if options.only_write else options.only:
        benchmark = BENCHMARKS[name]
        if benchmark.needs_data and not os.environ.get("MRFLEARN_DATA"):
            sys.stderr.write(f"{name}: left out: set MRFLEARN_DATA to the folder of data sets\n")
            continue
        sys.stderr.write(f"{name}\n")
        words = tuple(options.words) or (benchmark.quick if options.quick else benchmark.whole)
        record = run(name, words)
        if record["ended"]:
            failed.append(name)
            sys.stderr.write(f"{name} ended with exit code {record['ended']}\n")
            continue
        RECORDS.mkdir(exist_ok=True)
        if options.join:
            before = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
            record = joined(before, record)
        lines = json.dumps(record, indent=1, ensure_ascii=False)
        (RECORDS / f"{name}.json").write_text(lines + "\n", encoding="utf-8")
    write_page(HERE / "RESULTS.md")
    print(HERE / "RESULTS.md")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

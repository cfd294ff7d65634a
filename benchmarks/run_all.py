"""All benchmarks against peers in one run, written to RESULTS.md with versions and hardware.

make bench            # an hour and more
make bench QUICK=1    # minutes: fewer jobs, fewer repeats
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Benchmark:
    """A script, the peers to set up for it, and what makes it short."""

    name: str
    script: str
    setup: tuple[str, ...] | None
    quick: tuple[str, ...]
    needs_data: bool = True


BENCHMARKS = (
    Benchmark("Inference", "inference.py", ("setup_peers.py",), (), needs_data=False),
    Benchmark("Annealing", "annealing.py", None, ("--count", "4"), needs_data=False),
    Benchmark(
        "Chain CRF",
        "crf.py",
        ("setup_peers.py", "crf"),
        ("--only", "chunks", "--iterations", "15"),
    ),
    Benchmark("CRFs on graphs", "piecewise.py", None, ("--only", "pwpl", "--runs", "1")),
    Benchmark("Language models", "lm.py", ("setup_lm_peers.py",), ("kernels",), needs_data=False),
    Benchmark("Torch modules", "nn.py", ("setup_peers.py", "nn"), ("--quick",), needs_data=False),
    Benchmark("Taggers", "tagger.py", ("setup_peers.py", "tagger"), ("--only", "english")),
    Benchmark("Charts", "composite.py", ("setup_peers.py", "composite"), (), needs_data=False),
    Benchmark("Topics", "plsa.py", ("setup_peers.py", "composite"), ()),
    Benchmark("Potts fields", "potts.py", None, ()),
)


def run(benchmark: Benchmark, quick: bool) -> str:
    """What the script prints, as a block of text."""
    if benchmark.needs_data and not os.environ.get("MRFLEARN_DATA"):
        return "left out: set MRFLEARN_DATA to the folder of data sets"
    if benchmark.setup is not None:
        subprocess.run([sys.executable, str(HERE / benchmark.setup[0]), *benchmark.setup[1:]])
    words = [sys.executable, str(HERE / benchmark.script), *(benchmark.quick if quick else ())]
    begun = time.perf_counter()
    ended = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    how = "" if not ended.returncode else f"\nended with exit code {ended.returncode}"
    return f"{ended.stdout.rstrip()}{how}\n({time.perf_counter() - begun:.0f} s)"


def hardware() -> list[str]:
    """The machine and the versions that figures depend on."""
    names = ("mrflearn", "torch", "numpy", "scipy")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    load = os.getloadavg()[0]
    return [
        f"- {platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {load:.1f}",
        f"- Python {platform.python_version()}, {versions}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=HERE / "RESULTS.md")
    options = parser.parse_args()
    text = ["# Benchmarks", "", "Ours and our peers on the same work in one run.", ""]
    text += [*hardware(), f"- {'quick' if options.quick else 'whole'} run", ""]
    failed = False
    for benchmark in BENCHMARKS:
        sys.stderr.write(f"{benchmark.name}\n")
        found = run(benchmark, options.quick)
        failed |= "ended with exit code" in found
        text += [f"## {benchmark.name}", "", "```text", found, "```", ""]
        options.output.write_text("\n".join(text), encoding="utf-8")
    print(options.output)
    sys.exit(failed)


if __name__ == "__main__":
    main()

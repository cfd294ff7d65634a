"""The taggers beside NLTK's TnT: same sentences, one run, as ratios.

Models differ, so their accuracy stands beside their times; each engine runs in a process of its
own, one after the other, on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from runpy import run_path
from typing import Any

from rivals import ask_process

from mrflearn.evaluation.tagging import tagging_report

HERE = Path(__file__).parent
TASKS = run_path(str(HERE.parent / "experiments" / "joint_tagger" / "tasks.py"))["TASKS"]
NLTK = HERE.parent / ".venv-peers-tagger" / "bin" / "python"
ENGINES = {
    "NLTK TnT": (NLTK, "tagger_nltk", {}),
    "mrflearn HMM, order 2": (Path(sys.executable), "tagger_ours", {"kind": "hmm", "order": 2}),
    "mrflearn HMM, order 1": (Path(sys.executable), "tagger_ours", {"kind": "hmm", "order": 1}),
    "mrflearn joint field": (Path(sys.executable), "tagger_ours", {"kind": "joint"}),
}
JOBS = ("treebank-3000", "ewt-upos", "ewt-xpos")


def ask(engine: str, problem: dict[str, Any]) -> dict[str, Any]:
    """The engine's answer, or a record with the reason why there is none."""
    python, script, own = ENGINES[engine]
    if not python.exists():
        return {"error": f"{python.parent.parent.name} is not there: make bench-tagger makes it"}
    return ask_process([str(python), str(HERE / "peers" / f"{script}.py")], problem | own)


def measure(name: str, data: Path, folder: Path, engines: list[str]) -> list[list[str]]:
    """One row an engine; ratios are to the first of them that runs."""
    parts = TASKS[name](data)
    files = {}
    for part in ("train", "test"):
        files[part] = str(folder / f"{name}-{part}.jsonl")
        lines = [json.dumps([s.words, s.labels]) for s in getattr(parts, part)]
        Path(files[part]).write_text("\n".join(lines) + "\n")
    known = {word for s in parts.train for word in s.words}
    rows, first = [], None
    for engine in engines:
        print(name, engine, file=sys.stderr)
        found = ask(engine, {"files": files})
        if "error" in found:
            rows.append([name, engine, "fails", *["-"] * 6, found["error"]])
            continue
        first = first or found
        rows.append([name, engine, *_figures(parts.test, known, found, first)])
    return rows


def _figures(test: Any, known: set[str], found: dict[str, Any], first: dict[str, Any]) -> list[str]:
    words = [s.words for s in test]
    report = tagging_report([s.labels for s in test], found["predicted"], words=words, known=known)
    assert report.unseen is not None
    return [
        f"{100 * report.tokens.accuracy:.2f}",
        f"{100 * report.unseen.accuracy:.2f}",
        f"{found['train']:.2f}",
        f"{report.tokens.total / found['tag']:,.0f}",
        f"{found['peak_mb']:.0f}",
        f"{first['train'] / found['train']:.1f}x",
        f"{first['tag'] / found['tag']:.1f}x",
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("MRFLEARN_DATA"))
    parser.add_argument("--only", nargs="*", choices=list(TASKS), default=list(JOBS))
    parser.add_argument("--engines", nargs="*", choices=list(ENGINES), default=list(ENGINES))
    options = parser.parse_args()
    if options.data is None and set(options.only) != {"english"}:
        sys.exit("name the folder of the data sets with --data or MRFLEARN_DATA")
    header = ["task", "engine", "all", "unseen", "train s", "tokens/s", "peak MB"]
    rows = [[*header, "training", "tagging", "remark"]]
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            rows += measure(name, Path(options.data or "."), Path(folder), options.engines)
    widths = [max(len(line[k]) for line in rows) for k in range(len(rows[0]))]
    for line in rows:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()

"""The chain CRF against python-crfsuite: same features, same objective, one run, as ratios.

A time counts only where the answers agree: the final objective to a part in ten thousand (where
both ran to their stopping rule, or made the same number of iterations), and the score on test
data.  Each engine runs in a process of its own, the two one after the other.  With --iterations
both stop after so many, which is quicker and compares the time of an iteration only: two
optimisers on one way need not be at the same height after 50 steps, so objectives are printed and
not held against each other.

The task `chunks-dicts` hands over what users of sklearn-crfsuite do: a dict of named words, numbers
and truth values for each token.  There training includes the compilation of the features.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from runpy import run_path
from typing import Any

from rivals import ask_process

from mrflearn.evaluation.chunks import chunk_report
from mrflearn.evaluation.tagging import tagging_report

HERE = Path(__file__).parent
TASKS = run_path(str(HERE.parent / "experiments" / "chain_crf" / "tasks.py"))["TASKS"]
PEERS = HERE.parent / ".venv-peers-crf" / "bin" / "python"
SYNTHETIC = {"sentences": 66_000, "tokens": 57, "features": 7, "labels": 13}
AGREE = 1e-4


@dataclass
class Case:
    """One job, and what each engine made of it."""

    name: str
    problem: dict[str, Any]
    truth: list[list[str]] = field(default_factory=list)
    chunks: bool = False

    def score(self, predicted: list[list[str]]) -> float:
        """F1 of chunks, or accuracy, in percent."""
        if self.chunks:
            return 100 * chunk_report(self.truth, predicted).total.f1
        return 100 * tagging_report(self.truth, predicted).tokens.accuracy


def make_case(name: str, data: Path, folder: Path, iterations: int) -> Case:
    """The features of a task, written once for both engines."""
    task = TASKS[name]
    parts, files = task.parts(data), {}
    for part in ("train", "test"):
        files[part] = str(folder / f"{name}-{part}.jsonl")
        with Path(files[part]).open("w") as stream:
            for sentence in parts[part]:
                row = {"items": task.features(sentence), "labels": sentence.labels}
                stream.write(json.dumps(row) + "\n")
    problem = {"files": files, "c2": 1.0, "iterations": iterations, "tag": True}
    truth = [list(sentence.labels) for sentence in parts["test"]]
    return Case(name, problem, truth, task.chunks)


def dicts_case(data: Path, folder: Path, iterations: int) -> Case:
    """Chunking by dicts in the manner of sklearn-crfsuite's tutorial."""
    case = make_case("chunks", data, folder, iterations)
    parts = TASKS["chunks"].parts(data)
    for part, file in case.problem["files"].items():
        with Path(file).open("w") as stream:
            for sentence in parts[part]:
                items = [described(sentence, t) for t in range(len(sentence.words))]
                stream.write(json.dumps({"items": items, "labels": sentence.labels}) + "\n")
    case.name, case.problem = "chunks-dicts", case.problem | {"compile": True}
    return case


def described(sentence: Any, t: int) -> dict[str, Any]:
    """A token and its neighbours: forms, endings, case, digits and parts of speech."""
    word = sentence.words[t]
    found: dict[str, Any] = {
        "bias": 1.0,
        "lower": word.lower(),
        "last 3": word[-3:],
        "last 2": word[-2:],
        "upper": word.isupper(),
        "title": word.istitle(),
        "digit": word.isdigit(),
        "tag": sentence.tags[t],
        "tag begins": sentence.tags[t][:2],
    }
    for offset in (-1, 1):
        if not 0 <= t + offset < len(sentence.words):
            found["first" if offset < 0 else "last"] = True
            continue
        beside, tag = sentence.words[t + offset], sentence.tags[t + offset]
        neighbour = {
            "lower": beside.lower(),
            "title": beside.istitle(),
            "upper": beside.isupper(),
            "tag": tag,
            "tag begins": tag[:2],
        }
        found |= {f"{offset:+d} {name}": value for name, value in neighbour.items()}
    return found


def synthetic_case(iterations: int) -> Case:
    problem = {"synthetic": SYNTHETIC, "c2": 1.0, "iterations": iterations, "tag": False}
    return Case(
        "synthetic {sentences} x {tokens} x {features} x {labels}".format(**SYNTHETIC), problem
    )


def ask(engine: str, python: Path, problem: dict[str, Any]) -> dict[str, Any]:
    """The engine's answer, or a record with the reason why there is none."""
    command = [str(python), str(HERE / "peers" / f"{engine}.py")]
    return ask_process(command, problem)


def row(case: Case, engine: str, found: dict[str, Any], rival: dict[str, Any] | None) -> list[str]:
    if "error" in found:
        return [case.name, engine, "fails", *["-"] * 8, found["error"]]
    tokens = sum(map(len, case.truth))
    figures = [
        f"{found['objective']:.1f}",
        f"{case.score(found['predicted']):.2f}" if tokens else "-",
        str(found["iterations"]),
        f"{found['train']:.1f}",
        f"{found['train_cpu']:.1f}",
        f"{found['peak_mb']:.0f}",
        f"{tokens / found['tag']:.0f}" if tokens else "-",
    ]
    return [case.name, engine, *figures, *_ratios(case, found, rival)]


def _ratios(case: Case, found: dict[str, Any], rival: dict[str, Any] | None) -> list[str]:
    """How many times faster in training and in tagging, and whether that counts."""
    if rival is None or "error" in rival:
        return ["-", "-", ""]
    apart = abs(found["objective"] - rival["objective"]) / rival["objective"]
    fixed = bool(case.problem["iterations"])
    if not fixed and apart > AGREE:
        return ["-", "-", f"objectives differ by {apart:.1e}: no time counts"]
    steps = found["iterations"] / rival["iterations"] if fixed else 1.0
    faster = rival["train"] / found["train"] * steps
    tag = f"{rival['tag'] / found['tag']:.1f}x" if case.truth else "-"
    # On a busy machine the ratio of processor times says more than that of the clock.
    by_cpu = rival["train_cpu"] / found["train_cpu"] * steps
    remark = f"objectives {apart:.0e} apart; {by_cpu:.1f}x by processor time"
    return [f"{faster:.1f}x", tag, remark]


def measure(case: Case, *, crfsuite: bool) -> list[list[str]]:
    """One row an engine."""
    rival = None
    rows = []
    if crfsuite:
        rival = ask("crf_crfsuite", PEERS, case.problem | {"cores": 1})
        rows.append(row(case, "python-crfsuite", rival, None))
    for cores in (1, 2):
        ours = ask("crf_ours", Path(sys.executable), case.problem | {"cores": cores})
        rows.append(row(case, f"mrflearn, {cores} core{'s' * (cores > 1)}", ours, rival))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("MRFLEARN_DATA"))
    jobs = ["chunks", "chunks-dicts", "names", "ewt-xpos", "synthetic"]
    others = ["chunks-dicts", "synthetic"]
    parser.add_argument("--only", nargs="*", choices=[*TASKS, *others], default=jobs)
    parser.add_argument("--iterations", type=int, default=0, help="0: to the stopping rule")
    options = parser.parse_args()
    header = ["task", "engine", "objective", "score", "iterations", "train s", "cpu s", "peak MB"]
    rows = [[*header, "tokens/s", "training", "tagging", "remark"]]
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            print(name, file=sys.stderr)
            if name == "synthetic":
                rows += measure(synthetic_case(50), crfsuite=False)
            elif options.data is None:
                print(f"{name}: left out, MRFLEARN_DATA names no folder", file=sys.stderr)
            else:
                make = dicts_case if name == "chunks-dicts" else partial(make_case, name)
                case = make(Path(options.data), Path(folder), options.iterations)
                rows += measure(case, crfsuite=True)
    widths = [max(len(line[k]) for line in rows) for k in range(len(rows[0]))]
    for line in rows:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()

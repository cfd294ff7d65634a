"""The joint tagger beside hidden Markov models and a CRF: table 2, and what few labels are worth.

python experiments/joint_tagger/run.py [--scale smoke|full] [--data FOLDER] [--only TASK ...]

Rows are appended to rows.jsonl in the output folder; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where `results` lies

from points import Point
from report import write_report
from results import Rows
from systems import Fitted, fit, joint_systems
from tasks import TASKS, Parts, Sentence

from mrflearn.evaluation.tagging import tagging_report

SHARES = (0.01, 0.05, 0.2, 1.0)
CURVE = "joint-K1-L3-chains"


def plan(scale: str) -> list[Point]:
    """The points, quick ones first."""
    if scale == "smoke":
        small = {"evaluations": 8}
        joint = ("joint-K1-L1-stars", "joint-K1-L3-chains", "joint-K2-L1-chains")
        table = [Point("english", s, **small) for s in ("hmm-1", "hmm-2", "crf", *joint)]
        curve = [Point("english", CURVE, 0.1, some, **small) for some in (False, True)]
        return [*table, *curve]
    tasks = ("treebank", "treebank-3000", "ewt-upos", "ewt-xpos")
    points = [Point(task, hmm) for task in tasks for hmm in ("hmm-1", "hmm-2")]
    points += [Point(task, CURVE) for task in tasks]
    points += [Point("treebank", system) for system in (*joint_systems(), "crf")]
    points += _curve("treebank")
    for task in ("ewt-upos", "ewt-xpos"):
        points += [Point(task, system) for system in joint_systems()]
    points += _curve("ewt-upos")  # the CRF of these splits stands in experiments/chain_crf
    return list(dict.fromkeys(points))


def _curve(task: str) -> list[Point]:
    few = SHARES[:-1]
    hmm = [Point(task, "hmm-2", share) for share in few]
    return hmm + [Point(task, CURVE, share, some) for share in few for some in (False, True)]


def measure(parts: Parts, point: Point) -> dict[str, Any]:
    """Accuracy on validation and test sentences, and what it took."""
    labelled = spread(parts.train, point.labelled)
    kept = {id(s) for s in labelled}
    plain = [s for s in parts.train if id(s) not in kept] if point.unlabelled else []
    began = time.perf_counter()
    fitted = fit(point.system, labelled, plain, point.evaluations)
    seconds = time.perf_counter() - began
    known = {word for sentence in labelled for word in sentence.words}
    figures: dict[str, Any] = {"sentences": len(labelled), "train_seconds": round(seconds, 2)}
    for name in ("valid", "test"):
        part: list[Sentence] = getattr(parts, name)
        figures[name] = rate(fitted, part, known) if part else None
    return figures


def rate(fitted: Fitted, part: Sequence[Sentence], known: set[str]) -> dict[str, Any]:
    """Accuracy of all tokens, of those seen with a tag and of the others; tokens a second."""
    began = time.perf_counter()
    predicted = fitted.predict(part)
    seconds = time.perf_counter() - began
    words = [s.words for s in part]
    report = tagging_report([s.labels for s in part], predicted, words=words, known=known)
    assert report.seen is not None
    assert report.unseen is not None
    return {
        "accuracy": report.tokens.accuracy,
        "seen": report.seen.accuracy,
        "unseen": report.unseen.accuracy,
        "unseen_tokens": report.unseen.total,
        "tokens_per_second": round(report.tokens.total / seconds),
    }


def spread(sentences: Sequence[Sentence], share: float) -> list[Sentence]:
    """So many of the sentences, evenly spread: neighbours come from one text, and are alike."""
    count = max(1, round(share * len(sentences)))
    return [sentences[i * len(sentences) // count] for i in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=["smoke", "full"], default="full")
    parser.add_argument("--data", default=os.environ.get("MRFLEARN_DATA"))
    parser.add_argument("--only", nargs="*", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--output", type=Path, help="folder of rows, tables and pictures")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    options = parser.parse_args()
    if options.data is None and options.scale == "full":
        sys.exit("name the folder of the data sets with --data or MRFLEARN_DATA")
    folder = options.output or Path(__file__).parent / f"results-{options.scale}"
    rows, began = Rows(folder / "rows.jsonl"), time.perf_counter()
    held = dict[str, Parts]()
    for point in plan(options.scale):
        if vars(point) in rows or point.task not in options.only:
            continue
        if time.perf_counter() - began > options.seconds:
            break
        print(f"{point.task} {point.system} {point.labelled} {point.unlabelled}", file=sys.stderr)
        if point.task not in held:
            held[point.task] = TASKS[point.task](Path(options.data or "."))
        rows.append(vars(point), measure(held[point.task], point))
    write_report(rows, folder)
    print(folder / "report.md")


if __name__ == "__main__":
    main()

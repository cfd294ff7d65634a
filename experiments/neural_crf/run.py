"""Neural chain CRFs on names and parts of speech: settings compared, then measured with seeds.

python experiments/neural_crf/run.py --stage choose|measure [--data FOLDER] [--device cuda]

`choose` compares settings on held-out training sentences and looks at no other data; `measure`
trains on all training sentences with the best of them and scores test data with three seeds.
Rows are appended to rows.jsonl in the output folder.  Trainings run side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where `results` lies

import tasks
from results import Rows

from mrflearn import NeuralCRF
from mrflearn.evaluation.chunks import chunk_report
from mrflearn.evaluation.tagging import tagging_report

EPOCHS = {"names": 25, "ewt-upos": 20}
COMPARED: dict[str, dict[str, dict[str, Any]]] = {
    "names": {
        "usual": {},
        "half the features dropped": {"feature_dropout": 0.5},
        "weak penalty": {"c2": 0.1},
        "half dropped, weak penalty": {"feature_dropout": 0.5, "c2": 0.1},
        "slow": {"learning_rate": 0.001},
        "wide": {"hidden": 300},
        "words alone": {"features": None},
        "no vectors": {"vectors": None},
    },
    "ewt-upos": {
        "usual": {},
        "half dropped, weak penalty": {"feature_dropout": 0.5, "c2": 0.1},
        "words alone": {"features": None},
    },
}
SEEDS = (0, 1, 2)
GROUP, HELD_OUT = 50, 8  # of so many neighbouring groups of sentences one is held out to choose by


def parts(task: str, data: Path, stage: str) -> tuple[tasks.Part, tasks.Part]:
    """What is trained on, and what is scored: held-out training sentences, or test data."""
    read = tasks.names if task == "names" else tasks.parts_of_speech
    train = read(data, "train")
    if stage == "measure":
        return train, read(data, "test")
    apart = [i for i in range(len(train.X)) if i // GROUP % HELD_OUT == HELD_OUT - 1]
    kept = sorted({*range(len(train.X))}.difference(apart))
    return train.taken(kept), train.taken(apart)


def one(job: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A point and its figures: one training."""
    point, data = job["point"], Path(job["data"])
    stage, task, began = point["stage"], point["task"], time.perf_counter()
    train, scored = parts(task, data, stage)
    with Path(job["vectors"]).open("rb") as stream:
        own = {"vectors": pickle.load(stream), "features": tasks.features}
    own |= {"device": job["device"], "random_state": point["seed"], "max_iterations": EPOCHS[task]}
    own |= point["settings"]
    if own["features"] is None:
        train, scored = (tasks.Part(plain(p), p.y) for p in (train, scored))

    def timed(step: Any) -> str | None:
        seconds = round(time.perf_counter() - began, 1)
        print(f"{task}, {point['name']}, epoch {step.iteration}: {seconds} s", flush=True)
        return "out of time" if time.time() > job["until"] else None

    model = NeuralCRF(held_out=0.0, patience=100, callbacks=[timed], **own)
    prepared = time.perf_counter()
    validation = (scored.X, scored.y) if stage == "choose" else None
    model.fit(train.X, train.y, validation=validation)
    curve = [row.validation for row in model.outcome_.history]
    figures: dict[str, Any] = {
        "epochs": model.outcome_.iterations,
        "seconds": model.outcome_.seconds,
        "fit_seconds": time.perf_counter() - prepared,
    }
    return point, figures | ({"curve": curve} if validation else measured(model, scored, train))


def plain(part: tasks.Part) -> list[Any]:
    """The words alone."""
    return [[row[0] for row in rows] for rows in part.X]


def measured(model: NeuralCRF, scored: tasks.Part, train: tasks.Part) -> dict[str, Any]:
    """Accuracy, and of names the chunks' scores as conlleval has them."""
    began = time.perf_counter()
    found = [list(tags) for tags in model.predict(scored.X)]
    seconds = time.perf_counter() - began
    known = {row[0] for rows in train.X for row in rows}
    report = tagging_report(scored.y, found, words=plain(scored), known=known)
    figures = {
        "accuracy": report.tokens.accuracy,
        "unseen": report.unseen.accuracy if report.unseen else None,
        "tag_tokens_per_second": report.tokens.total / seconds,
    }
    if any("-" in tag for tag in model.classes_):
        total = chunk_report(scored.y, found).total
        figures |= {"precision": total.precision, "recall": total.recall, "f1": total.f1}
    return figures


def plan(stage: str, wanted: list[str], seeds: int, rows: Rows) -> list[dict[str, Any]]:
    """The points."""
    if stage == "choose":
        return [
            {"stage": stage, "task": task, "name": name, "seed": 0, "settings": own}
            for task in wanted
            for name, own in COMPARED[task].items()
        ]
    return [
        {"stage": stage, "task": task, "name": name, "seed": seed, "settings": own}
        for task in wanted
        for name, own in [best(task, rows)]
        for seed in SEEDS[:seeds]
    ]


def best(task: str, rows: Rows) -> tuple[str, dict[str, Any]]:
    """The settings that were best on held-out sentences at the end; the usual ones of no rows."""
    scores = {"usual": 0.0}
    for row in rows.latest(stage="choose", task=task):
        last = [score for score in row["curve"] if score is not None][-3:]
        scores[row["point"]["name"]] = sum(last) / max(len(last), 1)
    name = max(scores, key=scores.__getitem__)
    return name, COMPARED[task][name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", choices=["choose", "measure"], default="measure")
    parser.add_argument("--data", default=os.environ.get("MRFLEARN_DATA"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="*", choices=list(EPOCHS), default=list(EPOCHS))
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--side-by-side", type=int, default=1, help="trainings at the same time")
    parser.add_argument("--seconds", type=float, help="trainings end after so long, as they are")
    parser.add_argument("--output", type=Path, help="folder of rows")
    options = parser.parse_args()
    if options.data is None:
        sys.exit("name the folder of the data sets with --data or MRFLEARN_DATA")
    folder = options.output or Path(__file__).parent / "results-full"
    folder.mkdir(parents=True, exist_ok=True)
    rows = Rows(folder / "rows.jsonl")
    points = [p for p in plan(options.stage, options.only, options.seeds, rows) if p not in rows]
    began, started = time.perf_counter(), time.time()
    vectors = folder / "vectors.pickle"
    if not vectors.exists():
        with vectors.open("wb") as stream:
            pickle.dump(tasks.vectors(Path(options.data)), stream)
    print(f"vectors after {time.perf_counter() - began:.1f} s", flush=True)
    job = {"data": options.data, "device": options.device, "vectors": str(vectors)}
    job["until"] = started + (options.seconds or 1e9)
    with ProcessPoolExecutor(options.side_by_side, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(one, {**job, "point": p}) for p in points]):
            if (error := done.exception()) is not None:
                print(f"failed: {error!r}", flush=True)
                continue
            point, figures = done.result()
            rows.append(point, figures)
            print(json.dumps({**point, **figures}), flush=True)


if __name__ == "__main__":
    main()

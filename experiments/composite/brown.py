"""One combination of n-gram, grammar and topics on Brown, so that several can run side by side.

    python experiments/composite/brown.py --data FOLDER --model "all three" --device cuda

Rows go to OUTPUT/brown-MODEL.jsonl, checkpoints beside them: a run that was stopped goes on.
`--judge held` looks at held-out documents only, to choose settings by.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where `results` lies

import torch
from results import Rows
from rivals import measure_rivals
from run import PARTS
from texts import Text, brown, treebank

from mrflearn import CompositeLanguageModel

TREES, TOPICS = 3914, 50
SETTINGS = ("model", "horizontal", "iterations", "rounds", "documents")


def model_of(options: argparse.Namespace, text: Text) -> CompositeLanguageModel:
    ngram, grammar, topics = PARTS[options.model]
    return CompositeLanguageModel(
        3 if ngram else 1,
        grammar=text.trees if grammar else None,
        topics=options.topics if topics else 1,
        horizontal=options.horizontal,
        max_iterations=options.iterations,
        rounds=options.rounds,
        vocabulary_size=text.vocabulary_size,
        dtype="float32",
        device=options.device,
        n_jobs=options.jobs,
        verbose=True,
    )


def measure(options: argparse.Namespace, text: Text, name: str) -> dict[str, Any]:
    """A row: perplexities, what was trained, and how long it took."""
    checkpoint = options.output / f"{name}.checkpoint"
    begun = time.perf_counter()
    model = model_of(options, text)
    model.fit(text.train, checkpoint=checkpoint, resume=checkpoint.exists())
    seconds = time.perf_counter() - begun
    row: dict[str, Any] = {"held_out": model.perplexity(text.held)}
    row |= {"training_documents": len(text.train)}
    if options.judge == "test":
        score = model.text_score(text.test)
        row |= {"perplexity": score.perplexity, "tokens": score.tokens}
    row |= {"vocabulary": len(model.vocabulary_), "seconds": round(seconds, 1)}
    row |= {"judged": round(time.perf_counter() - begun - seconds, 1), "device": options.device}
    row |= {"curve": [[r.iteration, r.value, round(r.seconds, 2)] for r in model.fit_.history]}
    if model.topics > 1:
        row |= {"topic_words": model.topic_words(8), "shares": model.fit_.prior.tolist()}
    checkpoint.unlink(missing_ok=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of data sets")
    parser.add_argument("--model", choices=[*PARTS, "rivals"], required=True)
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--horizontal", type=int, default=0)
    parser.add_argument("--topics", type=int, default=TOPICS)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--judge", choices=("held", "test"), default="test")
    parser.add_argument("--output", "-o", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    torch.set_num_threads(1)
    name = f"brown-{options.model.replace(' ', '')}-{options.horizontal}"
    rows = Rows(options.output / f"{name}.jsonl")
    point = {k: getattr(options, k) for k in SETTINGS}
    point |= {"text": "Brown", "scale": f"{options.iterations} steps"}
    if point in rows:
        return
    text = brown(options.data, options.documents, treebank(options.data, TREES).trees)
    if options.model == "rivals":
        measure_rivals(rows, {k: point[k] for k in ("text", "scale")}, text)
        return
    options.output.mkdir(parents=True, exist_ok=True)
    row = rows.append(point, measure(options, text, name))
    shown = {k: v for k, v in row.items() if k not in ("curve", "topic_words", "shares")}
    print(shown, flush=True)


if __name__ == "__main__":
    main()

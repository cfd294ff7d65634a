"""One combination of n-gram, grammar, topics and caches on one text, so that several run at once.

    python experiments/composite/brown.py --data FOLDER --model "all three" --device cuda

Rows go to OUTPUT/TEXT-MODEL.jsonl, what every source makes of every token of the held-out and the
test documents to OUTPUT/TEXT-MODEL.npz, checkpoints beside them: a run that was stopped goes on.
`--judge held` looks at held-out documents only, to choose settings by.  `--model rivals`: n-grams
with and without a cache, and mixtures of what models left in OUTPUT: of grammar and topics alone
(`--no-cache`) with these, and of the sources of a model with caches.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where `results` lies

import numpy as np
import torch
from results import Rows
from rivals import interpolate, interpolate_sources, measure_rivals
from run import PARTS
from texts import Text, brown, plain, treebank

from mrflearn import CompositeLanguageModel

TREES, TOPICS = 3914, {"Brown": 50, "treebank": 5, "plain": 8}
LATENT = (8, 16)
SETTINGS = ("model", "cache", "horizontal", "iterations", "rounds", "longest", "documents")


def text_of(options: argparse.Namespace) -> Text:
    """The text, with the trees its grammar starts from."""
    if options.text == "plain":
        return plain(options.data)
    trees = treebank(options.data, TREES)
    return (
        trees if options.text == "treebank" else brown(options.data, options.documents, trees.trees)
    )


def model_of(options: argparse.Namespace, text: Text) -> CompositeLanguageModel:
    ngram, grammar, topics = PARTS[options.model]
    return CompositeLanguageModel(
        3 if ngram else 1,
        grammar=(text.trees or LATENT) if grammar else None,
        topics=TOPICS[options.text] if topics else 1,
        cache=options.cache,
        horizontal=options.horizontal,
        longest=options.longest,
        max_iterations=options.iterations,
        rounds=options.rounds,
        vocabulary_size=text.vocabulary_size,
        min_count=text.min_count,
        dtype="float64" if options.text == "plain" else "float32",
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
    parts = (
        {"held": text.held, "test": text.test} if options.judge == "test" else {"held": text.held}
    )
    row: dict[str, Any] = {"training_documents": len(text.train)}
    columns: dict[str, np.ndarray] = {}
    for part, documents in parts.items():
        found = model.source_scores(documents)
        columns |= {f"{part}.{name}": value for name, value in found.columns.items()}
        columns |= {f"{part}.classes": found.classes, f"{part}.mixed": found.mixed}
        value = float(np.exp(-np.log(found.mixed).mean()))
        row |= {"held_out": value} if part == "held" else {"perplexity": value}
        row |= {"tokens": len(found.mixed)}
    np.savez_compressed(options.output / f"{name}.npz", **columns)
    row |= {"vocabulary": len(model.vocabulary_), "seconds": round(seconds, 1)}
    row |= {"judged": round(time.perf_counter() - begun - seconds, 1), "device": options.device}
    row |= {"curve": [[r.iteration, r.value, round(r.seconds, 2)] for r in model.fit_.history]}
    if model.topics > 1:
        row |= {"topic_words": model.topic_words(8), "shares": model.fit_.prior.tolist()}
    checkpoint.unlink(missing_ok=True)
    return row


def _parts_alone(options: argparse.Namespace) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What grammar and topics alone make of the tokens of both texts, where they were trained."""
    found = {}
    for part in ("PCFG", "PLSA"):
        path = options.output / f"{options.text}-{part}.npz"
        if path.exists():
            with np.load(path) as columns:
                found[part] = columns["held.composite"], columns["test.composite"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of data sets")
    parser.add_argument("--text", choices=TOPICS, default="Brown")
    parser.add_argument("--model", choices=[*PARTS, "rivals"], required=True)
    parser.add_argument("--cache", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--horizontal", type=int, default=0)
    parser.add_argument("--longest", type=int, default=40)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--judge", choices=("held", "test"), default="test")
    parser.add_argument("--output", "-o", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    torch.set_num_threads(1)
    name = f"{options.text}-{options.model.replace(' ', '')}{'-cache' * options.cache}"
    options.output.mkdir(parents=True, exist_ok=True)
    rows = Rows(options.output / f"{name}.jsonl")
    point = {k: getattr(options, k) for k in SETTINGS}
    point |= {"text": options.text, "scale": f"{options.iterations} steps"}
    if point in rows:
        return
    text = text_of(options)
    if options.model == "rivals":
        own = {k: point[k] for k in ("text", "scale")}
        measure_rivals(rows, own, text)
        if alone := _parts_alone(options):
            interpolate(rows, own, text, alone)
        for path in sorted(options.output.glob(f"{options.text}-*-cache.npz")):
            with np.load(path) as columns:
                interpolate_sources(rows, own, path.stem.removeprefix(f"{options.text}-"), columns)
        return
    row = rows.append(point, measure(options, text, name), Path(__file__))
    shown = {k: v for k, v in row.items() if k not in ("curve", "topic_words", "shares")}
    print(shown, flush=True)


if __name__ == "__main__":
    main()

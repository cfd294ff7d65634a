"""Perplexity of n-gram, grammar and topics, alone, in pairs and together, on three texts.

    python experiments/composite/run.py --scale smoke                # a minute, built-in text
    python experiments/composite/run.py --scale full --data FOLDER   # some hours on two cores

Rows go to OUTPUT/rows.jsonl; a run that was stopped goes on where it was.  Tables and pictures are
made from the rows (--only-draw).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where `results` lies

import numpy as np
from interpolation import best_weights, token_probabilities
from report import write_report
from results import Rows
from rivals import interpolate, measure_rivals
from texts import Text, brown, built_in, treebank

from mrflearn import CompositeLanguageModel

PARTS = {
    "trigram": (True, False, False),
    "PCFG": (False, True, False),
    "PLSA": (False, False, True),
    "trigram + PCFG": (True, True, False),
    "trigram + PLSA": (True, False, True),
    "PCFG + PLSA": (False, True, True),
    "all three": (True, True, True),
}
ALONE = ("trigram", "PCFG", "PLSA")
CACHED = "all three + cache"  # words may come from caches of the document or from longer n-grams


@dataclass(frozen=True)
class Scale:
    """How much of each text (0: none), and how long to train.

    In training, sentences above `longest` teach words and topics but not the grammar.
    """

    name: str
    documents: int
    sentences: int
    trees: int
    brown: int
    topics: dict[str, int]
    iterations: int = 20
    rounds: int = 4
    longest: int = 40


SCALES = {
    scale.name: scale
    for scale in (
        Scale("smoke", 5, 4, 0, 0, {"built-in": 2}, 1, 1, longest=12),
        Scale("medium", 100, 20, 0, 0, {"built-in": 8}),
        Scale("short", 0, 0, 3914, 100, {"treebank": 5, "Brown": 20}, 6, 2, longest=20),
        Scale("full", 300, 20, 3914, 500, {"built-in": 8, "treebank": 5, "Brown": 50}),
    )
}


def texts(scale: Scale, data: Path | None) -> dict[str, Text]:
    found = {}
    if scale.documents:
        found["built-in"] = built_in(scale.documents, scale.sentences)
    if data is not None and scale.trees:
        found["treebank"] = treebank(data, scale.trees)
    if data is not None and scale.brown:
        found["Brown"] = brown(data, scale.brown, treebank(data, scale.trees).trees)
    return found


def model_of(
    name: str, text_name: str, text: Text, scale: Scale, device: str
) -> CompositeLanguageModel:
    ngram, grammar, topics = PARTS[name.removesuffix(" + cache")]
    return CompositeLanguageModel(
        3 if ngram else 1,
        grammar=text.trees if grammar else None,
        topics=scale.topics[text_name] if topics else 1,
        cache=name == CACHED,
        longest=scale.longest,
        max_iterations=scale.iterations,
        rounds=scale.rounds,
        vocabulary_size=text.vocabulary_size,
        min_count=text.min_count,
        dtype="float32",
        device=device,
    )


def measure(
    rows: Rows, name: str, text: Text, scale: Scale, chosen: list[str], device: str
) -> None:
    """A row for each combination, for Kneser-Ney of orders 3 and 5, and for interpolations."""
    for parts in chosen:
        point = {"text": name, "scale": scale.name, "model": parts}
        if point not in rows:
            figures = _combination(name, parts, text, scale, device)
            row = rows.append(point, figures, Path(__file__))
            print(f"{name}: {parts}: perplexity {row['perplexity']:.2f}", flush=True)
    measure_rivals(rows, {"text": name, "scale": scale.name}, text)
    _interpolate(rows, name, scale, text)


def _combination(name: str, parts: str, text: Text, scale: Scale, device: str) -> dict[str, Any]:
    """A trained combination, judged on the test documents and, beside, on the held-out ones."""
    begun = time.perf_counter()
    model = model_of(parts, name, text, scale, device).fit(text.train)
    seconds = time.perf_counter() - begun
    score = model.text_score(text.test)
    row: dict[str, Any] = {"perplexity": score.perplexity, "tokens": score.tokens}
    row |= {"held_out": model.perplexity(text.held)}
    row |= {"vocabulary": len(model.vocabulary_), "seconds": round(seconds, 1), "device": device}
    row |= {"curve": [[r.iteration, r.value] for r in model.fit_.history]}
    if model.topics > 1:
        row |= {"topic_words": model.topic_words(8), "shares": model.fit_.prior.tolist()}
    if parts in ALONE:
        for part, documents in (("held", text.held), ("test", text.test)):
            logs = np.log(token_probabilities(model, documents))
            row[f"{part}_log_probabilities"] = logs.round(5).tolist()
    return {**row, "floor": text.floor}


def _interpolate(rows: Rows, name: str, scale: Scale, text: Text) -> None:
    """Rows for mixtures of parts trained alone, with the best weights for held-out documents."""
    floor = text.floor
    mine = rows.latest(text=name, scale=scale.name)
    alone = {r["point"]["model"]: r for r in mine if "held_log_probabilities" in r}
    for combination, chosen in PARTS.items():
        parts = [part for part, taken in zip(ALONE, chosen, strict=True) if taken]
        point = {"text": name, "scale": scale.name, "model": f"interpolation: {combination}"}
        if len(parts) < 2 or point in rows or not all(part in alone for part in parts):
            continue
        held, test = (
            [np.exp(alone[part][f"{which}_log_probabilities"]) for part in parts]
            for which in ("held", "test")
        )
        weights = best_weights(held)
        row: dict[str, Any] = {"perplexity": _perplexity(test, weights), "floor": floor}
        row |= {"held_out": _perplexity(held, weights)}
        row["weights"] = dict(zip(parts, weights.tolist(), strict=True))
        rows.append(point, row, Path(__file__))
    if {"PCFG", "PLSA"} <= alone.keys():
        columns = {
            part: (
                np.exp(alone[part]["held_log_probabilities"]),
                np.exp(alone[part]["test_log_probabilities"]),
            )
            for part in ("PCFG", "PLSA")
        }
        interpolate(rows, {"text": name, "scale": scale.name}, text, columns)


def _perplexity(columns: list[np.ndarray], weights: np.ndarray) -> float:
    return float(np.exp(-np.log(np.stack(columns, axis=1) @ weights).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="smoke")
    data = os.environ.get("MRFLEARN_DATA")
    parser.add_argument("--data", type=Path, default=Path(data) if data else None)
    parser.add_argument("--output", "-o", type=Path, default=Path(__file__).parent / "output")
    parser.add_argument("--text", choices=("built-in", "treebank", "Brown"), help="this one only")
    every = [*PARTS, CACHED]
    parser.add_argument("--models", nargs="*", choices=[*every, []], help="these combinations only")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only-draw", action="store_true")
    options = parser.parse_args()
    scale = SCALES[options.scale]
    rows = Rows(options.output / "rows.jsonl")
    if not options.only_draw:
        for name, text in texts(scale, options.data).items():
            if options.text in (None, name):
                models = every if options.models is None else options.models
                measure(rows, name, text, scale, models, options.device)
    print(write_report(rows, options.output))


if __name__ == "__main__":
    main()

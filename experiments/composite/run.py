"""Perplexity of n-gram, grammar and topics, alone, in pairs and together, on three texts.

    python experiments/composite/run.py --scale smoke                # a minute, built-in text
    python experiments/composite/run.py --scale full --data FOLDER   # some hours on two cores

Rows go to OUTPUT/rows.jsonl; a run that was stopped goes on where it was.  Tables and pictures are
made from the rows (--only-draw).
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from interpolation import best_weights, token_probabilities
from report import write_report
from rows import Rows
from texts import Text, brown, built_in, treebank

import mrflearn
from mrflearn import CompositeLanguageModel, NgramLanguageModel

PARTS = {
    "trigram": (True, False, False),
    "PCFG": (False, True, False),
    "PLSA": (False, False, True),
    "trigram + PCFG": (True, True, False),
    "trigram + PLSA": (True, False, True),
    "PCFG + PLSA": (False, True, True),
    "all three": (True, True, True),
}


@dataclass(frozen=True)
class Scale:
    """How much of each text (0: none), and how long to train."""

    documents: int
    sentences: int
    trees: int
    brown: int
    topics: dict[str, int]
    latent: tuple[int, int]
    iterations: int
    rounds: int


SCALES = {
    "smoke": Scale(10, 5, 0, 0, {"built-in": 2}, (3, 5), 1, 1),
    "medium": Scale(100, 20, 0, 0, {"built-in": 8}, (5, 10), 12, 4),
    "full": Scale(300, 20, 3914, 500, {"built-in": 8, "treebank": 5, "Brown": 50}, (10, 20), 20, 4),
}


def texts(scale: Scale, data: Path | None) -> dict[str, Text]:
    found = {"built-in": built_in(scale.documents, scale.sentences)}
    if data is not None and scale.trees:
        found["treebank"] = treebank(data, scale.trees)
    if data is not None and scale.brown:
        found["Brown"] = brown(data, scale.brown)
    return found


def model_of(name: str, text_name: str, text: Text, scale: Scale) -> CompositeLanguageModel:
    ngram, grammar, topics = PARTS[name]
    chosen: Any = (text.trees if text.trees is not None else scale.latent) if grammar else None
    return CompositeLanguageModel(
        3 if ngram else 1,
        chosen,
        scale.topics[text_name] if topics else 1,
        max_iterations=scale.iterations,
        rounds=scale.rounds,
        vocabulary_size=text.vocabulary_size,
        minimum_count=text.minimum_count,
        precision="single",
    )


def measure(rows: Rows, name: str, text: Text, scale: Scale) -> None:
    """A row for each combination, for Kneser-Ney of orders 3 and 5, and for the interpolation."""
    for parts in PARTS:
        point = {"text": name, "model": parts}
        if rows.has(point):
            continue
        begun = time.perf_counter()
        model = model_of(parts, name, text, scale).fit(text.train)
        seconds = time.perf_counter() - begun
        score = model.text_score(text.test)
        row = {**point, "perplexity": score.perplexity, "tokens": score.tokens}
        row |= {"vocabulary": len(model.vocabulary_), "seconds": round(seconds, 1)}
        row |= {"curve": [[r.iteration, r.value] for r in model.fit_.history]}
        if model.topics > 1:
            row |= {"topic_words": model.topic_words(8), "shares": model.fit_.prior.tolist()}
        if parts in ("trigram", "PCFG", "PLSA") and text.floor is not None:
            columns = token_probabilities(model, text.test)
            row["token_log_probabilities"] = np.log(columns).round(5).tolist()
        rows.append({**row, "floor": text.floor, "version": mrflearn.__version__})
        print(f"{name}: {parts}: perplexity {score.perplexity:.2f} ({seconds:.0f} s)", flush=True)
    for order in (3, 5):
        point = {"text": name, "model": f"Kneser-Ney {order}-gram"}
        if not rows.has(point):
            settings = {"vocabulary_size": text.vocabulary_size}
            plain = NgramLanguageModel(order, minimum_count=text.minimum_count, **settings)
            plain.fit([words for d in text.train for words in d])
            value = plain.perplexity([words for d in text.test for words in d])
            rows.append({**point, "perplexity": value, "floor": text.floor})
    point = {"text": name, "model": "best interpolation of the three parts"}
    if text.floor is not None and not rows.has(point):
        alone = [r for r in rows if r["text"] == name and "token_log_probabilities" in r]
        columns = [np.exp(r["token_log_probabilities"]) for r in alone]
        weights = best_weights(columns)
        value = float(np.exp(-np.log(np.stack(columns, axis=1) @ weights).mean()))
        found = dict(zip([r["model"] for r in alone], weights.tolist(), strict=True))
        rows.append({**point, "perplexity": value, "weights": found, "floor": text.floor})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="smoke")
    parser.add_argument("--data", type=Path, help="the folder of data sets")
    parser.add_argument("--output", "-o", type=Path, default=Path(__file__).parent / "output")
    parser.add_argument("--only-draw", action="store_true")
    options = parser.parse_args()
    scale = SCALES[options.scale]
    rows = Rows(options.output / f"rows-{options.scale}.jsonl")
    if not options.only_draw:
        for name, text in texts(scale, options.data).items():
            measure(rows, name, text, scale)
    print(write_report(rows, options.output))


if __name__ == "__main__":
    main()

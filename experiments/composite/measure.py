"""What a combination of n-gram, grammar, topics and caches makes of a text."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from runner import Request
from texts import Text, brown, built_in, plain, treebank

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
MIXED = tuple(parts for parts, (ngrams, _, _) in PARTS.items() if ngrams)
TREES = 3914
LATENT = (8, 16)  # phrases and preterminals of a grammar that no trees start


@dataclass(frozen=True)
class Setting:
    """How much there is of the built-in text, and how a model of a text is trained.

    In training, sentences above `longest` teach words and topics but not the grammar.
    """

    topics: int
    iterations: int = 10
    rounds: int = 2
    horizontal: int = 0
    longest: int = 40
    dtype: str = "float32"
    documents: int = 100
    sentences: int = 20


SETTINGS = {
    "smoke": {"built-in": Setting(2, 1, 1, 1, longest=12, documents=5, sentences=4)},
    "full": {
        "built-in": Setting(8, 20, 4, 1),
        "treebank": Setting(5),
        "plain": Setting(8, dtype="float64"),
        "Brown": Setting(50),
    },
}


def setting_of(scale: str, text: str) -> Setting:
    """How a text is learned from at a scale."""
    return SETTINGS[scale][text]


@dataclass(frozen=True)
class Combination:
    """Parts of the model, and what words may come from beside derivations.

    `beside` is "", "parts" (each alone) or "cache" (caches of the document too).
    """

    parts: str
    beside: str = ""

    def __str__(self) -> str:
        return self.parts + f" + {self.beside}" * bool(self.beside)

    def columns(self, text: str, folder: Path) -> Path:
        """Where its sources' probabilities of every token are."""
        return folder / "columns" / f"{text}-{str(self).replace(' ', '')}.npz"


@cache
def text_of(name: str, scale: str, data: Path) -> Text:
    """A text, with the trees its grammar starts from."""
    setting = setting_of(scale, name)
    if name == "built-in":
        return built_in(setting.documents, setting.sentences)
    if name == "plain":
        return plain(data)
    trees = treebank(data, TREES)
    return trees if name == "treebank" else brown(data, 500, trees.trees)


def model_of(own: Combination, text: Text, setting: Setting, device: str) -> CompositeLanguageModel:
    ngrams, grammar, topics = PARTS[own.parts]
    return CompositeLanguageModel(
        3 if ngrams else 1,
        grammar=(text.trees or LATENT) if grammar else None,
        topics=setting.topics if topics else 1,
        cache=own.beside == "cache",
        derivation_only=not own.beside,
        horizontal=setting.horizontal,
        longest=setting.longest,
        max_iterations=setting.iterations,
        rounds=setting.rounds,
        vocabulary_size=text.vocabulary_size,
        min_count=text.min_count,
        dtype=setting.dtype,
        device=device,
    )


def measure(own: Combination, name: str, request: Request) -> dict[str, Any]:
    """Perplexities on held-out and test documents, what was learned, and how long it took."""
    text = text_of(name, request.scale, request.data or Path())
    place = own.columns(name, request.output)
    place.parent.mkdir(parents=True, exist_ok=True)
    checkpoint = place.with_suffix(".checkpoint")
    begun = time.perf_counter()
    model = model_of(own, text, setting_of(request.scale, name), request.device)
    model.fit(text.train, checkpoint=checkpoint, resume=checkpoint.exists())
    seconds = time.perf_counter() - begun
    columns: dict[str, np.ndarray] = {}
    for part, documents in (("held", text.held), ("test", text.test)):
        found = model.source_scores(documents)
        columns |= {f"{part}.{source}": value for source, value in found.columns.items()}
        columns |= {f"{part}.classes": found.classes, f"{part}.mixed": found.mixed}
    np.savez_compressed(place, **columns)
    checkpoint.unlink(missing_ok=True)
    row: dict[str, Any] = {"perplexity": perplexity(columns["test.mixed"])}
    row |= {"held_out": perplexity(columns["held.mixed"]), "tokens": len(columns["test.mixed"])}
    row |= {"vocabulary": len(model.vocabulary_), "floor": text.floor}
    row |= {"seconds": round(seconds, 1), "device": request.device}
    row["judged"] = round(time.perf_counter() - begun - seconds, 1)
    row["curve"] = [[r.iteration, r.value] for r in model.fit_.history]
    if model.topics > 1:
        row |= {"topic_words": model.topic_words(8), "shares": model.fit_.prior.tolist()}
    return row


def perplexity(probabilities: np.ndarray) -> float:
    """Of tokens that a model gives these probabilities."""
    return float(np.exp(-np.log(probabilities).mean()))

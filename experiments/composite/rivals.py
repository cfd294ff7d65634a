"""Cheap rivals: Kneser-Ney, the same with a causal cache of the document, and interpolations.

p(w) = sum_s a_s(n) p_s(w), where the cache says n(w) / n of the n tokens of the document so far.
The weights depend on n alone; they are fitted by EM to the held-out documents [Kuhn, De Mori 1990].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from interpolation import best_weights
from results import Rows
from texts import Documents, Text

from mrflearn import NgramLanguageModel
from mrflearn.models.token_mixture import HISTORIES

# The probabilities of tokens by each source, and the class of each one's history.
Predictions: TypeAlias = tuple[list[np.ndarray], np.ndarray]
LEAST = 50  # tokens that a class of histories needs for weights of its own
BEST = 5  # the order of the n-grams in interpolations
INTERPOLATION = "interpolation with cache: "
NO_SOURCES = {"classes", "mixed", "composite"}  # of what a model's sources say


def measure_rivals(rows: Rows, point: dict[str, str], text: Text) -> None:
    """Rows of n-grams of orders 3 and 5, each without a cache and with one."""
    for order in (3, 5):
        name = f"Kneser-Ney {order}-gram"
        points = {cache: point | {"model": name + " + cache" * cache} for cache in (False, True)}
        if all(own in rows for own in points.values()):
            continue
        held, test = _predictions(text, order)
        weights = _weights(*held)
        for cache, own in points.items():
            chosen = weights if cache else np.array([[1.0, 0.0]])
            figures = {"perplexity": _perplexity(chosen, *test), "tokens": len(test[1])}
            figures |= {"held_out": _perplexity(chosen, *held), "floor": text.floor}
            if own not in rows:
                extra = {"weights": weights.tolist()} if cache else {}
                rows.append(own, figures | extra, Path(__file__))


def interpolate(
    rows: Rows,
    point: dict[str, str],
    text: Text,
    alone: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> None:
    """A row of the best mixture of 5-gram, cache and what parts alone make of both texts."""
    own = point | {"model": INTERPOLATION + " + ".join(("5-gram", *alone))}
    if own in rows:
        return
    held, test = _predictions(text, BEST)
    for one, two in alone.values():
        held[0].append(one)
        test[0].append(two)
    weights = _weights(*held)
    figures = {"perplexity": _perplexity(weights, *test), "tokens": len(test[1])}
    figures |= {"held_out": _perplexity(weights, *held), "floor": text.floor}
    rows.append(own, figures | {"weights": weights.tolist()}, Path(__file__))


def interpolate_sources(
    rows: Rows, point: dict[str, str], model: str, columns: Mapping[str, np.ndarray]
) -> None:
    """A row of the best mixture of what a model's sources, but for the composite, make of texts."""
    own = point | {"model": f"interpolation of the sources of {model}"}
    if own in rows:
        return
    names = {name.partition(".")[2] for name in columns} - {*NO_SOURCES, "n-gram"}
    parts = [
        ([columns[f"{part}.{name}"] for name in ("n-gram", *sorted(names))],
         columns[f"{part}.classes"] % HISTORIES)
        for part in ("held", "test")
    ]  # fmt: skip
    weights = _weights(*parts[0])
    found = {"held_out": _perplexity(weights, *parts[0]), "tokens": len(parts[1][1])}
    found |= {"perplexity": _perplexity(weights, *parts[1]), "sources": ["n-gram", *sorted(names)]}
    rows.append(own, found | {"weights": weights.tolist()}, Path(__file__))


def _predictions(text: Text, order: int) -> tuple[Predictions, Predictions]:
    """What n-grams and cache say of the held-out and of the test documents."""
    model = NgramLanguageModel(
        order, min_count=text.min_count, vocabulary_size=text.vocabulary_size
    )
    model.fit([words for document in text.train for words in document])
    return _columns(model, text.held), _columns(model, text.test)


def _columns(model: NgramLanguageModel, documents: Documents) -> Predictions:
    vocabulary = model.vocabulary_
    by_ngrams, by_cache, classes = [], [], []
    for document in documents:
        seen: Counter[int] = Counter()
        total = 0
        for words in document:
            by_ngrams += np.exp(model.token_scores([words]).log_probability).tolist()
            for symbol in [*vocabulary.encode(words).tolist(), vocabulary.separator]:
                by_cache.append(seen[symbol] / max(1, total))
                classes.append(total.bit_length())
                seen[symbol] += 1
                total += 1
    return [np.array(by_ngrams), np.array(by_cache)], np.array(classes)


def _weights(columns: list[np.ndarray], classes: np.ndarray) -> np.ndarray:
    """The weights of each class, a row each; one with too few tokens has those of the one below."""
    weights = np.zeros((1 + int(classes.max()), len(columns)))
    weights[0, 0] = 1  # without a history the n-grams, unless there is text to say otherwise
    for number in range(len(weights)):
        chosen = classes == number
        if chosen.sum() >= LEAST:
            weights[number] = best_weights([column[chosen] for column in columns])
        elif number:
            weights[number] = weights[number - 1]
    return weights


def _perplexity(weights: np.ndarray, columns: list[np.ndarray], classes: np.ndarray) -> float:
    shares = weights[np.minimum(classes, len(weights) - 1)]
    return float(np.exp(-np.log((shares * np.stack(columns, axis=1)).sum(axis=1)).mean()))

"""Cheap rivals: Kneser-Ney, and Kneser-Ney with a causal unigram cache of the document.

p(w) = (1 - a) p(w | words before) + a n(w) / n, where n counts the tokens of the document so far.
The weight a depends on n alone; it is fitted by EM to the held-out documents [Kuhn, De Mori 1990].
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

import numpy as np
from interpolation import best_weights
from results import Rows
from texts import Documents, Text

from mrflearn import NgramLanguageModel

# The probabilities of tokens by the n-grams and by the cache, and the class of each one's history.
Predictions: TypeAlias = tuple[tuple[np.ndarray, np.ndarray], np.ndarray]
LEAST = 50  # tokens that a class of histories needs for a weight of its own


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
            chosen = weights if cache else np.zeros(1)
            figures = {"perplexity": _perplexity(chosen, *test), "tokens": len(test[1])}
            figures |= {"held_out": _perplexity(chosen, *held), "floor": text.floor}
            if own not in rows:
                rows.append(own, figures | ({"weights": weights.tolist()} if cache else {}))


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
    return (np.array(by_ngrams), np.array(by_cache)), np.array(classes)


def _weights(columns: tuple[np.ndarray, np.ndarray], classes: np.ndarray) -> np.ndarray:
    """The share of the cache for each class; classes beyond the last fitted one have its share."""
    weights = np.zeros(1 + int(classes.max()))
    for number in range(1, len(weights)):
        chosen = classes == number
        enough = chosen.sum() >= LEAST
        weights[number] = (
            best_weights([column[chosen] for column in columns])[1]
            if enough
            else weights[number - 1]
        )
    return weights


def _perplexity(
    weights: np.ndarray, columns: tuple[np.ndarray, np.ndarray], classes: np.ndarray
) -> float:
    share = weights[np.minimum(classes, len(weights) - 1)]
    mixed = (1 - share) * columns[0] + share * columns[1]
    return float(np.exp(-np.log(mixed).mean()))

"""Cheap rivals: Kneser-Ney, the same with a causal cache of the document, and interpolations.

p(w) = sum_s a_s(n) p_s(w), where the cache says n(w) / n of the n tokens of the document so far.
The weights depend on n alone; they are fitted by EM to the held-out documents [Kuhn, De Mori 1990].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from measure import MIXED, PARTS, Combination, perplexity, text_of
from runner import Request
from texts import Documents

from mrflearn import NgramLanguageModel
from mrflearn.models.token_mixture import HISTORIES

# The probabilities of tokens by each source, and the class of each one's history.
Predictions: TypeAlias = tuple[list[np.ndarray], np.ndarray]
Figures: TypeAlias = dict[str, Any]
LEAST = 50  # tokens that a class of histories needs for weights of its own
BEST = 5  # the order of the n-grams in interpolations
ALONE = ("trigram", "PCFG", "PLSA")
# Of what a model's sources say, what is no part of it.
NO_SOURCES = {"classes", "mixed", "composite", "without grammar"}


def kneser_ney(text: str, order: int, with_cache: bool, request: Request) -> Figures:
    """N-grams, without a cache or with one."""
    held, test = _predictions(text, order, request.scale, request.data or Path())
    return _mixed(_weights(*held) if with_cache else np.array([[1.0, 0.0]]), held, test)


def mixtures(text: str, request: Request) -> Iterator[tuple[str, Callable[[], Figures]]]:
    """The names of the mixtures whose parts have been measured, and how they are."""
    alone = {part: Combination(part).columns(text, request.output) for part in ALONE}
    there = {part: path for part, path in alone.items() if path.exists()}
    for combination, chosen in PARTS.items():
        parts = [part for part, taken in zip(ALONE, chosen, strict=True) if taken]
        if len(parts) > 1 and there.keys() >= set(parts):
            paths = [alone[part] for part in parts]
            yield f"interpolation: {combination}", partial(_constant, parts, paths)
    learned = [part for part in ("PCFG", "PLSA") if part in there]
    if learned:
        paths = [alone[part] for part in learned]
        name = " + ".join((f"{BEST}-gram", *learned))
        yield f"interpolation with cache: {name}", partial(_by_history, paths, text, request)
    for own in (Combination(parts, "cache") for parts in MIXED):
        path = own.columns(text, request.output)
        if path.exists():
            yield f"interpolation of the sources of {own}", partial(_sources, path)


def _constant(parts: Sequence[str], paths: Sequence[Path]) -> Figures:
    """The best mixture of what parts alone make of the texts, with the same weights everywhere."""
    held, test = ([_column(path, part, "mixed") for path in paths] for part in ("held", "test"))
    none = (np.zeros(len(found[0]), int) for found in (held, test))
    found = _mixed(best_weights(held)[None], *zip((held, test), none, strict=True))
    return {**found, "parts": list(parts)}


def _by_history(paths: Sequence[Path], text: str, request: Request) -> Figures:
    """The best mixture of 5-gram, cache and what parts alone make of the texts."""
    held, test = (
        ([*columns, *(_column(path, part, "mixed") for path in paths)], classes)
        for part, (columns, classes) in zip(
            ("held", "test"),
            _predictions(text, BEST, request.scale, request.data or Path()),
            strict=True,
        )
    )
    return _mixed(_weights(*held), held, test)


def _sources(path: Path) -> Figures:
    """The best mixture of what a model's sources, but for the composite, make of texts."""
    with np.load(path) as columns:
        names = {name.partition(".")[2] for name in columns} - {*NO_SOURCES, "n-gram"}
        sources = ["n-gram", *sorted(names)]
        held, test = (
            ([columns[f"{part}.{name}"] for name in sources], columns[f"{part}.classes"])
            for part in ("held", "test")
        )
    held, test = (held[0], held[1] % HISTORIES), (test[0], test[1] % HISTORIES)
    return {**_mixed(_weights(*held), held, test), "sources": sources}


def _column(path: Path, part: str, source: str) -> np.ndarray:
    with np.load(path) as columns:
        return np.asarray(columns[f"{part}.{source}"])


def _mixed(weights: np.ndarray, held: Predictions, test: Predictions) -> Figures:
    found = {"perplexity": _perplexity(weights, *test), "tokens": len(test[1])}
    found |= {"held_out": _perplexity(weights, *held), "weights": weights.tolist()}
    return found


@cache
def _predictions(text: str, order: int, scale: str, data: Path) -> tuple[Predictions, Predictions]:
    """What n-grams and cache say of the held-out and of the test documents."""
    found = text_of(text, scale, data)
    model = NgramLanguageModel(
        order, min_count=found.min_count, vocabulary_size=found.vocabulary_size
    )
    model.fit([words for document in found.train for words in document])
    return _columns(model, found.held), _columns(model, found.test)


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


def best_weights(columns: list[np.ndarray], steps: int = 300) -> np.ndarray:
    """The weights of a mixture under which these tokens are most probable, by EM."""
    values = np.stack(columns, axis=1)
    weights = np.full(len(columns), 1 / len(columns))
    for _ in range(steps):
        share = weights * values
        weights = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights


def _perplexity(weights: np.ndarray, columns: list[np.ndarray], classes: np.ndarray) -> float:
    shares = weights[np.minimum(classes, len(weights) - 1)]
    return perplexity((shares * np.stack(columns, axis=1)).sum(axis=1))

"""The probability of any string under the built-in English, all derivations summed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mrflearn.datasets.english import (
    Mixture,
    checked_mixture,
    english,
    with_articles,
    without_articles,
)
from support.grammar_inside import InsideAlgorithm

Array = NDArray[np.float64]


def log_probability(words: Sequence[str], mixture: Mixture) -> float:
    """log p(sentence | mixture) in nats, topics and derivations summed out; -inf if impossible."""
    return float(log_probabilities([words], mixture)[0])


def log_probabilities(sentences: Sequence[Sequence[str]], mixture: Mixture) -> Array:
    """log p(sentence | mixture) of each sentence; those of one length are computed together."""
    weights = checked_mixture(mixture)
    classes = english().word_classes
    tables = {symbol: known.joint(weights).sum(0) for symbol, known in classes.items()}
    return _log_weights(sentences, _inside(count=False), tables)


def count_derivations(sentences: Sequence[Sequence[str]]) -> Array:
    """The number of derivations of each sentence: 1, or 0 if it is not of the grammar."""
    tables = {symbol: np.ones(len(known.words)) for symbol, known in english().word_classes.items()}
    return np.exp(_log_weights(sentences, _inside(count=True), tables))


@cache
def _inside(*, count: bool) -> InsideAlgorithm:
    return InsideAlgorithm.of(english().grammar, count=count)


def _log_weights(
    sentences: Sequence[Sequence[str]], inside: InsideAlgorithm, tables: dict[str, Array]
) -> Array:
    """log of the summed weight of each sentence, given the weight of each word in each class."""
    rows = _rows(tables)
    nothing = np.zeros(len(tables))
    lengths = np.array([len(words) for words in sentences], dtype=np.intp)
    result = np.full(len(sentences), -np.inf)
    for length in set(lengths.tolist()) - {0}:
        which = np.flatnonzero(lengths == length).tolist()
        plain = [without_articles(sentences[i]) for i in which]
        scores = np.array([[rows.get(word, nothing) for word in words] for words in plain])
        right = [with_articles(words) for words in plain]
        spelt = [words == tuple(sentences[i]) for words, i in zip(right, which, strict=True)]
        result[which] = np.where(spelt, inside.log_weights(scores), -np.inf)
    return result


def _rows(tables: dict[str, Array]) -> dict[str, Array]:
    """For each word its weight in each class, in the order of the grammar's terminals."""
    rows: dict[str, Array] = {}
    for position, (symbol, weights) in enumerate(tables.items()):
        for word, weight in zip(english().word_classes[symbol].words, weights, strict=True):
            rows.setdefault(word, np.zeros(len(tables)))[position] = weight
    return rows

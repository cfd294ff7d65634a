"""The exact entropy of the built-in English, and the probability of any text under it.

Given a document's mixture, sentences are independent, and the topic of a word, drawn for that
word alone, is summed out at the word: sentences come from a plain grammar.  As no sentence has
two derivations, the entropy of sentences as strings is that of derivations without topics,
which a linear system gives exactly.  Spelling "an" for "a" follows from the next word and changes
nothing.  A reader who is not told the mixture of a document needs at most log 30 nats more for
the whole document.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp

from mrflearn.datasets.english import Document, WordClass, english, with_articles
from mrflearn.datasets.grammar_inside import InsideAlgorithm
from mrflearn.errors import DataError

Array = NDArray[np.float64]
Mixture = Sequence[float]


@dataclass(frozen=True, slots=True)
class Entropy:
    """Nats per sentence, and over how many words, punctuation included, they are spread."""

    per_sentence: float
    words_per_sentence: float

    @property
    def per_word(self) -> float:
        return self.per_sentence / self.words_per_sentence

    @property
    def perplexity(self) -> float:
        """The lowest perplexity per word that a model can reach."""
        return math.exp(self.per_word)

    @property
    def perplexity_with_ends(self) -> float:
        """The same where the end of a sentence, free after its full stop, counts as a word."""
        return math.exp(self.per_sentence / (self.words_per_sentence + 1))


def entropy_per_sentence(
    mixture: Mixture | None = None, *, of: Literal["strings", "derivations"] = "strings"
) -> Entropy:
    """The exact entropy of a sentence given its document's mixture; None: the mean over mixtures.

    Derivations include the topic of every content word, strings do not.
    """
    source = english()
    entropy = {"strings": _entropy_of_word, "derivations": _entropy_of_topic_and_word}[of]
    totals = [
        source.grammar.entropy(
            {symbol: entropy(known, weights) for symbol, known in source.word_classes.items()}
        )
        for weights in (source.mixtures if mixture is None else [_checked(mixture)])
    ]
    return Entropy(math.fsum(totals) / len(totals), source.grammar.expected_length)


def log_probability(words: Sequence[str], mixture: Mixture) -> float:
    """log p(sentence | mixture) in nats, topics and derivations summed out; -inf if impossible."""
    return float(log_probabilities([words], mixture)[0])


def log_probabilities(sentences: Sequence[Sequence[str]], mixture: Mixture) -> Array:
    """log p(sentence | mixture) of each sentence; those of one length are computed together."""
    weights = _checked(mixture)
    tables = {symbol: known.mixed(weights) for symbol, known in english().word_classes.items()}
    return _log_weights(sentences, _inside(count=False), tables)


def count_derivations(sentences: Sequence[Sequence[str]]) -> Array:
    """The number of derivations of each sentence: 1, or 0 if it is not of the grammar."""
    tables = {symbol: np.ones(len(known.words)) for symbol, known in english().word_classes.items()}
    return np.exp(_log_weights(sentences, _inside(count=True), tables))


def document_log_probability(document: Document) -> float:
    """log p(all sentences) of a sampled document, in nats, its mixture and topics summed out.

    It goes by the sentences' recorded derivations, which is fast and, as they are the only
    ones, exact.
    """
    source = english()
    mixtures = np.array(source.mixtures)
    total = np.full(len(mixtures), math.fsum(s.log_structure for s in document.sentences))
    for sentence in document.sentences:
        for word, symbol in zip(without_articles(sentence.words), sentence.classes, strict=True):
            known = source.word_classes[symbol]
            column = known.probabilities[:, known.column[word]]
            with np.errstate(divide="ignore"):
                total += np.log(mixtures @ column if known.topical else column)
    return float(logsumexp(total) - math.log(len(mixtures)))


def without_articles(words: Sequence[str]) -> tuple[str, ...]:
    """The words with "an" written as "a", as the grammar has it."""
    return tuple("a" if word == "an" else word for word in words)


def _checked(mixture: Mixture) -> Mixture:
    topics = english().topics
    weights = np.asarray(mixture, dtype=np.float64)
    if weights.shape != (len(topics),) or (weights < 0).any() or abs(weights.sum() - 1) > 1e-9:
        raise DataError(
            f"{list(mixture)} is not a mixture of topics: it takes {len(topics)} weights that are "
            f"not negative and sum to 1, for {', '.join(topics)}."
        )
    return mixture


def _entropy_of_word(known: WordClass, mixture: Mixture) -> float:
    return float(entr(known.mixed(mixture)).sum())


def _entropy_of_topic_and_word(known: WordClass, mixture: Mixture) -> float:
    if not known.topical:
        return float(entr(known.probabilities).sum())
    return float(entr(np.asarray(mixture)[:, None] * known.probabilities).sum())


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

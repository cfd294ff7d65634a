"""`TextScore`: the log-probability of a text, and the methods that every language model has."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.corpus import UNKNOWN, Vocabulary
from mrflearn.models.ngram import BEGIN, END, TokenScores

TextScoreKind = Literal["exact", "bound", "ring", "ais", "pl"]
MOST_NATS = 700.0  # per token; the exponential of more overflows


@final
@dataclass(frozen=True)
class TextScore:
    """The log-probability of a text in nats, and what it is spread over.

    Attributes
    ----------
    log_likelihood
        Log-probability of the text, or the bound or estimate that `kind` names, in nats.
    words
        Number of words, unknown ones included.
    sentences
        Number of sentences; each has one end, which is a token.
    unknown
        Number of words scored as `<unk>`.
    kind
        `"exact"`; or, of a `LanguageModel`: `"bound"`, a proven lower bound for the text as one
        ring; `"ring"`, that ring exactly; `"ais"`, the ring with log Z estimated by annealed
        importance sampling; `"pl"`, the pseudo-log-likelihood: the sum over words of
        log p(word | all others), which is not a probability of the text.  The `"exact"` value of a
        `LanguageModel` is of sentences given their lengths.
    positions
        Positions of the ring of a `LanguageModel`, `context` separators per sentence included;
        None for other models.
    known_log_likelihood
        Log-probability of all tokens but unknown words, where tokens are scored one by one.
    standard_error
        Standard error of `log_likelihood`; 0 unless it is an estimate.
    effective_chains
        Effective number of annealed chains, for `"ais"`.
    reliable
        Whether an estimate rests on enough chains; an `AccuracyWarning` is given where not.

    """

    log_likelihood: float
    words: int
    sentences: int
    unknown: int
    kind: TextScoreKind = "exact"
    positions: int | None = None
    known_log_likelihood: float | None = None
    standard_error: float = 0.0
    effective_chains: float | None = None
    reliable: bool = True

    @classmethod
    def of_tokens(cls, scores: TokenScores) -> TextScore:
        """The score of a text whose tokens were scored one by one."""
        values, sentences = scores.log_probability, int(np.count_nonzero(scores.ends))
        return cls(
            float(values.sum()),
            len(values) - sentences,
            sentences,
            int(np.count_nonzero(scores.unknown)),
            known_log_likelihood=float(values[~scores.unknown].sum()),
        )

    @classmethod
    def of_sentences(
        cls,
        log_likelihoods: NDArray[np.float64],
        sentences: Sequence[Sequence[str]],
        vocabulary: Vocabulary,
    ) -> TextScore:
        """The score of sentences that were scored as a whole, each with its end."""
        words = [word for sentence in sentences for word in sentence]
        unknown = sum(word not in vocabulary or word == UNKNOWN for word in words)
        return cls(float(log_likelihoods.sum()), len(words), len(sentences), unknown)

    @classmethod
    def total(cls, scores: Sequence[TextScore]) -> TextScore:
        """The score of a text whose documents were scored token by token, each by itself."""
        names = ("log_likelihood", "words", "sentences", "unknown", "known_log_likelihood")
        whole = cls(**{name: sum(getattr(own, name) for own in scores) for name in names})
        if not whole.tokens:
            raise DataError("there is nothing to score: no words. Is the file empty?")
        return whole

    @property
    def tokens(self) -> int:
        """Words and one end for each sentence."""
        return self.words + self.sentences

    @property
    def nats_per_token(self) -> float:
        """Mean log-probability of a token."""
        return self.log_likelihood / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """Perplexity per token; an upper bound on it where `kind` is `"bound"`.

        It does not compare with that of other models where `kind` is `"pl"`, or where sentence
        lengths are given.
        """
        return _perplexity(self.nats_per_token)

    @property
    def perplexity_without_unknown(self) -> float | None:
        """Perplexity with unknown words left out of both the sum and the count, where known.

        It is lower, and compares only over equal vocabularies.
        """
        if self.known_log_likelihood is None:
            return None
        known = self.tokens - self.unknown
        return _perplexity(self.known_log_likelihood / known) if known else math.nan

    @property
    def per_position(self) -> float:
        """Mean over positions of the ring; over tokens where there is no ring."""
        return self.log_likelihood / (self.positions or self.tokens)

    @property
    def per_word(self) -> float:
        """Mean over words."""
        return self.log_likelihood / self.words

    @property
    def per_sentence(self) -> float:
        """Mean over sentences."""
        return self.log_likelihood / self.sentences

    def figures(self) -> dict[str, Any]:
        """All that is known, as plain values by name."""
        found = asdict(self) | {
            "tokens": self.tokens,
            "nats_per_token": self.nats_per_token,
            "perplexity": self.perplexity,
            "perplexity_without_unknown": self.perplexity_without_unknown,
        }
        return {name: value for name, value in found.items() if value is not None}


class ScoresText(ABC):
    """A language model: `score`, `perplexity` and `text_score` of a text."""

    @abstractmethod
    def text_score(self, X: Any) -> TextScore:
        """The log-probability of a text, and what it is spread over."""

    def score(self, X: Any, y: object = None) -> float:
        """Mean log-probability of a token.

        Parameters
        ----------
        X
            The text, as `fit` takes it.
        y
            Ignored; scikit-learn passes it to every estimator.

        Returns
        -------
        float
            Nats per token; words and one end per sentence are tokens.

        """
        del y
        return self.text_score(X).nats_per_token

    def perplexity(self, X: Any) -> float:
        """Perplexity per token.

        Parameters
        ----------
        X
            The text, as `fit` takes it.

        Returns
        -------
        float
            exp(-score); words, unknown ones included, and one end per sentence are tokens.

        """
        return self.text_score(X).perplexity


class OpenVocabulary(ScoresText):
    """A language model that scores words outside its vocabulary as `<unk>`."""

    min_count: int
    vocabulary_size: int | None
    unknown_seen_: bool  # whether the training text held `<unk>`

    @property
    def unknown_policy_(self) -> str:
        """How words outside the vocabulary are scored, in words."""
        ordinary = "an ordinary word of the training text"
        share = ordinary if self.unknown_seen_ else "which the training text did not hold"
        return f"words outside the vocabulary are scored as {UNKNOWN}, {share}"

    def _chosen_words(self, counts: Mapping[str, int]) -> Vocabulary:
        """The vocabulary; an error where a text holds the marks of sentence boundaries."""
        for mark in (BEGIN, END):
            if mark in counts:
                raise DataError(
                    f"the text holds the word {mark} {counts[mark]} times, which here stands for "
                    "a sentence boundary. Take it out: every line is a sentence."
                )
        return Vocabulary.from_counts(counts, size=self.vocabulary_size, min_count=self.min_count)


def best_words(
    chances: NDArray[np.float64], vocabulary: Vocabulary, n: int
) -> list[tuple[str, float]]:
    """The n most probable words with their probabilities; `</s>` stands for the sentence end."""
    best = np.argsort(-chances, kind="stable")[:n].tolist()
    ends = {vocabulary.separator: END}
    return [(ends.get(i, vocabulary.words[i]), float(chances[i])) for i in best]


def _perplexity(mean: float) -> float:
    # A mean that overflows stands for an impossible token.
    return math.exp(-mean) if not mean < -MOST_NATS else math.inf

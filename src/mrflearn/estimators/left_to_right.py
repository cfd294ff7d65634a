"""What language models share that read a sentence from left to right, up to its end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np

from mrflearn.errors import DataError
from mrflearn.estimators.base import Estimator
from mrflearn.io.corpus import Text
from mrflearn.io.vocabulary import UNKNOWN
from mrflearn.models.ngram import TokenScores
from mrflearn.models.ngram_arpa import BEGIN, END


class LeftToRight(Estimator):
    """A model with a probability for every word and sentence end, given the words before."""

    @abstractmethod
    def token_scores(self, X: Text) -> TokenScores:
        """The log-probability of every word and sentence end, with which words were unknown."""

    def score(self, X: Text, y: object = None) -> float:
        """The mean log-probability of a token, in nats; sentence ends count as tokens."""
        del y  # scikit-learn passes it to every estimator
        return float(self.token_scores(X).log_probability.mean())

    def perplexity(self, X: Text) -> float:
        """The perplexity per token; sentence ends and unknown words count as tokens."""
        return float(np.exp(-self.score(X)))


def refuse_marks(counts: Mapping[str, int]) -> None:
    """An error where a text holds the marks that stand for the edges of sentences."""
    for mark in (BEGIN, END):
        if mark in counts:
            raise DataError(
                f"the text holds the word {mark} {counts[mark]} times, which here stands for "
                "the edge of a sentence. Take it out: every line is a sentence."
            )


def unknown_policy(seen: bool) -> str:
    """How words outside the vocabulary are scored, in words; `seen`: the text held `<unk>`."""
    ordinary, new = "an ordinary word of the training text", "which the training text did not hold"
    share = ordinary if seen else new
    return f"words outside the vocabulary are scored as {UNKNOWN}, {share}"

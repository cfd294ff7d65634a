"""`NgramLanguageModel`: interpolated modified Kneser-Ney of any order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Parts
from mrflearn.estimators.left_to_right import LeftToRight, refuse_marks, unknown_policy
from mrflearn.features.ngrams import count_ngrams, sentence_stream
from mrflearn.io.arpa import read_arpa, write_arpa
from mrflearn.io.corpus import Text, count_corpus, encode_corpus, hold
from mrflearn.io.files import PathLike
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.models.kneser_ney import adjusted_counts, discounts, kneser_ney
from mrflearn.models.ngram import TABLE_PARTS, BackoffTable, NgramModel, TokenScores
from mrflearn.models.ngram_arpa import END, from_arpa, to_arpa
from mrflearn.models.storage import texts


class NgramLanguageModel(LeftToRight):
    """An n-gram language model with interpolated modified Kneser-Ney smoothing.

    order: the longest n-gram; a trigram model looks at two words before each.
    minimum_count, vocabulary_size: rarer words, and words beyond that many (`<S>` and `<unk>`
        counted in), are read as `<unk>`; by default every word of the training text is kept.

    `<unk>` in the training text is an ordinary word.  Where it does not occur, a new word has the
    probability of one word that was never seen, as in KenLM.
    """

    def __init__(
        self,
        order: int = 3,
        *,
        minimum_count: int = 1,
        vocabulary_size: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.order = order
        self.minimum_count = minimum_count
        self.vocabulary_size = vocabulary_size
        self.random_state = random_state

    def fit(self, X: Text, y: object = None) -> Self:
        """Learns from lists of words, or from a text file with one sentence a line."""
        del y  # scikit-learn passes it to every estimator
        if self.order < 1:
            raise SettingsError(f"order={self.order}: an n-gram has at least one word.")
        text = hold(X)
        counts = count_corpus(text)
        refuse_marks(counts)
        vocabulary = Vocabulary.from_counts(
            counts, size=self.vocabulary_size, minimum_count=self.minimum_count
        )
        stream = sentence_stream(encode_corpus(text, vocabulary), vocabulary.separator)
        grams = count_ngrams(stream, self.order, len(vocabulary), vocabulary.separator)
        self.model_ = kneser_ney(grams, vocabulary)
        found = [discounts(adjusted) for adjusted in adjusted_counts(grams)]
        self.discounts_: list[list[float]] = [values.tolist() for values, _ in found]
        self.fallback_orders_ = [n for n, (_, fell) in enumerate(found, start=1) if fell]
        self.unknown_seen_ = bool(grams[0].count[vocabulary.unknown])
        return self

    @property
    def vocabulary_(self) -> Vocabulary:
        """The words, with `<S>` for the edge of a sentence and `<unk>` for any other word."""
        return self._fitted().vocabulary

    @property
    def ngrams_(self) -> list[int]:
        """The number of n-grams of each order."""
        return [len(table) for table in self._fitted().tables]

    def token_scores(self, X: Text) -> TokenScores:
        """The log-probability of every word and sentence end, with which words were unknown."""
        model = self._fitted()
        stream = sentence_stream(encode_corpus(hold(X), model.vocabulary), self._separator)
        if len(stream) < 2:
            raise DataError("there is nothing to score: no words. Is the file empty?")
        ends = stream[1:] == self._separator
        unknown = stream[1:] == model.vocabulary.unknown
        return TokenScores(model.log_probabilities(stream), ends, unknown)

    def score_samples(self, X: Text) -> NDArray[np.float64]:
        """The log-probability of each sentence with its end, in nats; blank ones are skipped."""
        scores = self.token_scores(X)
        before = np.concatenate([[0], np.flatnonzero(scores.ends)[:-1] + 1])
        return np.asarray(np.add.reduceat(scores.log_probability, before))

    def next_word(self, words: Sequence[str] = (), top: int = 10) -> list[tuple[str, float]]:
        """The most probable continuations of a sentence's beginning; `</s>` is its end."""
        model = self._fitted()
        figures = model.next_symbol(model.vocabulary.encode(words).tolist())
        best = np.argsort(-figures, kind="stable")[:top].tolist()
        return [(self._name(index), float(np.exp(figures[index]))) for index in best]

    def sample(
        self, count: int = 1, *, seed: int | None = None, longest: int = 200
    ) -> list[list[str]]:
        """New sentences, each cut off after `longest` words."""
        model = self._fitted()
        generator = np.random.default_rng(self.random_state if seed is None else seed)
        drawn = (model.sample(generator, longest) for _ in range(count))
        return [model.vocabulary.decode(ids) for ids in drawn]

    def export(self, path: PathLike) -> None:
        """Writes the model as an ARPA file, for KenLM, SRILM and others."""
        if Path(str(path).removesuffix(".gz")).suffix != ".arpa":
            raise SettingsError(f"{path}: an n-gram model is exported to a name in .arpa.")
        write_arpa(path, to_arpa(self._fitted()))

    @classmethod
    def from_arpa(cls, path: PathLike) -> Self:
        """The model in an ARPA file, however it was made."""
        try:
            model = from_arpa(read_arpa(path))
        except DataError as error:
            if error.path is not None:
                raise
            raise DataError(error.problem, path=path) from error
        self = cls(order=model.order)
        self.model_ = model
        self.unknown_seen_ = False
        return self

    def _learned_parts(self) -> Parts:
        model = self._fitted()
        tensors = {
            f"{part}.{n}": torch.from_numpy(getattr(table, part))
            for n, table in enumerate(model.tables, start=1)
            for part in TABLE_PARTS
        }
        words = list(model.vocabulary.words)
        return {"words": words, "unknown_seen": self.unknown_seen_}, tensors

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        tables = tuple(
            BackoffTable(*(tensors[f"{part}.{n}"].cpu().numpy() for part in TABLE_PARTS))
            for n in range(1, self.order + 1)
        )
        self.model_ = NgramModel(Vocabulary(texts(learned, "words")), tables)
        self.unknown_seen_ = bool(learned["unknown_seen"])

    @property
    def unknown_policy_(self) -> str:
        """How words outside the vocabulary are scored, in words."""
        return unknown_policy(self.unknown_seen_)

    @property
    def _separator(self) -> int:
        return self._fitted().vocabulary.separator

    def _name(self, index: int) -> str:
        return END if index == self._separator else self.vocabulary_.words[index]

    def _fitted(self) -> NgramModel:
        model: NgramModel = self._after_fit("model_")
        return model

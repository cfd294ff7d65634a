"""`CRF`: a linear-chain conditional random field; takes the place of `sklearn_crfsuite.CRF`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator

from mrflearn.errors import NotFittedError
from mrflearn.estimators import crf_answers as answers
from mrflearn.estimators.crf_rules import Rules, at_temperature
from mrflearn.estimators.crf_spans import ScoredSpan, scored_spans
from mrflearn.estimators.crf_training import Settings, train
from mrflearn.execution.device import choose_device
from mrflearn.execution.threads import count_cores
from mrflearn.models.chain_crf import ChainCRF, ChainScores
from mrflearn.objectives.chain_blocks import ChainData
from mrflearn.statistics.compiled import CompiledFeatures, compile_features
from mrflearn.statistics.features import Numbering
from mrflearn.statistics.labels import compile_labels
from mrflearn.statistics.support import find_support
from mrflearn.training.temperature import fit_temperature

SEQUENCES_AT_ONCE = 1_000  # in answers: bounds memory, changes no result


class CRF(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A linear-chain conditional random field."""

    def __init__(
        self,
        algorithm: str = "lbfgs",
        min_freq: float = 0.0,
        all_possible_states: bool = False,
        all_possible_transitions: bool = False,
        c1: float = 0.0,
        c2: float = 1.0,
        max_iterations: int | None = None,
        num_memories: int = 6,
        epsilon: float = 1e-5,
        period: int = 10,
        delta: float = 1e-5,
        *,
        order: int = 1,
        batch_size: int = 32,
        dtype: str = "float32",
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.algorithm = algorithm
        self.min_freq = min_freq
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.c1 = c1
        self.c2 = c2
        self.max_iterations = max_iterations
        self.num_memories = num_memories
        self.epsilon = epsilon
        self.period = period
        self.delta = delta
        self.order = order
        self.batch_size = batch_size
        self.dtype = dtype
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Iterable[Any], y: Iterable[Any]) -> Self:
        """Learns from sequences of items and their labels."""
        features = X if isinstance(X, CompiledFeatures) else compile_features(X)
        labels = compile_labels(y, features.lengths, Numbering())
        support, features = find_support(
            features,
            labels,
            order=self.order,
            min_freq=self.min_freq,
            all_states=self.all_possible_states,
            all_transitions=self.all_possible_transitions,
        )
        device, dtype = choose_device(self.device), getattr(torch, self.dtype)
        start = ChainCRF.zeros(support, dtype, device)
        self.outcome_ = train(start, ChainData(features, labels), self._settings())
        self.model_ = self.outcome_.model
        return self

    @property
    def classes_(self) -> list[str]:
        """The labels, in the order of their first appearance."""
        return list(self._fitted().support.labels)

    def predict(self, X: Iterable[Any], rules: Rules | None = None) -> list[list[str]]:
        """The most probable labels of each sequence, among those that the rules allow."""
        labels = self.classes_
        return [own for c in self._chains(X, rules) for own in answers.best_labels(c, labels)]

    def predict_single(self, xseq: Iterable[Any]) -> list[str]:
        """The most probable labels of one sequence."""
        return self.predict([xseq])[0]

    def predict_marginals(
        self, X: Iterable[Any], rules: Rules | None = None
    ) -> list[list[dict[str, float]]]:
        """The probability of every label at every token."""
        labels = self.classes_
        return [own for c in self._chains(X, rules) for own in answers.marginal_dicts(c, labels)]

    def predict_spans(
        self, X: Iterable[Any], n_best: int = 1, rules: Rules | None = None
    ) -> list[list[ScoredSpan]]:
        """The chunks of the best labelling (or of the n best), with their exact probabilities."""
        labels = self.classes_
        return [own for c in self._chains(X, rules) for own in scored_spans(c, labels, n_best)]

    def calibrate(self, X: Iterable[Any], y: Iterable[Any]) -> Self:
        """Fits `temperature_`, by which all scores are divided, on data not trained on.

        Predictions stay the same; probabilities come to mean what they say.
        """
        model = self._fitted()
        features = compile_features(X, model.support.attributes, model.support.columns)
        labels = compile_labels(y, features.lengths, model.support.labels)
        chains = model.chains(features)
        score = answers.path_scores(chains, labels.states)
        self.temperature_ = fit_temperature(chains.unary, chains.table, chains.steps, score)
        return self

    def score(self, X: Iterable[Any], y: Sequence[Sequence[str]]) -> float:
        """The share of tokens whose label is right."""
        right = total = 0
        for predicted, gold in zip(self.predict(X), y, strict=True):
            right += sum(a == b for a, b in zip(predicted, gold, strict=True))
            total += len(gold)
        return right / total if total else 0.0

    def _chains(self, X: Iterable[Any], rules: Rules | None = None) -> Iterator[ChainScores]:
        model, labels = self._fitted(), self.classes_
        sequences, first = iter(X), 0
        while part := list(islice(sequences, SEQUENCES_AT_ONCE)):
            features = compile_features(part, model.support.attributes, model.support.columns)
            chains = at_temperature(model.chains(features), getattr(self, "temperature_", 1.0))
            if rules is not None:
                chains = rules.part(first, first + len(part)).lay_on(chains, labels)
            yield chains
            first += len(part)

    def _settings(self) -> Settings:
        return Settings(
            self.algorithm,
            self.c1,
            self.c2,
            self.max_iterations,
            self.num_memories,
            self.epsilon,
            self.period,
            self.delta,
            self.batch_size,
            count_cores(self.n_jobs),
            self.random_state,
            self.verbose,
        )

    def _fitted(self) -> ChainCRF:
        model: ChainCRF | None = getattr(self, "model_", None)
        if model is None:
            raise NotFittedError("this CRF is not fitted yet; call `fit`, or `load` one.")
        return model

"""`FactorialCRF`: several layers of labels over the same tokens, learned together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from numpy.typing import ArrayLike

from mrflearn.errors import DataError
from mrflearn.estimators.crf_choice import Wanted
from mrflearn.estimators.crf_validation import accuracy
from mrflearn.estimators.field_crf_answers import Method, log_probabilities
from mrflearn.estimators.layered_sequences import (
    Decoded,
    LayerChances,
    LayeredSequences,
    Layers,
    split_layers,
)
from mrflearn.execution.executor import Executor
from mrflearn.models.sequence_batches import FeaturesOn
from mrflearn.objectives.field_objectives import Pieces
from mrflearn.statistics.compiled import compile_features
from mrflearn.statistics.features import Numbering
from mrflearn.statistics.labels import compile_labels
from mrflearn.training.callbacks import Callback, Watcher


class FactorialCRF(LayeredSequences):
    """Chains of labels side by side, coupled at every token [Sutton and McCallum 2009, eq. 40].

    `X` is what `CRF` takes: lists of sequences of items.  `y[i][k]` are the labels of layer k of
    sequence i; None in place of a label is unknown, a set is any of these.

    estimator: "pw" (piecewise), "pwpl", "pl", "edge-pl", "pw-reweighted", "bp" or "ml"; "auto"
        takes the one that suits the data, and `choice_` says which and why.
    coupled: pairs of layers joined at each token; None joins each layer to the next.
    features_on: "edges" (as in the paper), "nodes" or "both".
    pieces: of "pw": "factors", or "edges" with the factors of their ends.
    c1, c2: c1 * sum |w| + c2 * sum w^2 is added; a Gaussian prior of variance v is c2 = 1 / 2v.
    min_freq, all_possible_pairs: which weights there are: pairs of attribute and labels that were
        seen so often, or all.
    algorithm, max_iterations, num_memories, epsilon, period, delta, batch_size: as of `CRF`.
    inference: how answers are found: "auto" (exact where the width allows), "exact", "bp", and for
        probabilities "trw".
    executor: where values and gradients are summed; None: here, on `n_jobs` cores.
    """

    reads_words = False

    def __init__(
        self,
        estimator: Wanted = "pw",
        *,
        coupled: Sequence[tuple[int, int]] | None = None,
        features_on: FeaturesOn = "edges",
        pieces: Pieces = "factors",
        c1: float = 0.0,
        c2: float = 0.05,
        min_freq: float = 0.0,
        all_possible_pairs: bool = False,
        algorithm: str = "lbfgs",
        max_iterations: int | None = None,
        num_memories: int = 6,
        epsilon: float = 1e-5,
        period: int = 10,
        delta: float = 1e-5,
        batch_size: int = 32,
        inference: Method = "auto",
        callbacks: Sequence[Callback | Watcher] = (),
        executor: Executor | None = None,
        n_jobs: int | None = None,
        dtype: str = "float32",
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.coupled = coupled
        self.features_on = features_on
        self.pieces = pieces
        self.c1 = c1
        self.c2 = c2
        self.min_freq = min_freq
        self.all_possible_pairs = all_possible_pairs
        self.algorithm = algorithm
        self.max_iterations = max_iterations
        self.num_memories = num_memories
        self.epsilon = epsilon
        self.period = period
        self.delta = delta
        self.batch_size = batch_size
        self.inference = inference
        self.callbacks = callbacks
        self.executor = executor
        self.n_jobs = n_jobs
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Iterable[Any], y: Iterable[Any], sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learns from sequences of items and the labels of their layers."""
        by_layer = split_layers(y)
        features = compile_features(X)
        if not features.tokens or not by_layer:
            raise DataError("there is no token with a label to learn from.")
        labels = [compile_labels(own, features.lengths, Numbering()) for own in by_layer]
        coupled = self.coupled
        if coupled is None:
            coupled = [(i, i + 1) for i in range(len(labels) - 1)]
        return self._fit(features, labels, coupled, sample_weight)

    def predict(self, X: Iterable[Any], forced: Iterable[Any] | None = None) -> list[Layers]:
        """The best labels of each layer of each sequence.

        `forced` has labels that must hold, laid out like y: None leaves a token free.
        """
        return [own.layers for own in self.decode(X, forced)]

    def decode(self, X: Iterable[Any], forced: Iterable[Any] | None = None) -> list[Decoded]:
        """The best labels, their scores, and whether they are surely the best."""
        return self._decoded(self._asked(X), forced)

    def predict_marginals(
        self, X: Iterable[Any], forced: Iterable[Any] | None = None
    ) -> list[LayerChances]:
        """For each sequence, layer and token the probability of every label."""
        return self._probabilities(self._asked(X), forced)

    def decode_layers(self, X: Iterable[Any], words: object = None) -> list[Decoded]:
        """`decode`; words are not looked at."""
        del words
        return self.decode(X)

    def layer_marginals(self, X: Iterable[Any], words: object = None) -> list[LayerChances]:
        """`predict_marginals`; words are not looked at."""
        del words
        return self.predict_marginals(X)

    def n_best(
        self, X: Iterable[Any], n: int = 5, forced: Iterable[Any] | None = None
    ) -> list[list[Decoded]]:
        """The n best labellings of each sequence, best first; exact."""
        return self._best(self._asked(X), n, forced)

    def log_prob(self, X: Iterable[Any], y: Iterable[Any]) -> list[float]:
        """log p(y | x) of each sequence, in nats, by the inference that `inference` names."""
        return log_probabilities(self._fitted(), self._asked(X, layers=y), self.inference)

    def score(self, X: Iterable[Any], y: Iterable[Any]) -> float:
        """The share of tokens that are right in every layer."""
        gold, found = list(y), self.predict(X)
        if len(gold) != len(found):
            raise DataError(f"X has {len(found)} sequences and y has {len(gold)}.")
        split_layers(gold, len(self.names_))  # complains where layers do not fit
        true = [list(zip(*own, strict=True)) for own in gold]
        guess = [list(zip(*own, strict=True)) for own in found]
        return accuracy(true, guess)

    @property
    def classes_(self) -> list[list[str]]:
        """The labels of each layer."""
        self._fitted()
        return [list(own) for own in self.names_]

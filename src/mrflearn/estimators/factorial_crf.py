"""`FactorialCRF`: several layers of labels over the same tokens, learned together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from mrflearn.errors import DataError
from mrflearn.estimators.crf_answers import Given, known_labels
from mrflearn.estimators.labelling import accuracy
from mrflearn.estimators.layered_sequences import (
    Decoded,
    LayerArrays,
    LayeredSequences,
    LayerMarginals,
    Layers,
    split_layers,
)
from mrflearn.execution.executor import Executor
from mrflearn.features.features import Numbering, compile_features, compile_labels
from mrflearn.io.files import PathLike
from mrflearn.training.checkpoint import Checkpoint, Stages


@dataclass(kw_only=True, eq=False, repr=False)
class FactorialCRF(LayeredSequences):
    """Chains of labels side by side, coupled at every token [Sutton and McCallum 2009, eq. 40].

    Parameters
    ----------
    coupled
        Pairs of layers joined at each token; None joins each layer to the next.
    features
        As in `CRF`.
    features_on
        `"edges"` (as in the paper), `"nodes"` or `"both"`.
    pieces
        Of `estimator="pw"`: `"factors"`, or `"edges"` with the factors of their ends.
    estimator, shares, c1, c2, min_freq, all_possible_pairs, algorithm, max_iterations, ...
        All others as in `GraphCRF`.

    Attributes
    ----------
    classes_
        The labels of each layer.
    outcome_, choice_
        As in `GraphCRF`.

    """

    coupled: Sequence[tuple[int, int]] | None = None

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any],
        sample_weight: ArrayLike | None = None,
        *,
        executor: Executor | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from sequences of items and the labels of their layers.

        Parameters
        ----------
        X
            Sequences of items, as `CRF` takes them.
        y
            `y[i][k]` are the labels of layer k of sequence i; None in place of a label is unknown,
            a set is any of these.
        sample_weight
            The weight of each sequence.
        executor
            Where value and gradient are summed; None: here, on `n_jobs` cores.
        checkpoint, resume
            As in `CRF.fit`.

        Returns
        -------
        the fitted CRF itself

        """
        by_layer = split_layers(y)
        features = compile_features(self._extracted(X, len(by_layer)))
        if not features.tokens or not by_layer:
            raise DataError("there is no token with a label to learn from.")
        labels = [compile_labels(own, features.lengths, Numbering()) for own in by_layer]
        coupled = self.coupled
        if coupled is None:
            coupled = [(i, i + 1) for i in range(len(labels) - 1)]
        saved = Stages(checkpoint, resume)
        return self._fit(features, labels, coupled, sample_weight, saved, executor)

    def predict(self, X: Iterable[Any], constraints: Given = None) -> list[Layers]:
        """The best labels of each layer of each sequence.

        Parameters
        ----------
        X
            Sequences of items, as `fit` takes them.
        constraints
            Known labels laid out like y (None where a token is free), or `Constraints(forced=...)`.

        Returns
        -------
        for each sequence a list of layers, each a list of labels

        """
        return [own.layers for own in self.decode(X, constraints)]

    def decode(self, X: Iterable[Any], constraints: Given = None) -> list[Decoded]:
        """The best labels, their scores, and whether they are certain to be the best.

        Parameters
        ----------
        X, constraints
            As in `predict`.

        Returns
        -------
        list of (layers, score, kind, converged)

        """
        return self._best(self._asked(self._items(X), known_labels(constraints)))

    def predict_marginals(
        self, X: Iterable[Any], constraints: Given = None
    ) -> list[LayerMarginals]:
        """The marginal probability of every label of each layer at each token.

        Parameters
        ----------
        X, constraints
            As in `predict`.

        Returns
        -------
        for each sequence a list of layers, each a list of {label: probability}, one per token

        """
        return self._dicts(self._asked(self._items(X), known_labels(constraints)))

    def predict_proba(self, X: Iterable[Any], constraints: Given = None) -> list[LayerArrays]:
        """The same marginals as arrays.

        Parameters
        ----------
        X, constraints
            As in `predict`.

        Returns
        -------
        for each sequence a list of layers, each an array, tokens x labels in the order of
        `classes_[layer]`

        """
        return self._arrays(self._asked(self._items(X), known_labels(constraints)))

    def n_best(
        self, X: Iterable[Any], n: int = 5, constraints: Given = None
    ) -> list[list[Decoded]]:
        """The n best labellings of each sequence, exactly.

        Parameters
        ----------
        X, constraints
            As in `predict`.
        n
            How many; there may be fewer.

        Returns
        -------
        for each sequence a list of (layers, score, kind, converged), best first

        """
        return self._ranked(self._asked(self._items(X), known_labels(constraints)), n)

    def log_prob(self, X: Iterable[Any], y: Iterable[Any]) -> list[float]:
        """log p(y | x) of each sequence, in nats, by the inference that `inference` names."""
        return self._log_prob(self._asked(self._items(X), y))

    def score(self, X: Iterable[Any], y: Iterable[Any]) -> float:
        """The share of tokens that are right in every layer."""
        gold, found = list(y), self.predict(X)
        split_layers(gold, len(self.names_))  # complains where layers do not fit
        true = [list(zip(*own, strict=True)) for own in gold]
        guess = [list(zip(*own, strict=True)) for own in found]
        return accuracy(true, guess)

    @property
    def classes_(self) -> list[list[str]]:
        """The labels of each layer."""
        self._fitted()
        return [list(own) for own in self.names_]

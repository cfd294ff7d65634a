"""`FactorialCRF`: several layers of labels over the same tokens, learned together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from mrflearn.errors import DataError
from mrflearn.estimators.crf_validation import accuracy
from mrflearn.estimators.field_crf_answers import log_probabilities
from mrflearn.estimators.layered_sequences import (
    Decoded,
    LayerChances,
    LayeredSequences,
    Layers,
    split_layers,
)
from mrflearn.features.compiled import compile_features
from mrflearn.features.features import Numbering
from mrflearn.features.labels import compile_labels
from mrflearn.io.files import PathLike
from mrflearn.training.checkpoint import Checkpoint, Stages


@dataclass(kw_only=True, eq=False, repr=False)
class FactorialCRF(LayeredSequences):
    """Chains of labels side by side, coupled at every token [Sutton and McCallum 2009, eq. 40].

    `X` is what `CRF` takes: lists of sequences of items.  `y[i][k]` are the labels of layer k of
    sequence i; None in place of a label is unknown, a set is any of these.

    coupled: pairs of layers joined at each token; None joins each layer to the next.
    features_on: "edges" (as in the paper), "nodes" or "both".
    pieces: of "pw": "factors", or "edges" with the factors of their ends.
    Everything else is as of `GraphCRF`.
    """

    coupled: Sequence[tuple[int, int]] | None = None

    reads_words = False

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any],
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from sequences of items and the labels of their layers.

        checkpoint, resume: as of `CRF.fit`.
        """
        by_layer = split_layers(y)
        features = compile_features(X)
        if not features.tokens or not by_layer:
            raise DataError("there is no token with a label to learn from.")
        labels = [compile_labels(own, features.lengths, Numbering()) for own in by_layer]
        coupled = self.coupled
        if coupled is None:
            coupled = [(i, i + 1) for i in range(len(labels) - 1)]
        saved = Stages(checkpoint, resume)
        return self._fit(features, labels, coupled, sample_weight, saved)

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

"""`SkipChainCRF`: a chain of labels, with edges between far tokens that should agree."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Self

from numpy.typing import ArrayLike

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.crf_validation import accuracy
from mrflearn.estimators.field_crf_answers import log_probabilities
from mrflearn.estimators.layered_sequences import (
    Decoded,
    LayerChances,
    LayeredSequences,
    Words,
    joined_tokens,
)
from mrflearn.features.compiled import compile_features
from mrflearn.features.features import Numbering
from mrflearn.features.labels import compile_labels
from mrflearn.features.skips import SKIP_RULES, SkipRule, Skips, apply_rule
from mrflearn.io.files import PathLike
from mrflearn.training.checkpoint import Checkpoint, Stages

Rule = str | SkipRule
GIVEN = "given"  # what a stored CRF says of a rule that was a function


@dataclass(kw_only=True, eq=False, repr=False)
class SkipChainCRF(LayeredSequences):
    """A chain whose far tokens are joined by a rule [Sutton and McCallum 2009, eq. 41].

    `X` and `y` are what `CRF` takes, a sequence being a whole document; `words` are its tokens,
    which the rule reads.

    rule: "capitalised" joins all occurrences of the same capitalised word, "same-word" those of
        any word; or a function from the words of a document to pairs of positions.
    start: "chain" first trains the chain without skip edges, by maximum likelihood, and begins
        with its weights; belief propagation ("bp") needs that to converge.
    features_on: "edges" (as in the paper), "nodes" or "both".
    pieces: of "pw": "factors", or "edges" with the factors of their ends.
    Everything else is as of `GraphCRF`.
    """

    rule: Rule = "capitalised"
    start: Literal["zero", "chain"] = "zero"

    reads_words = True

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any],
        words: Words,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from documents: items, labels and words of their tokens.

        checkpoint, resume: as of `CRF.fit`.
        """
        if self.start not in ("zero", "chain"):
            raise SettingsError(f"start={self.start!r} is not one of zero, chain.")
        features = compile_features(X)
        if not features.tokens:
            raise DataError("there is no token to learn from.")
        labels = compile_labels(y, features.lengths, Numbering())
        skips = joined_tokens(self._joined(words, features.lengths.tolist()), features.lengths)
        from_chain = self.start == "chain"
        saved = Stages(checkpoint, resume)
        return self._fit(features, [labels], (), sample_weight, saved, skips, from_chain)

    def predict(
        self, X: Iterable[Any], words: Words, forced: Iterable[Any] | None = None
    ) -> list[list[str]]:
        """The best label of each token; `forced` has labels that must hold, None where free."""
        return [own.layers[0] for own in self.decode(X, words, forced)]

    def decode(
        self, X: Iterable[Any], words: Words, forced: Iterable[Any] | None = None
    ) -> list[Decoded]:
        """The best labels (as the only layer), their scores, and whether they are the best."""
        X, pairs = self._read(X, words)
        return self._decoded(self._asked(X, pairs), _as_layers(forced))

    def predict_marginals(
        self, X: Iterable[Any], words: Words, forced: Iterable[Any] | None = None
    ) -> list[list[dict[str, float]]]:
        """The probability of every label of each token."""
        X, pairs = self._read(X, words)
        found = self._probabilities(self._asked(X, pairs), _as_layers(forced))
        return [own[0] for own in found]

    def decode_layers(self, X: Iterable[Any], words: Words | None = None) -> list[Decoded]:
        """`decode`, the labels being the only layer."""
        return self.decode(X, () if words is None else words)

    def layer_marginals(self, X: Iterable[Any], words: Words | None = None) -> list[LayerChances]:
        """`predict_marginals`, the labels being the only layer."""
        return [[own] for own in self.predict_marginals(X, () if words is None else words)]

    def n_best(
        self, X: Iterable[Any], words: Words, n: int = 5, forced: Iterable[Any] | None = None
    ) -> list[list[Decoded]]:
        """The n best labellings of each document, best first; exact, where the width allows."""
        X, pairs = self._read(X, words)
        return self._best(self._asked(X, pairs), n, _as_layers(forced))

    def log_prob(self, X: Iterable[Any], y: Iterable[Any], words: Words) -> list[float]:
        """log p(y | x) of each document, in nats, by the inference that `inference` names."""
        X, pairs = self._read(X, words)
        batch = self._asked(X, pairs, _as_layers(y))
        return log_probabilities(self._fitted(), batch, self.inference)

    def score(self, X: Iterable[Any], y: Iterable[Any], words: Words) -> float:
        """The share of tokens whose label is right."""
        gold, found = list(y), self.predict(X, words)
        if len(gold) != len(found):
            raise DataError(f"X has {len(found)} sequences and y has {len(gold)}.")
        return accuracy(gold, found)

    @property
    def classes_(self) -> list[str]:
        """The labels."""
        self._fitted()
        return list(self.names_[0])

    def _stored_settings(self) -> dict[str, Any]:
        # A rule that is a function must be given again to `load`.
        own = super()._stored_settings()
        return own if isinstance(self.rule, str) else {**own, "rule": GIVEN}

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, rule: Rule | None = None, device: str = "cpu"
    ) -> Self:
        """The CRF that `save` wrote, with its own rule or the one given."""
        loaded = super().load(path, device=device)
        if rule is not None:
            loaded.rule = rule
        return loaded

    def _read(self, X: Iterable[Any], words: Words) -> tuple[list[Any], list[Skips]]:
        documents = [list(document) for document in X]
        return documents, self._joined(words, [len(document) for document in documents])

    def _joined(self, words: Words, lengths: list[int]) -> list[Skips]:
        rule = self._rule()
        pairs = []
        for number, own in enumerate(words):
            if number < len(lengths) and len(own) != lengths[number]:
                raise DataError(
                    f"document {number} has {lengths[number]} items and {len(own)} words."
                )
            pairs.append(apply_rule(rule, own))
        return pairs

    def _rule(self) -> SkipRule:
        if not isinstance(self.rule, str):
            return self.rule
        if self.rule == GIVEN:
            raise SettingsError(
                "this CRF was trained with a rule of its user's own, which is not stored: load it "
                "with SkipChainCRF.load(path, rule=...)."
            )
        if self.rule not in SKIP_RULES:
            raise SettingsError(
                f"rule {self.rule!r} is not one of {', '.join(SKIP_RULES)}; it may also be a "
                "function from words to pairs of positions."
            )
        return SKIP_RULES[self.rule]


def _as_layers(labels: Iterable[Any] | None) -> list[list[Any]] | None:
    return None if labels is None else [[own] for own in labels]

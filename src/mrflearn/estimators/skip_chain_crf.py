"""`SkipChainCRF`: a chain of labels, with edges between far tokens that should agree."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.crf_answers import Given, known_labels
from mrflearn.estimators.labelling import accuracy
from mrflearn.estimators.layered_sequences import Decoded, LayeredSequences, Words, joined_tokens
from mrflearn.execution.executor import Executor
from mrflearn.features.features import Numbering, compile_features, compile_labels
from mrflearn.features.recipes import MADE
from mrflearn.io.files import PathLike
from mrflearn.models.field_batch import FieldBatch
from mrflearn.training.checkpoint import Checkpoint, Stages

Skips = list[tuple[int, int]]
SkipRule = Callable[[Sequence[str]], Sequence[tuple[int, int]]]
Rule = str | SkipRule
WordOf = Callable[[Any], str]
GIVEN = "given"  # what a stored CRF says of a rule that was a function


@dataclass(kw_only=True, eq=False, repr=False)
class SkipChainCRF(LayeredSequences):
    """A chain whose far tokens are joined by a rule [Sutton and McCallum 2009, eq. 41].

    Parameters
    ----------
    rule
        `"capitalised"` joins all occurrences of the same capitalised word, `"same-word"` those of
        any word; in Python also a function from the words of a document to pairs of positions.
    word
        Where the rule finds a token's word: the feature of that name (`{"word": "Paris"}`, or
        `"word=Paris"` in a list of names; `"w[0]"` for `word_features`), or a function from an
        item to its word.  None: words are given to every method as `words=`.  With `features` of
        words or rows, the words are those.
    start
        `"chain"` first trains the chain without skip edges, by maximum likelihood, and begins
        with its weights; belief propagation (`"bp"`) needs that to converge.
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
        The labels, in the order of their first appearance.
    outcome_, choice_
        As in `GraphCRF`.

    """

    rule: Rule = "capitalised"
    word: str | WordOf | None = "word"
    start: Literal["zero", "chain"] = "zero"

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any],
        sample_weight: ArrayLike | None = None,
        *,
        words: Words | None = None,
        executor: Executor | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from documents and the labels of their tokens.

        Parameters
        ----------
        X
            Documents, each a sequence of items, as `CRF` takes them.
        y
            The labels of their tokens; None in place of a label is unknown, a set is any of these.
        sample_weight
            The weight of each document.
        words
            The words of each document's tokens, where the items do not have them; see `word`.
        executor
            Where value and gradient are summed; None: here, on `n_jobs` cores.
        checkpoint, resume
            As in `CRF.fit`.

        Returns
        -------
        the fitted CRF itself

        """
        if self.start not in ("zero", "chain"):
            raise SettingsError(f"start={self.start!r} is not one of zero, chain.")
        X = [list(document) for document in X]
        items = [list(own) for own in self._extracted(X)]
        pairs = self._read(X, items, words)
        features = compile_features(items)
        if not features.tokens:
            raise DataError("there is no token to learn from.")
        labels = compile_labels(y, features.lengths, Numbering())
        skips = joined_tokens(pairs, features.lengths)
        from_chain = self.start == "chain"
        saved = Stages(checkpoint, resume)
        return self._fit(features, [labels], (), sample_weight, saved, executor, skips, from_chain)

    def predict(
        self, X: Iterable[Any], constraints: Given = None, *, words: Words | None = None
    ) -> list[list[str]]:
        """The best label of each token.

        Parameters
        ----------
        X, words
            Documents, as `fit` takes them.
        constraints
            Known labels laid out like y (None where a token is free), or `Constraints(forced=...)`.

        Returns
        -------
        list of lists of labels

        """
        return [own.layers[0] for own in self.decode(X, constraints, words=words)]

    def decode(
        self, X: Iterable[Any], constraints: Given = None, *, words: Words | None = None
    ) -> list[Decoded]:
        """The best labels (as the only layer), their scores, and whether they are the best.

        Parameters
        ----------
        X, constraints, words
            As in `predict`.

        Returns
        -------
        list of (layers, score, kind, converged)

        """
        return self._best(self._documents(X, words, known_labels(constraints)))

    def predict_marginals(
        self, X: Iterable[Any], constraints: Given = None, *, words: Words | None = None
    ) -> list[list[dict[str, float]]]:
        """The marginal probability of every label at each token.

        Parameters
        ----------
        X, constraints, words
            As in `predict`.

        Returns
        -------
        list of lists of {label: probability}

        """
        batch = self._documents(X, words, known_labels(constraints))
        return [own for (own,) in self._dicts(batch)]

    def predict_proba(
        self, X: Iterable[Any], constraints: Given = None, *, words: Words | None = None
    ) -> list[NDArray[np.float64]]:
        """The same marginals as arrays.

        Parameters
        ----------
        X, constraints, words
            As in `predict`.

        Returns
        -------
        list of arrays, tokens x labels in the order of `classes_`

        """
        batch = self._documents(X, words, known_labels(constraints))
        return [own for (own,) in self._arrays(batch)]

    def n_best(
        self,
        X: Iterable[Any],
        n: int = 5,
        constraints: Given = None,
        *,
        words: Words | None = None,
    ) -> list[list[Decoded]]:
        """The n best labellings of each document; exact, so the width must allow it.

        Parameters
        ----------
        X, constraints, words
            As in `predict`.
        n
            How many; there may be fewer.

        Returns
        -------
        for each document a list of (layers, score, kind, converged), best first

        """
        return self._ranked(self._documents(X, words, known_labels(constraints)), n)

    def log_prob(
        self, X: Iterable[Any], y: Iterable[Any], *, words: Words | None = None
    ) -> list[float]:
        """log p(y | x) of each document, in nats, by the inference that `inference` names."""
        return self._log_prob(self._documents(X, words, y))

    def score(self, X: Iterable[Any], y: Iterable[Any], *, words: Words | None = None) -> float:
        """The share of tokens whose label is right."""
        return accuracy(list(y), self.predict(X, words=words))

    @property
    def classes_(self) -> list[str]:
        """The labels, in the order of their first appearance."""
        self._fitted()
        return list(self.names_[0])

    def _stored_settings(self) -> dict[str, Any]:
        # Functions must be given again to `load`.
        own = super()._stored_settings()
        if not isinstance(self.rule, str):
            own["rule"] = GIVEN
        if callable(self.word):
            own["word"] = None
        return own

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        rule: Rule | None = None,
        word: str | WordOf | None = None,
        device: str = "cpu",
    ) -> Self:
        """The CRF that `save` wrote.

        Parameters
        ----------
        path
            A model directory.
        rule, word
            Functions are not stored: give them again.  None: as stored.
        device
            Where the weights are read to.

        """
        loaded = super().load(path, device=device)
        if rule is not None:
            loaded.rule = rule
        if word is not None:
            loaded.word = word
        return loaded

    def _documents(
        self, X: Iterable[Any], words: Words | None, y: Iterable[Any] | None = None
    ) -> FieldBatch:
        self._fitted()
        X = [list(document) for document in X]
        items = [list(own) for own in self._items(X)]
        layers = None if y is None else [[own] for own in y]
        return self._asked(items, layers, self._read(X, items, words))

    def _read(self, X: list[Any], items: list[Any], words: Words | None) -> list[Skips]:
        """The pairs of positions that the rule joins in each document."""
        rule, recipe = self._rule(), getattr(self, "recipe_", None)
        if words is None and recipe is not None and (recipe.columns or recipe.format in MADE):
            words = map(recipe.words, X)
        elif words is None:
            word_of = self._word_of()
            words = [[word_of(item) for item in document] for document in items]
        pairs = []
        for number, own in enumerate(words):
            if number < len(items) and len(own) != len(items[number]):
                raise DataError(
                    f"document {number} has {len(items[number])} items and {len(own)} words."
                )
            pairs.append(apply_rule(rule, own))
        return pairs

    def _word_of(self) -> WordOf:
        if self.word is None:
            raise SettingsError(
                "the rule needs the words of all tokens, and word=None: give words=..., or say "
                "which feature is a token's word, as in word='w[0]'."
            )
        return self.word if callable(self.word) else NamedWord(self.word)

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


@dataclass(frozen=True)
class NamedWord:
    """The word of an item: the value of its feature of that name."""

    name: str

    def __call__(self, item: Any) -> str:
        """The text; `DataError` where the item has none."""
        if isinstance(item, Mapping):
            word = item.get(self.name)
            if isinstance(word, str):
                return word
        elif not isinstance(item, str) and isinstance(item, Sequence | set | frozenset):
            start = f"{self.name}="
            for attribute in item:
                if isinstance(attribute, str) and attribute.startswith(start):
                    return attribute.removeprefix(start)
        raise DataError(
            f"an item has no word: neither {{{self.name!r}: WORD}} nor '{self.name}=WORD' is in "
            f"{item!r:.80}. Name the feature that is the word with word=..., or give words=..."
        )


# Which tokens of a document are joined: rules from words to pairs of positions.


def same_capitalised_word(words: Sequence[str]) -> Skips:
    """All pairs of positions where the same capitalised word stands [Sutton 2009, eq. 41]."""
    return _joined(words, lambda word: word[:1].isupper())


def same_word(words: Sequence[str]) -> Skips:
    """All pairs of positions where the same word stands, if it has a letter or a digit."""
    return _joined(words, lambda word: any(sign.isalnum() for sign in word))


SKIP_RULES: dict[str, SkipRule] = {"capitalised": same_capitalised_word, "same-word": same_word}


def apply_rule(rule: SkipRule, words: Sequence[str]) -> Skips:
    """The pairs (u, v), u < v, that a rule gives, without neighbours, which the chain joins."""
    pairs = set()
    for u, v in rule(words):
        if not (0 <= u < len(words) and 0 <= v < len(words)) or u == v:
            raise DataError(
                f"the skip rule joins positions {u} and {v} of {len(words)} words. A rule gives "
                f"pairs of two different positions from 0 to {len(words) - 1}."
            )
        if abs(u - v) > 1:
            pairs.add((min(u, v), max(u, v)))
    return sorted(pairs)


def _joined(words: Sequence[str], wanted: Callable[[str], bool]) -> Skips:
    places: dict[str, list[int]] = defaultdict(list)
    for position, word in enumerate(words):
        if wanted(word):
            places[word].append(position)
    return [pair for found in places.values() for pair in combinations(found, 2)]

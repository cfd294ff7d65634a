"""CRFs over sequences whose graphs are more than one chain: several layers, or skip edges."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, pairwise
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Int64
from numpy.typing import ArrayLike
from sklearn.base import clone
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.field_crf import FieldCRF
from mrflearn.execution.executor import Executor
from mrflearn.features.features import (
    Numbering,
    compile_features,
    compile_labels,
    sequence_weights,
    warn_of_single_label,
)
from mrflearn.features.index import FactorTemplate
from mrflearn.features.recipes import MADE
from mrflearn.io.files import PathLike
from mrflearn.models.field_batch import FeaturesOn, FieldBatch, SequenceWiring, sequence_batch
from mrflearn.models.loglinear import LogLinearField
from mrflearn.models.storage import texts
from mrflearn.objectives.field_objectives import Pieces
from mrflearn.training.checkpoint import Checkpoint, Stages

Words = Iterable[Sequence[str]]
Skips = list[tuple[int, int]]
SkipRule = Callable[[Sequence[str]], Sequence[tuple[int, int]]]
Rule = str | SkipRule
WordOf = Callable[[Any], str]
GIVEN = "given"  # what a stored CRF says of a rule that was a function


@dataclass(kw_only=True, eq=False, repr=False)
class LayeredSequences(FieldCRF):
    """A CRF whose graphs are chains of labels over the tokens of sequences.

    An estimator derives from it, and says which layers are coupled and which tokens are joined.
    """

    features_on: FeaturesOn = "edges"
    pieces: Pieces | None = "factors"

    wiring_: SequenceWiring = field(init=False)

    def _fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any],
        coupled: Sequence[tuple[int, int]] | None,
        sample_weight: ArrayLike | None,
        executor: Executor | None,
        saved: Stages,
        *,
        from_chain: bool = False,
        **inputs: Any,
    ) -> Self:
        """Learns from sequences, where asked from the weights of the chains alone."""
        by_layer = self._by_layer(y)
        X = [own if isinstance(own, str) else list(own) for own in X]
        items = [list(own) for own in self._extracted(X, len(by_layer))]
        features, joined = compile_features(items), self._joined(X, items, **inputs)
        if not features.tokens or not by_layer:
            raise DataError("there is no token with a label to learn from.")
        labels = [compile_labels(own, features.lengths, Numbering()) for own in by_layer]
        for own in labels:
            warn_of_single_label(own.names)
        sizes = tuple(len(own.names) for own in labels)
        pairs = pairwise(range(len(labels))) if coupled is None else ((i, j) for i, j in coupled)
        wiring = SequenceWiring(sizes, tuple(pairs), self.features_on)
        weight = sequence_weights(features.lengths, labels[0], None, sample_weight)

        def learn(
            model: Self, skips: Int64[Tensor, "n 2"] | None, start: LogLinearField | None = None
        ) -> LogLinearField:
            batch = sequence_batch(wiring, features, labels, skips=skips, weight=weight)
            checkpoint, resume = saved.next()
            how: dict[str, Any] = {"executor": executor, "checkpoint": checkpoint, "resume": resume}
            return model._train(batch, start, **how).model_

        start = None
        if from_chain:
            # [Sutton and McCallum 2009, 5.1.3] From uniform weights loopy BP may not converge.
            self._report("first without skip edges, by maximum likelihood:")
            start = learn(clone(self).set_params(estimator="ml"), None)
            self._report(f"now with skip edges, by {self.estimator}:")
        learn(self, joined_tokens(joined, features.lengths), start)
        for own in labels:
            own.names.closed = True
        self.names_, self.wiring_ = tuple(own.names for own in labels), wiring
        return self

    def _asked(
        self, X: Iterable[Any], y: Iterable[Any] | None = None, **inputs: Any
    ) -> tuple[list[Any], FieldBatch]:
        model = self._fitted()
        first, only = model.templates[0], [template.name for template in model.templates]
        X = [own if isinstance(own, str) else list(own) for own in X]
        items = [list(own) for own in self._items(X)]
        features, labels = compile_features(items, first.names, first.columns), None
        skips = joined_tokens(self._joined(X, items, **inputs), features.lengths)
        if y is not None:
            pairs = zip(self._by_layer(y, len(self.names_)), self.names_, strict=True)
            labels = [compile_labels(own, features.lengths, names) for own, names in pairs]
        return items, sequence_batch(self.wiring_, features, labels, skips=skips, only=only)

    def _joined(self, X: list[Any], items: list[Any]) -> list[Skips] | None:  # noqa: ARG002
        """The pairs of tokens of each sequence that skip edges join; None: there are none."""
        return None

    def _by_layer(self, y: Iterable[Any], layers: int | None = None) -> list[list[Any]]:
        """The labels of each layer and sequence."""
        return [list(y)] if self.single else split_layers(y, layers)

    def _layers(self, examples: Sequence[Any], y: Iterable[Any]) -> list[list[list[Any]]]:
        del examples
        return [list(own) for own in zip(*self._by_layer(y, len(self.names_)), strict=True)]

    def _form(self, example: Any, layers: Any) -> Any:
        del example
        return layers[0] if self.single else layers

    def _axis_labels(self, template: FactorTemplate) -> list[list[str]]:
        """The labels along the axes of a group's factors; see `sequence_batches` for its name."""
        kind, _, numbers = template.name.partition(" ")
        layers = [int(number) for number in numbers.split(",")]
        layers = layers * 2 if kind in ("pairwise", "skip") else layers
        return [list(self.names_[layer]) for layer in layers]

    def _state(self) -> dict[str, Any]:
        coupled = [list(pair) for pair in self.wiring_.coupled]
        return {"labels": [list(own) for own in self.names_], "coupled": coupled}

    def _restore_inputs(self, state: dict[str, Any]) -> None:
        self.names_ = tuple(
            Numbering(texts({"labels": own}, "labels"), closed=True) for own in state["labels"]
        )
        sizes = tuple(len(own) for own in self.names_)
        coupled = tuple((i, j) for i, j in state["coupled"])
        self.wiring_ = SequenceWiring(sizes, coupled, self.features_on)


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

    single: ClassVar[bool] = False
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
        saved = Stages(checkpoint, resume)
        return self._fit(X, y, self.coupled, sample_weight, executor, saved)


@dataclass(kw_only=True, eq=False, repr=False)
class SkipChainCRF(LayeredSequences):
    """A chain with skip edges between tokens that a rule joins [Sutton and McCallum 2009, eq. 41].

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
        how: dict[str, Any] = {"from_chain": self.start == "chain", "words": words}
        return self._fit(X, y, (), sample_weight, executor, Stages(checkpoint, resume), **how)

    def _stored_settings(self) -> dict[str, Any]:
        # Functions must be given again to `load`.
        rule = self.rule if isinstance(self.rule, str) else GIVEN
        word = None if callable(self.word) else self.word
        return super()._stored_settings() | {"rule": rule, "word": word}

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

    def _joined(self, X: list[Any], items: list[Any], words: Words | None = None) -> list[Skips]:
        """The pairs of positions that the rule joins in each document."""
        rule, recipe = self._rule(), getattr(self, "recipe_", None)
        if words is None and recipe is not None and (recipe.columns or recipe.format in MADE):
            words = map(recipe.words, X)
        elif words is None:
            word_of = self.word if callable(self.word) else partial(named_word, self.word)
            words = [list(map(word_of, document)) for document in items]
        pairs = []
        for number, own in enumerate(words):
            if number < len(items) and len(own) != len(items[number]):
                raise DataError(
                    f"document {number} has {len(items[number])} items and {len(own)} words."
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


def named_word(name: str | None, item: Any) -> str:
    """The word of an item, the value of its feature of that name; `DataError` where it has none."""
    if name is None:
        raise SettingsError(
            "the rule needs the words of all tokens, and word=None: give words=..., or say which "
            "feature is a token's word, as in word='w[0]'."
        )
    if isinstance(item, Mapping):
        word = item.get(name)
        if isinstance(word, str):
            return word
    elif not isinstance(item, str) and isinstance(item, Sequence | set | frozenset):
        for attribute in item:
            if isinstance(attribute, str) and attribute.startswith(f"{name}="):
                return attribute.removeprefix(f"{name}=")
    raise DataError(
        f"an item has no word: neither {{{name!r}: WORD}} nor '{name}=WORD' is in {item!r:.80}. "
        "Name the feature that is the word with word=..., or give words=..."
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


def split_layers(y: Iterable[Any], layers: int | None = None) -> list[list[Any]]:
    """Labels by layer and then by sequence, from labels by sequence and then by layer."""
    rows = []
    form = "y[i][k] are the labels of layer k of sequence i, one per token"
    for number, own in enumerate(y):
        if isinstance(own, str) or not isinstance(own, Sequence):
            raise DataError(f"the labels of sequence {number} are {own!r}: {form}.")
        layers = len(own) if layers is None else layers
        if len(own) != layers or not layers:
            raise DataError(f"sequence {number} has {len(own)} layers, not {layers}: {form}.")
        lengths = [len(layer) for layer in own]
        if len(set(lengths)) > 1:
            raise DataError(f"the layers of sequence {number} have {lengths} labels: {form}.")
        rows.append(own)
    return [list(layer) for layer in zip(*rows, strict=True)] or [[] for _ in range(layers or 0)]


def joined_tokens(
    joined: Sequence[Any] | None, lengths: Int64[Tensor, " b"]
) -> Int64[Tensor, "n 2"] | None:
    """Pairs of positions of each sequence as pairs of tokens of all sequences end to end."""
    if joined is None:
        return None
    starts = (lengths.cumsum(0) - lengths).tolist()
    if len(joined) != len(starts):
        raise DataError(f"there are {len(starts)} sequences of items and {len(joined)} of words.")
    pairs = [(u + at, v + at) for at, own in zip(starts, joined, strict=True) for u, v in own]
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)

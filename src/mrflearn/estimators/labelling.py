"""What labellers share: scores of labels, marginals by name, features by a recipe, checks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Estimator
from mrflearn.features.features import CompiledFeatures
from mrflearn.features.recipes import Features, Recipe
from mrflearn.io.spans import tags_to_spans
from mrflearn.models.storage import record

HeldOut = tuple[Iterable[Any], Iterable[Any]]


def pair_of(validation: Any) -> HeldOut:
    """The X and y of `validation=(X, y)`."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise SettingsError(f"validation must be a pair (X, y); got {type(validation).__name__}.")
    return validation[0], validation[1]


def check_n(n: int) -> None:
    """`SettingsError` where somebody asks for no result at all."""
    if n < 1:
        raise SettingsError(f"n must be >= 1; got {n}.")


def check_label(label: str | None, known: Collection[str]) -> None:
    """`SettingsError` where a label is named that the model has not."""
    if label is not None and label not in known:
        raise SettingsError(f"there is no label '{label}'; there are {', '.join(sorted(known))}.")


def chunk_f1(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> float:
    """The harmonic mean of precision and recall over exact chunks."""
    right = total = 0
    for true, guess in zip(gold, found, strict=True):
        expected, given = set(tags_to_spans(true)), set(tags_to_spans(guess))
        right += len(expected & given)
        total += len(expected) + len(given)
    return 2 * right / total if total else 1.0


def accuracy(gold: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> float:
    """The share of tokens whose label is right; those of no known label, None, do not count."""
    if len(gold) != len(found):
        raise DataError(f"X has {len(found)} sequences and y has {len(gold)}.")
    right = total = 0
    for number, (true, guess) in enumerate(zip(gold, found, strict=True)):
        if len(true) != len(guess):
            raise DataError(f"sequence {number} has {len(guess)} items and {len(true)} labels.")
        known = [bool(a == b) for a, b in zip(true, guess, strict=True) if a is not None]
        right, total = right + sum(known), total + len(known)
    return right / total if total else 1.0


def marginal_dicts(
    tables: Iterable[NDArray[np.float64]], classes: Collection[str]
) -> list[list[dict[str, float]]]:
    """Tables of marginals, tokens x classes, as {class: probability} for each token."""
    return [[dict(zip(classes, row, strict=True)) for row in own.tolist()] for own in tables]


# Labellers whose items are made of words, or of rows of cells.


@dataclass(kw_only=True, eq=False, repr=False)
class FeatureLabeller(Estimator):
    """A labeller that keeps the recipe by which items are made of what it is given."""

    features: Features | None = None

    recipe_: Recipe = field(init=False)  # only where there are `features`

    def _extracted(self, X: Iterable[Any], layers: int = 1) -> Iterable[Any]:
        """The items of what `fit` was given, by `features`; the recipe is kept.

        No layers of labels: what is given is a graph, and stands in files of its own.
        """
        if self.features is None:
            self.__dict__.pop("recipe_", None)
            return X
        self.recipe_ = Recipe.made_by(self.features)
        if not layers and self.recipe_.function is None:
            raise SettingsError("features of graphs are made by a function, or 'module:function'.")
        return X if isinstance(X, CompiledFeatures) else self._noted(X, layers)

    def _noted(self, X: Iterable[Any], layers: int) -> Iterator[Any]:
        for sentence in X:
            if layers:
                self.recipe_ = self.recipe_.for_files(sentence, layers)
            yield self.recipe_(sentence)

    def _items(self, X: Iterable[Any]) -> Iterable[Any]:
        """The items of what a fitted model is asked about."""
        recipe: Recipe | None = getattr(self, "recipe_", None)
        return X if recipe is None or isinstance(X, CompiledFeatures) else map(recipe, X)

    def _recipe_parts(self) -> dict[str, Any]:
        """The recipe as plain values."""
        recipe: Recipe | None = getattr(self, "recipe_", None)
        if recipe is not None and self.features is not None:
            recipe = replace(recipe, function=Recipe.made_by(self.features).function)
        return {"recipe": None if recipe is None else recipe.settings()}

    def _restore_recipe(self, learned: Mapping[str, Any]) -> None:
        """Takes back what `_recipe_parts` gave."""
        if learned.get("recipe") is not None:
            self.features = self.recipe_ = record(Recipe, learned["recipe"])

    def _stored_settings(self) -> dict[str, Any]:
        own = super()._stored_settings()
        del own["features"]  # the recipe is among what was learned
        return own

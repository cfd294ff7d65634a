"""Labels compiled to numbers, and weights of classes.

Letters in shapes: b: sequences; k: tokens, all sequences end to end; m: tokens whose label is not
known for certain; s: labels.
"""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.errors import DataError, DataWarning
from mrflearn.features.features import UNKNOWN, Numbering

# Labels of sequences by number: known, unknown (None), or one of several (a set).


Label = str | None | Iterable[str]


@dataclass(frozen=True, eq=False)
class CompiledLabels:
    """The label of every token (`UNKNOWN` where uncertain), and what uncertain ones may be."""

    names: Numbering
    states: Int64[Tensor, " k"]
    uncertain: Int64[Tensor, " m"]
    allowed: Bool[Tensor, "m s"]

    def allowed_states(self) -> Bool[Tensor, "k s"]:
        """Which labels each token may have."""
        known = torch.nn.functional.one_hot(self.states.clamp(min=0), len(self.names)).bool()
        return known.index_copy(0, self.uncertain, self.allowed)

    def taken(self, tokens: Int64[Tensor, " n"]) -> CompiledLabels:
        """Those of these tokens, in this order."""
        place = torch.full_like(self.states, UNKNOWN)
        place[self.uncertain] = torch.arange(len(self.uncertain))
        chosen = place[tokens]
        unsure = (chosen != UNKNOWN).nonzero().squeeze(1)
        allowed = self.allowed[chosen[unsure]]
        return CompiledLabels(self.names, self.states[tokens], unsure, allowed)

    def unknown(self) -> Bool[Tensor, " k"]:
        """The tokens of whose label nothing is known."""
        found = torch.zeros(len(self.states), dtype=torch.bool)
        found[self.uncertain[self.allowed.all(dim=1)]] = True
        return found


def warn_of_single_label(names: Collection[str]) -> None:
    """Warns where there is nothing to choose from: every answer will be the one label."""
    if len(names) == 1:
        warnings.warn(
            f"y has one label only, {next(iter(names))!r}: every prediction will be this one. "
            "Are they the labels that were meant?",
            DataWarning,
            stacklevel=3,
        )


def compile_labels(
    sequences: Iterable[Iterable[Label]], lengths: Int64[Tensor, " b"], names: Numbering
) -> CompiledLabels:
    """The labels of sequences of these lengths; a closed numbering refuses new names."""
    states = array("q")
    sets: dict[int, list[int] | None] = {}
    count, limits = 0, lengths.tolist()
    for number, labels in enumerate(sequences):
        count = number + 1
        first = len(states)
        for token, label in enumerate(_checked(labels, number)):
            if type(label) is str and label in names:
                states.append(names[label])
                continue
            states.append(_number(label, names, sets, len(states), (number, token)))
        if number < len(limits) and len(states) - first != limits[number]:
            raise DataError(
                f"sequence {number} has {limits[number]} items and {len(states) - first} labels."
            )
    if count != len(limits):
        raise DataError(f"X has {len(limits)} sequences and y has {count}.")
    uncertain = torch.tensor(list(sets), dtype=torch.int64)
    allowed = torch.zeros(len(sets), len(names), dtype=torch.bool)
    for row, members in enumerate(sets.values()):
        allowed[row, members if members is not None else slice(None)] = True
    return CompiledLabels(
        names, torch.from_numpy(np.array(states, dtype=np.int64)), uncertain, allowed
    )


def _checked(labels: Any, number: int) -> Iterable[Any]:
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise DataError(
            f"the labels of sequence {number} are {labels!r}: y is a list of lists of labels."
        )
    return labels


def _number(
    label: Any,
    names: Numbering,
    sets: dict[int, list[int] | None],
    token: int,
    place: tuple[int, int],
) -> int:
    if label is None:
        sets[token] = None
        return UNKNOWN
    if isinstance(label, set | frozenset | list | tuple):
        members = [_one(name, names, place) for name in label]
        if not members:
            raise DataError(f"{_words(place)}: an empty set of labels; None means unknown.")
        if len(members) == 1:
            return members[0]
        sets[token] = members
        return UNKNOWN
    return _one(label, names, place)


def _one(label: Any, names: Numbering, place: tuple[int, int]) -> int:
    if not isinstance(label, str):
        raise DataError(
            f"{_words(place)}: label {label!r} is a {type(label).__name__}; labels are strings, "
            "None (unknown) or sets of strings. Try str(...) around it."
        )
    number = names[str(label)]
    if number == UNKNOWN:
        known = ", ".join(sorted(names)[:12])
        raise DataError(f"{_words(place)}: label '{label}' was not seen in training ({known}).")
    return number


def _words(place: tuple[int, int]) -> str:
    return f"sequence {place[0]}, token {place[1]}"


# How much each sequence counts: its own weight times the mean weight of its labels.


def sequence_weights(
    lengths: Int64[Tensor, " b"],
    labels: CompiledLabels,
    class_weight: Mapping[str, float] | Literal["balanced"] | None,
    own: Float[Tensor, " b"] | None,
) -> Float[Tensor, " b"] | None:
    """The weight of each sequence; None: all count once.

    `"balanced"` weighs a label by tokens / (labels * tokens of that label), as scikit-learn does.
    A label that a mapping does not name weighs 1, and so does an uncertain one.
    """
    if own is not None and (own.shape != lengths.shape or not bool((own >= 0).all())):
        raise DataError(
            f"sample_weight must hold one number of at least 0 for each of the {len(lengths)} "
            f"sequences; it has shape {tuple(own.shape)}."
        )
    if class_weight is None:
        return own
    by_token = _label_weights(labels, class_weight)[labels.states]
    by_token = by_token.where(labels.states != UNKNOWN, 1.0)
    owner = torch.arange(len(lengths)).repeat_interleave(lengths)
    total = torch.zeros(len(lengths), dtype=torch.float64).index_add_(0, owner, by_token)
    mean = total / lengths.clamp(min=1)
    return mean if own is None else mean * own


def _label_weights(
    labels: CompiledLabels, class_weight: Mapping[str, float] | Literal["balanced"]
) -> Float[Tensor, " s"]:
    if class_weight == "balanced":
        known = labels.states[labels.states != UNKNOWN]
        counts = torch.bincount(known, minlength=len(labels.names)).double()
        return len(known) / (len(labels.names) * counts.clamp(min=1))
    if not isinstance(class_weight, Mapping):
        raise DataError(f"class_weight is a dict or 'balanced', not {class_weight!r}.")
    unknown = [name for name in class_weight if name not in labels.names]
    if unknown:
        known_names = ", ".join(sorted(labels.names)[:12])
        raise DataError(f"class_weight names '{unknown[0]}', but the labels are {known_names}.")
    weights = torch.tensor([float(class_weight.get(name, 1.0)) for name in labels.names])
    return weights.double()

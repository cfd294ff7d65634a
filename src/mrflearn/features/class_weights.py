"""How much each sequence counts: its own weight times the mean weight of its labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.features import UNKNOWN
from mrflearn.features.labels import CompiledLabels


def sequence_weights(
    lengths: Int64[Tensor, "b"],
    labels: CompiledLabels,
    class_weight: Mapping[str, float] | Literal["balanced"] | None,
    own: Float[Tensor, "b"] | None,
) -> Float[Tensor, "b"] | None:
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
) -> Float[Tensor, "s"]:
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

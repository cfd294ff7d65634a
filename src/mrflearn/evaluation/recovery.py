"""How close learned or inferred numbers are to known ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError


@dataclass(frozen=True)
class Recovery:
    """Errors of estimated parameters against the truth."""

    relative: float  # |estimate - truth| / |truth|, as in the figures of the LAP paper
    root_mean_square: float
    largest: float


def recovery(estimate: NDArray[np.float64], truth: NDArray[np.float64]) -> Recovery:
    """Errors over all parameters, flattened."""
    difference = np.ravel(estimate) - np.ravel(truth)
    norm = float(np.linalg.norm(truth))
    return Recovery(
        relative=float(np.linalg.norm(difference)) / norm if norm else float("inf"),
        root_mean_square=float(np.sqrt(np.mean(difference**2))),
        largest=float(np.abs(difference).max()),
    )


@dataclass(frozen=True)
class Agreement:
    """How far an inference's log Z is from the published one."""

    log_partition_error: float  # in the unit of the published figure
    log_base: str  # the base in which the published figure is nearest: "e" or "10"


def partition_agreement(log_partition: float, published: float) -> Agreement:
    """The error against a published log Z whose base is not said: natural, or the UAI's 10."""
    errors = {
        "e": abs(log_partition - published),
        "10": abs(log_partition / math.log(10) - published),
    }
    base = min(errors, key=lambda name: errors[name])
    return Agreement(log_partition_error=errors[base], log_base=base)


def marginal_error(
    marginals: Sequence[Sequence[float]], published: Sequence[NDArray[np.float64]]
) -> float:
    """The largest difference of two probabilities."""
    theirs, ours = [len(m) for m in published], [len(m) for m in marginals]
    if theirs != ours:
        raise DataError(
            f"the published marginals are of another network: {len(theirs)} variables with "
            f"{sum(theirs)} states, against {len(ours)} with {sum(ours)}."
        )
    pairs = zip(marginals, published, strict=True)
    return max((float(np.abs(np.asarray(a) - b).max()) for a, b in pairs), default=0.0)

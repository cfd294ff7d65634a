"""How close learned or inferred numbers are to known ones."""

from __future__ import annotations

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
    """Errors over all parameters laid end to end."""
    difference = np.ravel(estimate) - np.ravel(truth)
    norm = float(np.linalg.norm(truth))
    return Recovery(
        relative=float(np.linalg.norm(difference)) / norm if norm else float("inf"),
        root_mean_square=float(np.sqrt(np.mean(difference**2))),
        largest=float(np.abs(difference).max()),
    )


@dataclass(frozen=True)
class Agreement:
    """How far an inference's answers are from published ones."""

    log_partition_error: float | None
    largest_marginal_error: float | None


def agreement(
    log_partition: float,
    marginals: Sequence[Sequence[float]],
    *,
    published_log_partition: float | None = None,
    published_marginals: Sequence[NDArray[np.float64]] | None = None,
) -> Agreement:
    """Absolute errors against whichever published answers there are."""
    log_error = None
    if published_log_partition is not None:
        log_error = abs(log_partition - published_log_partition)
    marginal_error = None
    if published_marginals is not None:
        theirs = [len(m) for m in published_marginals]
        ours = [len(m) for m in marginals]
        if theirs != ours:
            raise DataError(
                f"the published marginals are of another network: {len(theirs)} variables with "
                f"{sum(theirs)} states, against {len(ours)} with {sum(ours)}."
            )
        pairs = zip(marginals, published_marginals, strict=True)
        marginal_error = max((float(np.abs(np.asarray(a) - b).max()) for a, b in pairs), default=0)
    return Agreement(log_error, marginal_error)

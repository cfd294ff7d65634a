"""How close learned or inferred numbers are to known ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError, warn_user
from mrflearn.io.uai import read_marginals, read_partition

DIGITS = 1e-3  # published values are rounded, but not so far


@dataclass(frozen=True)
class Recovery:
    """Errors of estimated parameters against the truth."""

    relative: float  # |estimate - truth| / |truth|, as in the figures of the LAP paper
    largest: float


def recovery(estimate: NDArray[np.float64], truth: NDArray[np.float64]) -> Recovery:
    """Errors over all parameters, flattened."""
    difference = np.ravel(estimate) - np.ravel(truth)
    norm = float(np.linalg.norm(truth))
    return Recovery(
        relative=float(np.linalg.norm(difference)) / norm if norm else float("inf"),
        largest=float(np.abs(difference).max()),
    )


def partition_agreement(log_partition: float, published: float) -> tuple[float, str]:
    """The error against a published log Z whose base is not said, and that base.

    It is "e" or the UAI's "10", whichever is nearer; the error has the published figure's unit.
    """
    units = {"e": 1.0, "10": math.log(10)}
    errors = ((abs(log_partition / unit - published), base) for base, unit in units.items())
    return min(errors, key=itemgetter(0))


def published_differences(
    network: Path, log_partition: float, marginals: Sequence[Sequence[float]], *, exact: bool
) -> dict[str, Any]:
    """How far answers are from what is published beside a network: NETWORK.PR, NETWORK.MAR.

    Some published files hold a bound on log Z (docs/decisions/uai-partition-files.md): a warning
    says so where an exact answer differs.
    """
    partition, beliefs = Path(f"{network}.PR"), Path(f"{network}.MAR")
    found: dict[str, Any] = {}
    if partition.exists():
        published = read_partition(partition)
        difference, base = partition_agreement(log_partition, published)
        found |= {"published_log_partition": published, "published_log_base": base}
        found["log_partition_difference"] = difference
        if exact and difference > DIGITS * max(1.0, abs(published)):
            warn_user(f"{partition.name} is not the exact log Z: a bound, or of other evidence.")
    if beliefs.exists():
        found["largest_marginal_difference"] = marginal_error(marginals, read_marginals(beliefs))
    if not found:
        raise DataError(f"neither {partition.name} nor {beliefs.name} is there.", path=network)
    return found


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

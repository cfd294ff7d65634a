"""How well tags that were found without names agree with true ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int

from mrflearn.evaluation.tagging import confusion


def many_to_one(truth: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> float:
    """The share of right tokens when every found tag stands for the true one it meets most."""
    counts = confusion_of_clusters(truth, found)
    total = int(counts.sum())
    return int(counts.max(axis=0, initial=0).sum()) / total if total else math.nan


def v_measure(truth: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> float:
    """The harmonic mean of homogeneity and completeness [Rosenberg, Hirschberg 2007]."""
    counts = confusion_of_clusters(truth, found)
    if not counts.sum():
        return math.nan
    joint = counts / counts.sum()
    shared = _entropy(joint.sum(1)) + _entropy(joint.sum(0)) - _entropy(joint.ravel())
    homogeneity = _share(shared, _entropy(joint.sum(1)))
    completeness = _share(shared, _entropy(joint.sum(0)))
    both = homogeneity + completeness
    return 2 * homogeneity * completeness / both if both else 0.0


def confusion_of_clusters(
    truth: Iterable[Sequence[str]], found: Iterable[Sequence[str]]
) -> Int[np.ndarray, "s c"]:
    """Tokens by true tag (rows) and found tag (columns); the names of both may be the same."""
    marked = ([f"found {tag}" for tag in tags] for tags in found)
    named = ([f"true {tag}" for tag in tags] for tags in truth)
    table = confusion(named, marked)
    rows = [i for i, label in enumerate(table.labels) if label.startswith("true ")]
    columns = [i for i, label in enumerate(table.labels) if label.startswith("found ")]
    return table.counts[np.ix_(rows, columns)]


def _entropy(shares: np.ndarray) -> float:
    some = shares[shares > 0]
    return float(-(some * np.log(some)).sum())


def _share(part: float, whole: float) -> float:
    """How much of the whole; all of nothing."""
    return part / whole if whole > 0 else 1.0

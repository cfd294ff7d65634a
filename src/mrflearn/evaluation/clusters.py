"""How well tags that were found without names agree with true ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sklearn.metrics import v_measure_score
from sklearn.metrics.cluster import contingency_matrix

from mrflearn.evaluation.chunks import paired


def many_to_one(truth: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> float:
    """The share of right tokens when every found tag stands for the true one it meets most."""
    tokens = _tokens(truth, found)
    if not tokens[0]:
        return math.nan
    return float(contingency_matrix(*tokens).max(axis=0).sum()) / len(tokens[0])


def v_measure(truth: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> float:
    """The harmonic mean of homogeneity and completeness [Rosenberg, Hirschberg 2007]."""
    tokens = _tokens(truth, found)
    return float(v_measure_score(*tokens)) if tokens[0] else math.nan


def _tokens(
    truth: Iterable[Sequence[str]], found: Iterable[Sequence[str]]
) -> tuple[list[str], list[str]]:
    """The true and the found tags of all sentences end to end."""
    pairs = list(paired(truth, found))
    return [tag for own, _ in pairs for tag in own], [tag for _, own in pairs for tag in own]

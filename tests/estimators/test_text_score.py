"""`TextScore` counts what it says it counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mrflearn.estimators.text_score import TextScore
from mrflearn.models.ngram import TokenScores


def test_by_hand() -> None:
    values = np.log([0.5, 0.25, 0.125, 0.5])
    ends, unknown = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 0], bool)
    found = TextScore.of_tokens(TokenScores(values, ends, unknown))
    assert found.perplexity == pytest.approx(2 ** (7 / 4))
    assert found.perplexity_without_unknown == pytest.approx(2 ** (5 / 3))
    assert (found.tokens, found.words, found.sentences, found.unknown) == (4, 2, 2, 1)
    assert found.nats_per_token == pytest.approx(-7 / 4 * math.log(2))


def test_impossible_and_all_unknown() -> None:
    one = np.ones(1, bool)
    impossible = TextScore.of_tokens(TokenScores(np.array([-np.inf]), one, ~one))
    assert impossible.perplexity == math.inf
    unknown = TextScore.of_tokens(TokenScores(np.zeros(1), one, one))
    assert math.isnan(unknown.perplexity_without_unknown)

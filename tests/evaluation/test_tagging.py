"""Accuracies and confusions, counted by hand and token by token."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.evaluation.tagging import Share, confusion, tagging_report

TRUTH = [["D", "N", "V"], ["N"], []]
GUESS = [["D", "V", "V"], ["N"], []]


def test_shares_by_hand() -> None:
    words = [["the", "cat", "sat"], ["dogs"], []]
    report = tagging_report(TRUTH, GUESS, words=words, known={"the", "sat"})
    assert report.tokens == Share(3, 4)
    assert report.sentences == Share(2, 3)
    assert report.seen == Share(2, 2)
    assert report.unseen == Share(1, 2)
    assert report.tokens.accuracy == 0.75


def test_nothing_is_no_number() -> None:
    report = tagging_report([], [])
    assert math.isnan(report.tokens.accuracy)
    assert report.unseen is None


labels = st.sampled_from("abc")


@given(st.lists(st.lists(st.tuples(labels, labels), max_size=6), max_size=6))
def test_confusion_counts_every_token(pairs: list[list[tuple[str, str]]]) -> None:
    truth = [[a for a, _ in row] for row in pairs]
    guess = [[b for _, b in row] for row in pairs]
    table = confusion(truth, guess)
    flat = [pair for row in pairs for pair in row]
    for i, true in enumerate(table.labels):
        for j, other in enumerate(table.labels):
            assert table.counts[i, j] == flat.count((true, other))
    assert table.counts.sum() == len(flat)
    report = tagging_report(truth, guess)
    assert table.counts.trace() == report.tokens.correct
    worst = table.worst(100)
    assert sum(count for *_, count in worst) == len(flat) - report.tokens.correct
    assert [count for *_, count in worst] == sorted((c for *_, c in worst), reverse=True)


def test_worst_by_hand() -> None:
    assert confusion(TRUTH, GUESS).worst(5) == [("N", "V", 1)]


def test_complaints() -> None:
    with pytest.raises(DataError, match="needs both"):
        tagging_report(TRUTH, GUESS, words=TRUTH)
    with pytest.raises(DataError, match="lengths differ"):
        tagging_report(TRUTH, GUESS, words=[["a"]], known={"a"})

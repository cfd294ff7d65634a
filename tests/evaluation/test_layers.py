"""Several layers scored together."""

from __future__ import annotations

import pytest

from mrflearn.errors import DataError
from mrflearn.evaluation.layers import layers_report

TRUTH = {"pos": [["DT", "NN"], ["VB"]], "chunk": [["B-NP", "I-NP"], ["O"]]}


def test_every_layer_is_scored_and_all_of_them_together():
    found = {"pos": [["DT", "VB"], ["VB"]], "chunk": [["B-NP", "I-NP"], ["B-NP"]]}
    report = layers_report(TRUTH, found)
    assert report.layers["pos"].tagging.tokens.accuracy == pytest.approx(2 / 3)
    assert report.layers["pos"].chunks is None
    chunks = report.layers["chunk"].chunks
    assert chunks is not None
    assert (chunks.total.correct, chunks.total.predicted, chunks.total.actual) == (1, 2, 1)
    assert (report.joint.correct, report.joint.total) == (1, 3)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({"pos": TRUTH["pos"]}, "the predicted ones pos"),
        ({**TRUTH, "chunk": [["O"], ["O"]]}, "sentence 1 has 2 true tags but 1"),
        ({**TRUTH, "chunk": [["B-NP", "I-NP"]]}, "not as many predicted sentences"),
    ],
)
def test_layers_that_do_not_match_are_refused(found, problem):
    with pytest.raises(DataError, match=problem):
        layers_report(TRUTH, found)


def test_no_layers_are_refused():
    with pytest.raises(DataError, match="both need the same"):
        layers_report({}, {})

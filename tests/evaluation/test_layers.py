"""Several layers scored together, and fields scored by tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.evaluation.layers import layers_report, token_report

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


tags = st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b"]), min_size=1, max_size=8)


@given(st.data(), tags)
def test_tokens_count_for_their_field_whatever_their_letter(data, truth):
    size = len(truth)
    guess = data.draw(st.lists(st.sampled_from(["O", "I-a", "I-b"]), min_size=size, max_size=size))
    report = token_report([truth], [guess])
    for name in "ab":
        true_places = {i for i, tag in enumerate(truth) if tag.endswith(name)}
        places = {i for i, tag in enumerate(guess) if tag.endswith(name)}
        if not true_places | places:
            assert name not in report.by_label
            continue
        score = report.by_label[name]
        expected = (len(true_places & places), len(places), len(true_places))
        assert (score.correct, score.predicted, score.actual) == expected
    assert report.total.actual == sum(tag != "O" for tag in truth)

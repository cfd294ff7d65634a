"""Labels by number: known, unknown, or one of several."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mrflearn.errors import DataError
from mrflearn.features.features import CompiledLabels, Numbering, compile_labels, sequence_weights


def compiled(y: list[Any], names: Numbering | None = None) -> CompiledLabels:
    lengths = torch.tensor([len(own) for own in y])
    return compile_labels(y, lengths, Numbering() if names is None else names)


def test_labels_are_numbered_by_first_appearance() -> None:
    labels = compiled([["B", "A"], [], ["B", None, {"A", "C"}, {"A"}]])
    assert list(labels.names)[:2] == ["B", "A"]
    assert labels.states.tolist() == [0, 1, 0, -1, -1, 1]
    assert labels.uncertain.tolist() == [3, 4]
    assert labels.allowed.tolist() == [[True] * 3, [False, True, True]]
    assert labels.allowed_states()[3:].tolist() == [
        [True, True, True],
        [False, True, True],
        [False, True, False],
    ]


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([["A", 3]], "sequence 0, token 1: label 3 is an int"),
        ([["A"], [set()]], "sequence 1, token 0: an empty set"),
        (["AB"], "labels of sequence 0 are 'AB'"),
        ([["A", {"B", 2}]], "sequence 0, token 1"),
    ],
)
def test_labels_that_are_no_labels(y: list[Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        compiled(y)


def test_lengths_must_agree() -> None:
    with pytest.raises(DataError, match="sequence 1 has 2 items and 1 labels"):
        compile_labels([["A"], ["B"]], torch.tensor([1, 2]), Numbering())
    with pytest.raises(DataError, match="X has 1 sequences and y has 2"):
        compile_labels([["A"], ["B"]], torch.tensor([1]), Numbering())
    with pytest.raises(DataError, match="X has 2 sequences and y has 1"):
        compile_labels([["A"]], torch.tensor([1, 1]), Numbering())


def test_a_closed_set_of_labels_refuses_new_ones() -> None:
    with pytest.raises(DataError, match="sequence 0, token 1: label 'Z' was not seen"):
        compiled([["A", "Z"]], Numbering(["A"], closed=True))


def test_class_weights_average_over_the_labels_of_a_sequence() -> None:
    y = [["A", "B"], ["A", None], []]
    labels, lengths = compiled(y), torch.tensor([2, 2, 0])
    by_name = sequence_weights(lengths, labels, {"B": 5.0}, None)
    assert by_name is not None
    assert by_name.tolist() == [3.0, 1.0, 0.0]
    balanced = sequence_weights(lengths, labels, "balanced", torch.tensor([1.0, 2.0, 1.0]))
    assert balanced is not None
    # Three known tokens of two labels: A weighs 3 / (2 * 2), B weighs 3 / (2 * 1).
    assert balanced.tolist() == pytest.approx([(0.75 + 1.5) / 2, 2 * (0.75 + 1) / 2, 0.0])
    assert sequence_weights(lengths, labels, None, None) is None


def test_weights_that_are_no_weights() -> None:
    labels, lengths = compiled([["A"]]), torch.tensor([1])
    with pytest.raises(DataError, match="names 'Z'"):
        sequence_weights(lengths, labels, {"Z": 1.0}, None)
    with pytest.raises(DataError, match="one number of at least 0 for each of the 1"):
        sequence_weights(lengths, labels, None, torch.tensor([1.0, 2.0]))
    with pytest.raises(DataError, match="'odd'"):
        sequence_weights(lengths, labels, "odd", None)  # type: ignore[arg-type]

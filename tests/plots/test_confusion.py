"""Pictures of confusions name their labels and write their counts."""

from __future__ import annotations

from mrflearn.evaluation.tagging import confusion
from mrflearn.plots.labels import draw_confusion

TRUTH = [["a", "a", "b", "c"]]
GUESS = [["a", "b", "b", "c"]]


def test_counts_stand_in_their_cells() -> None:
    (axis,) = draw_confusion(confusion(TRUTH, GUESS)).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["a", "b", "c"]
    cells = {(text.get_position(), text.get_text()) for text in axis.texts}
    assert cells == {((0, 0), "1"), ((1, 0), "1"), ((1, 1), "1"), ((2, 2), "1")}


def test_only_the_labels_with_most_mistakes_where_there_are_many() -> None:
    (axis,) = draw_confusion(confusion(TRUTH, GUESS), most=2).axes
    assert [label.get_text() for label in axis.get_xticklabels()] == ["a", "b"]
    assert axis.get_title().endswith("(2 of 3)")

"""Chunk scores against conlleval's own rules, written out again, and against counts by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.evaluation.chunks import ChunkScore, chunk_report
from mrflearn.io.spans import SCHEMES, spans_to_tags

TAGS = ["O", *(f"{letter}-{label}" for letter in "BIES" for label in ("X", "Y"))]
tag_lists = st.lists(st.sampled_from(TAGS), max_size=8)


def conlleval(truth: list[list[str]], predicted: list[list[str]]) -> dict[str, list[int]]:
    """[correct, predicted, true] by label: the scorer's loop over one stream of token pairs."""
    counts: dict[str, list[int]] = {}
    for true_tags, tags in zip(truth, predicted, strict=True):
        in_correct = False
        last_true = last = ("O", "")
        for true_tag, tag in zip([*true_tags, "O"], [*tags, "O"], strict=True):
            now_true, now = _part(true_tag), _part(tag)
            ended = _ends(last_true, now_true), _ends(last, now)
            if in_correct:
                if all(ended) and last_true[1] == last[1]:
                    in_correct = False
                    counts.setdefault(last_true[1], [0, 0, 0])[0] += 1
                elif ended[0] != ended[1] or now_true[1] != now[1]:
                    in_correct = False
            begun = _starts(last_true, now_true), _starts(last, now)
            if all(begun) and now_true[1] == now[1]:
                in_correct = True
            if begun[0]:
                counts.setdefault(now_true[1], [0, 0, 0])[2] += 1
            if begun[1]:
                counts.setdefault(now[1], [0, 0, 0])[1] += 1
            last_true, last = now_true, now
    return counts


def _part(tag: str) -> tuple[str, str]:
    return (tag[0], tag[2:])


def _ends(last: tuple[str, str], now: tuple[str, str]) -> bool:
    (prev, prev_type), (tag, type_) = last, now
    rules = {"BB", "BS", "BO", "IB", "IS", "IO"}
    return prev + tag in rules or prev in "ES" or (prev != "O" and prev_type != type_)


def _starts(last: tuple[str, str], now: tuple[str, str]) -> bool:
    (prev, prev_type), (tag, type_) = last, now
    rules = {"EE", "EI", "SE", "SI", "OE", "OI"}
    return tag in "BS" or prev + tag in rules or (tag != "O" and prev_type != type_)


@given(st.lists(st.tuples(tag_lists, tag_lists), max_size=5))
def test_counts_are_those_of_conlleval(pairs: list[tuple[list[str], list[str]]]) -> None:
    truth = [a[: len(b)] for a, b in pairs]
    predicted = [b[: len(a)] for a, b in pairs]
    report = chunk_report(truth, predicted)
    found = {k: [v.correct, v.predicted, v.actual] for k, v in report.by_label.items()}
    assert found == conlleval(truth, predicted)
    total = [sum(row[i] for row in found.values()) for i in range(3)]
    assert report.total == ChunkScore(*total)


@pytest.mark.parametrize(
    ("truth", "predicted", "counts"),
    [
        ("B-NP I-NP O B-VP", "B-NP I-NP O B-VP", (2, 2, 2)),
        ("B-NP I-NP O B-VP", "B-NP B-NP O B-NP", (0, 3, 2)),
        (
            "B-NP I-NP O B-VP",
            "I-NP I-NP O I-VP",
            (2, 2, 2),
        ),  # ill-formed in IOB2, read all the same
        ("I-NP I-NP B-NP O", "B-NP I-NP B-NP I-NP", (1, 2, 2)),  # IOB1 against IOB2
        ("B-NP E-NP S-NP O", "B-NP I-NP B-NP O", (2, 2, 2)),  # BIOES against IOB2
        ("B-NP I-VP O O", "B-NP I-NP O O", (0, 1, 2)),  # another label begins another chunk
        ("O O", "O O", (0, 0, 0)),
        ("", "", (0, 0, 0)),
    ],
)
def test_counted_by_hand(truth: str, predicted: str, counts: tuple[int, int, int]) -> None:
    assert chunk_report([truth.split()], [predicted.split()]).total == ChunkScore(*counts)


def test_shares_by_hand() -> None:
    score = ChunkScore(correct=3, predicted=4, actual=6)
    assert (score.precision, score.recall, score.f1) == (0.75, 0.5, 0.6)
    assert ChunkScore(0, 0, 5).f1 == ChunkScore(0, 5, 0).recall == ChunkScore(0, 0, 0).f1 == 0.0


@given(tag_lists, st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_schemes_do_not_matter(tags: list[str], first: str, second: str) -> None:
    from mrflearn.io.spans import tags_to_spans

    spans = tags_to_spans(tags)
    truth, predicted = (spans_to_tags(spans, len(tags), s) for s in (first, second))
    score = chunk_report([truth], [predicted]).total
    assert score.correct == score.predicted == score.actual == len(spans)


def test_complaints() -> None:
    with pytest.raises(DataError, match="sentence 2 has 1 true tags but 2"):
        chunk_report([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(DataError, match="not as many"):
        chunk_report([["O"]], [["O"], ["O"]])
    with pytest.raises(DataError, match="IOB2 would have"):
        chunk_report([["I-X"]], [["I-X"]], scheme="IOB2")

"""Answers under constraints against the list of all labellings that obey them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from mrflearn.errors import DataError, InferenceError
from mrflearn.estimators.constraints import Constraints
from mrflearn.estimators.crf_answers import (
    at_temperature,
    best_labels,
    marginal_arrays,
    scored_spans,
)
from mrflearn.estimators.labelling import marginal_dicts
from mrflearn.io.spans import tags_to_spans
from support.label_chains import every_labelling, random_label_chains

TAGS = ["O", "B-X", "I-X", "B-Y"]
LENGTHS = [3, 1, 2]


def allows(constraints: Constraints, i: int, tags: tuple[str, ...]) -> bool:
    """The constraints, token by token."""
    pairs = set(itertools.pairwise(tags))
    if constraints.scheme is not None:
        try:
            tags_to_spans(tags, constraints.scheme)
        except DataError:
            return False
    if constraints.allowed is not None and not pairs <= set(constraints.allowed):
        return False
    if pairs & set(constraints.forbidden):
        return False
    if constraints.forced is not None and constraints.forced[i] is not None:
        for tag, choice in zip(tags, constraints.forced[i], strict=True):
            if choice is not None and tag not in ([choice] if isinstance(choice, str) else choice):
                return False
    if constraints.mask is not None and constraints.mask[i] is not None:
        return all(row[TAGS.index(tag)] for tag, row in zip(tags, constraints.mask[i], strict=True))
    return True


CONSTRAINTS = {
    "none": Constraints(),
    "scheme": Constraints(scheme="IOB2"),
    "allowed": Constraints(allowed=[("O", "O"), ("O", "B-X"), ("B-X", "I-X"), ("I-X", "O")]),
    "forbidden": Constraints(forbidden=[("O", "O"), ("B-X", "B-Y")]),
    "forced": Constraints(forced=[["B-X", None, {"O", "I-X"}], [None], ["O", ["B-X", "B-Y"]]]),
    "mask": Constraints(mask=[None, [[1, 0, 1, 0]], [[1, 1, 1, 0], [0, 1, 1, 1]]]),
    "forced some": Constraints(forced=[["B-X", None, "O"], ["B-Y"], None]),
    "several": Constraints(scheme="IOB2", forced=[[None, "I-X", None], [None], [None, None]]),
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_answers_obey_the_rules_and_are_exact(name: str, order: int) -> None:
    constraints, free = CONSTRAINTS[name], random_label_chains(7, TAGS, LENGTHS, order)
    chains = constraints.apply(free, TAGS)
    best, chances = best_labels(chains, TAGS), marginal_dicts(marginal_arrays(chains), TAGS)
    spans = scored_spans(chains, TAGS, n_best=3)
    for i, length in enumerate(LENGTHS):
        listed = every_labelling(free, TAGS, i, lambda tags, i=i: allows(constraints, i, tags))
        assert tuple(best[i]) == max(listed, key=listed.__getitem__)
        for t in range(length):
            for tag in TAGS:
                expected = sum(p for tags, p in listed.items() if tags[t] == tag)
                assert chances[i][t][tag] == pytest.approx(expected, abs=1e-9)
        top = sorted((tags for tags in listed if listed[tags] > 0), key=lambda tags: -listed[tags])
        assert {s[:3] for s in spans[i]} == {s for tags in top[:3] for s in tags_to_spans(tags)}
        for start, end, label, probability in spans[i]:
            expected = sum(
                p for tags, p in listed.items() if (start, end, label) in tags_to_spans(tags)
            )
            assert probability == pytest.approx(expected, abs=1e-9)


def test_a_part_of_the_rules_is_for_a_part_of_the_sequences() -> None:
    constraints = replace(CONSTRAINTS["forced"], mask=CONSTRAINTS["mask"].mask, scheme="IOB2")
    part = constraints.part(1, 3)
    assert part.scheme == "IOB2"
    assert part.forced == constraints.forced[1:3]  # type: ignore[index]
    assert part.mask == constraints.mask[1:3]  # type: ignore[index]
    assert CONSTRAINTS["scheme"].part(0, 2) == CONSTRAINTS["scheme"]


def test_temperature_divides_log_odds_and_keeps_the_best() -> None:
    free = random_label_chains(1, TAGS, [2])
    cold, hot = every_labelling(free, TAGS, 0), every_labelling(at_temperature(free, 2.0), TAGS, 0)
    first, second = ("O", "O"), ("B-X", "I-X")
    ratio = torch.tensor([cold[first] / cold[second], hot[first] / hot[second]]).log()
    assert float(ratio[0] / ratio[1]) == pytest.approx(2.0)
    assert best_labels(free, TAGS) == best_labels(at_temperature(free, 2.0), TAGS)


def test_complaints() -> None:
    free = random_label_chains(1, TAGS, [2, 1])
    with pytest.raises(InferenceError, match="sequence 1 has no labelling"):
        Constraints(scheme="IOB2", forced=[[None, None], ["I-X"]]).apply(free, TAGS)
    with pytest.raises(DataError, match="sequence 0 has 2 items but forced labels for 1"):
        Constraints(forced=[[None], [None]]).apply(free, TAGS)
    with pytest.raises(DataError, match="forced labels for 1 sequences, but 2"):
        Constraints(forced=[[None, None]]).apply(free, TAGS)
    with pytest.raises(DataError, match="knows no label 'B-Z'"):
        Constraints(forced=[[None, "B-Z"], [None]]).apply(free, TAGS)
    with pytest.raises(DataError, match="masks for 1 sequences"):
        Constraints(mask=[None]).apply(free, TAGS)
    with pytest.raises(DataError, match="4 labels"):
        Constraints(mask=[[[1, 1], [1, 1]], None]).apply(free, TAGS)

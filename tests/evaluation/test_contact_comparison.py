"""Predicted contacts beside a structure: which column is which residue, and the precision."""

from __future__ import annotations

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.evaluation.contacts import align_to_structure, compare_contacts
from mrflearn.io.alignments import Focus
from mrflearn.io.structures import Structure

LETTERS = "-ACDEFGHIKLMNPQRSTVWY"
FAMILY = "MKTAYIAKQRQISFVKSHFSRQ"


def structure(letters: str) -> Structure:
    """Residues on a line, 3 Angstrom from each other; the last back at the first."""
    places = np.zeros((len(letters), 3))
    places[:, 0] = 3.0 * np.arange(len(letters))
    places[-1] = places[0]
    return Structure("A", letters, tuple(map(str, range(len(letters)))), places)


def frequencies(letters: str, share: float = 0.7) -> np.ndarray:
    table = np.full((len(letters), len(LETTERS)), (1 - share) / len(LETTERS))
    table[np.arange(len(letters)), [LETTERS.index(own) for own in letters]] += share
    return table


def test_columns_find_their_residues() -> None:
    seen = frequencies(FAMILY)
    same = align_to_structure(seen, LETTERS, structure(FAMILY))
    assert same.tolist() == list(range(22))
    tails = align_to_structure(seen, LETTERS, structure("GGG" + FAMILY + "PP"))
    assert tails.tolist() == list(range(3, 25))
    fewer = align_to_structure(seen, LETTERS, structure(FAMILY[:8] + FAMILY[10:]))
    assert fewer.tolist() == [*range(8), -1, -1, *range(8, 20)]
    more = align_to_structure(seen, LETTERS, structure(FAMILY[:8] + "WW" + FAMILY[8:]))
    assert more.tolist() == [*range(8), *range(10, 24)]
    with pytest.raises(DataError, match="another"):
        align_to_structure(seen, LETTERS, structure("G" * 30))


def test_the_best_alignment_is_that_of_enumeration() -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        seen = random.dirichlet(np.ones(len(LETTERS)), size=4)
        letters = "".join(random.choice(list(LETTERS[1:]), size=5))
        share = seen[:, 1:] + 1e-3
        share /= share.sum(axis=1, keepdims=True)
        gains = np.log(share / share.mean(axis=0))
        worth = gains[:, [LETTERS.index(own) - 1 for own in letters]]

        def value(i: int, j: int, worth: np.ndarray = worth) -> float:
            """The best of all alignments of what is before column i and residue j."""
            if not i or not j:
                return 0.0
            here = value(i - 1, j - 1) + worth[i - 1, j - 1]
            return max(here, value(i - 1, j) - 4.0, value(i, j - 1) - 4.0)

        best = max([value(i, 5) for i in range(5)] + [value(4, j) for j in range(6)])
        try:
            found = align_to_structure(seen, LETTERS, structure(letters))
        except DataError:
            continue  # too few of its letters are the most frequent ones
        placed = np.flatnonzero(found >= 0)
        own = worth[placed, found[placed]].sum()
        steps = np.diff(placed).sum() + np.diff(found[placed]).sum() - 2 * (len(placed) - 1)
        assert own - 4.0 * steps == pytest.approx(best)


def test_precision_counts_pairs_that_touch() -> None:
    scores = np.zeros((22, 22))
    scores[0, 21], scores[0, 15], scores[3, 12] = 3, 2, 1  # the first touches alone
    found = compare_contacts(scores + scores.T, frequencies(FAMILY), LETTERS, structure(FAMILY))
    assert found.pairs[:3].tolist() == [[0, 21], [0, 15], [3, 12]]
    assert found.distances[:2].tolist() == [0.0, 45.0]
    assert found.precision()["L/10"] == 0.5
    assert found.precision()["L/5"] == 0.25
    assert found.precision(apart=20)["L/10"] == 0.5
    wide = compare_contacts(scores, frequencies(FAMILY), LETTERS, structure(FAMILY), cutoff=46)
    assert wide.precision()["L/10"] == 1.0


def test_a_focus_helps_to_find_residues() -> None:
    vague, focus = frequencies("A" * 22, 0.0), Focus("f", FAMILY, tuple(range(22)))
    found = compare_contacts(np.zeros((22, 22)), vague, LETTERS, structure(FAMILY), focus=focus)
    assert found.residues.tolist() == list(range(22))

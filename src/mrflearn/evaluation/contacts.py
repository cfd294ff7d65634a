"""Predicted contacts of a family compared with a structure: which pairs of columns really touch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrflearn.errors import DataError
from mrflearn.io.alignments import Focus
from mrflearn.io.structures import Structure

Array = NDArray[np.float64]
CUTOFF = 8.0  # Angstrom, between beta carbons: CASP's definition of a contact
APART = 6
LONG_RANGE = 24
SHARES = (10, 5, 2, 1)  # of the number of columns: L/10, L/5, L/2 and L pairs are judged
SKIPPED = 4.0  # nats, for a column or residue left out between others
LEAST_IDENTITY = 0.1  # of the residues of a structure with the most frequent letters


@dataclass(frozen=True, eq=False)
class ContactComparison:
    """How many of the strongest pairs are contacts of a structure.

    `residues[c]` is the place of column c's residue in the structure, -1 where it has none; pairs
    without two places are left out.  `pairs` are those at least `apart` columns from each other,
    the strongest first, and `distances` how far they are from each other.
    """

    structure: Structure
    residues: NDArray[np.int64]
    cutoff: float
    apart: int
    pairs: NDArray[np.int64]
    distances: Array

    @property
    def columns(self) -> int:
        """L: the columns that have a place in the structure."""
        return int((self.residues >= 0).sum())

    @property
    def touching(self) -> NDArray[np.bool_]:
        """Which of `pairs` are contacts."""
        return np.asarray(self.distances < self.cutoff)

    @property
    def map(self) -> NDArray[np.bool_]:
        """Which columns touch which: True where their residues are closer than the cutoff."""
        placed = self.residues >= 0
        touching = np.zeros((len(placed), len(placed)), dtype=np.bool_)
        far = self.structure.distances()[np.ix_(self.residues[placed], self.residues[placed])]
        touching[np.ix_(placed, placed)] = far < self.cutoff
        return touching

    def precision(self, apart: int | None = None) -> dict[str, float]:
        """The share of contacts among the strongest L/10, L/5, L/2 and L pairs.

        `apart`: of those at least so many columns from each other, such as 24 (long range).
        """
        far = self.pairs[:, 1] - self.pairs[:, 0] >= (self.apart if apart is None else apart)
        hits, found = self.touching[far], {}
        for share in SHARES:
            count = self.columns // share
            name = "L" if share == 1 else f"L/{share}"
            found[name] = float(hits[:count].mean()) if 0 < count <= len(hits) else float("nan")
        return found

    def figures(self) -> dict[str, Any]:
        """What was compared, and the precisions that are known, of all and of long range."""
        found: dict[str, Any] = {
            "chain": self.structure.chain,
            "columns_in_structure": self.columns,
            "contact_below": f"{self.cutoff:g} A",
            "precision_of_pairs_apart": self.apart,
        }
        for name, apart in (("", None), ("long_range_", LONG_RANGE)):
            known = {k: own for k, own in self.precision(apart).items() if not math.isnan(own)}
            found |= {f"{name}precision_{k}": own for k, own in known.items()}
        return found


def compare_contacts(
    scores: ArrayLike,
    frequencies: ArrayLike,
    letters: str,
    structure: Structure,
    *,
    focus: Focus | None = None,
    cutoff: float = CUTOFF,
    apart: int = APART,
) -> ContactComparison:
    """Contact scores of all pairs of columns beside the distances in a structure.

    The columns are aligned with the residues of the structure by the `frequencies` of their
    states, whose letters are `letters`; that of a `focus` sequence counts for half of them.
    """
    scores, seen = np.asarray(scores, dtype=np.float64), np.asarray(frequencies, dtype=np.float64)
    if focus is not None:
        own = np.array([[letter == state for state in letters] for letter in focus.letters])
        seen = (seen + own) / 2
    residues = align_to_structure(seen, letters, structure)
    first, second = np.triu_indices(len(scores), apart)
    placed = residues[first], residues[second]
    far = structure.distances()[placed]
    known = (placed[0] >= 0) & (placed[1] >= 0) & np.isfinite(far)
    first, second, far = first[known], second[known], far[known]
    order = np.argsort(-scores[first, second], kind="stable")
    pairs = np.stack([first, second], axis=1)[order]
    return ContactComparison(structure, residues, cutoff, apart, pairs, far[order])


def align_to_structure(frequencies: Array, letters: str, structure: Structure) -> NDArray[np.int64]:
    """The residue of each column, -1 where it has none: the best alignment of both.

    A residue in a column is worth log(its letter's frequency there / its frequency in all columns);
    columns and residues left out between others cost alike, those at the ends nothing
    [Needleman & Wunsch 1970].
    """
    gap = letters.find("-")
    kept = [state for state in range(len(letters)) if state != gap]
    share = frequencies[:, kept] + 1e-3
    share = share / share.sum(axis=1, keepdims=True)
    gains = np.log(share / share.mean(axis=0))
    gains = np.concatenate([gains, np.zeros((len(gains), 1))], axis=1)  # of other letters
    alphabet = "".join(letters[state] for state in kept).replace("U", "T")
    known = [alphabet.find(own) for own in structure.letters.replace("U", "T")]
    worth = gains[:, known]  # -1 takes the last, of other letters
    columns, count = worth.shape
    best = np.zeros((columns + 1, count + 1))
    steps = SKIPPED * np.arange(count + 1)
    for i in range(columns):
        ahead = np.maximum(best[i, :-1] + worth[i], best[i, 1:] - SKIPPED)
        row = np.concatenate([[0.0], ahead])
        # Residues left out one after the other: the best of all before, less their cost.
        best[i + 1] = np.maximum.accumulate(row + steps) - steps
    ends = [(i, count) for i in range(columns)] + [(columns, j) for j in range(count + 1)]
    i, j = max(ends, key=lambda end: float(best[end]))
    found = np.full(columns, -1)
    while i and j:
        if np.isclose(best[i, j], best[i - 1, j - 1] + worth[i - 1, j - 1]):
            i, j = i - 1, j - 1
            found[i] = j
        elif np.isclose(best[i, j], best[i - 1, j] - SKIPPED):
            i -= 1
        else:
            j -= 1
    likeliest = share.argmax(axis=1)
    placed = found >= 0
    same = float((np.array(known)[found[placed]] == likeliest[placed]).mean()) if any(placed) else 0
    if placed.sum() < 3 or same < LEAST_IDENTITY:
        raise DataError(
            f"chain {structure.chain} of the structure does not look like this family: of its "
            f"{len(structure)} residues {int(placed.sum())} have a column, and {same:.0%} of these "
            "the most frequent letter there. Is it another protein, or another chain?"
        )
    return found

"""Sets of word pairs with people's scores: some to choose settings on, the others to report.

Settings were chosen on half of MEN's pairs (told apart by a hash of their words), MTurk-771 and
SimLex-999, less any pair that WS-353 or the other half of MEN also has.  WS-353, the whole of MEN
and its other half are reported and chose nothing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from mrflearn.evaluation.similarity import CosineSpace, word_similarity
from mrflearn.io.similarity import WordPair, read_pairs

REPORTED = ("WS-353-ALL", "WS-353-SIM", "WS-353-REL", "SIMLEX-999", "MEN-TR-3k", "MTurk-771",
            "RW-STANFORD", "SimVerb-3500")  # fmt: skip
UNTOUCHED = "MEN, untouched half"


def reported(folder: Path) -> dict[str, list[WordPair]]:
    """Every set, whole, and the half of MEN that chose nothing."""
    sets = {name: _read(folder, name) for name in REPORTED}
    return sets | {UNTOUCHED: [pair for pair in sets["MEN-TR-3k"] if not _for_choice(pair)]}


def for_choice(folder: Path) -> dict[str, list[WordPair]]:
    """The sets to choose settings on."""
    sets = reported(folder)
    kept_back = {_key(pair) for name in ("WS-353-ALL", UNTOUCHED) for pair in sets[name]}
    names = "MEN-TR-3k", "MTurk-771", "SIMLEX-999"
    return {name: [p for p in sets[name] if _key(p) not in kept_back] for name in names}


def agreement(space: CosineSpace, sets: dict[str, list[WordPair]]) -> dict[str, list[float]]:
    """Spearman's correlation of each set, and over how many pairs."""
    found = {name: word_similarity(space, pairs) for name, pairs in sets.items()}
    return {name: [one.spearman, one.pairs] for name, one in found.items()}


def _read(folder: Path, name: str) -> list[WordPair]:
    return list(read_pairs(folder / f"EN-{name}.txt"))


def _key(pair: WordPair) -> tuple[str, ...]:
    return tuple(sorted((pair.first.lower(), pair.second.lower())))


def _for_choice(pair: WordPair) -> bool:
    return hashlib.sha256(" ".join(_key(pair)).encode()).digest()[0] % 2 == 0

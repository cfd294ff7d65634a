"""A random text in one file and cut into several, and the comparison of two counts of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mrflearn.features.moments import Moments


def write_shards(folder: Path, parts: int = 4) -> tuple[Path, list[Path]]:
    """The path of the whole text, and those of its parts."""
    generator = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(30)])
    ids = (generator.pareto(1.2, size=(120, 12)) * 3).astype(int) % 30
    lines = [" ".join(words[row[: generator.integers(0, 13)]]) + "\n" for row in ids]
    whole = folder / "whole.txt"
    whole.write_text("".join(lines))
    shards = [folder / f"part-{number}.txt" for number in range(parts)]
    for number, path in enumerate(shards):
        path.write_text("".join(lines[number * 30 : (number + 1) * 30]))
    return whole, shards


def assert_same_moments(found: Moments, wanted: Moments) -> None:
    """Count by count, with the same words in the same order."""
    assert found.vocabulary == wanted.vocabulary
    assert found.offsets == wanted.offsets
    for name in ("unary", "lengths", "length_counts"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    for pair, same in zip(found.pairs, wanted.pairs, strict=True):
        for name in ("left", "right", "count"):
            np.testing.assert_array_equal(getattr(pair, name), getattr(same, name))

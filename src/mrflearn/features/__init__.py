"""Records turned into counts, features and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.features.moments import Moments, lattice_moments
    from mrflearn.features.moments_file import load_moments, save_moments
    from mrflearn.features.observations import CliqueCounts, Samples, clique_counts

__all__ = [
    "CliqueCounts",
    "Moments",
    "Samples",
    "clique_counts",
    "lattice_moments",
    "load_moments",
    "save_moments",
]

__getattr__, __dir__ = lazy(__name__)

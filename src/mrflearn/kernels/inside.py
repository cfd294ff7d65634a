"""Sums over all parses of sentences of one length, and expected counts."""

from __future__ import annotations

from mrflearn.kernels.inside_reference import expected_counts

__all__ = ["expected_counts"]

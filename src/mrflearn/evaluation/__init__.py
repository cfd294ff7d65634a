"""Predictions compared with the truth: scores and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn._lazy import lazy

if TYPE_CHECKING:
    from mrflearn.evaluation.brackets import BracketReport, bracket_report
    from mrflearn.evaluation.calibration import Reliability, reliability
    from mrflearn.evaluation.chunks import ChunkReport, ChunkScore, chunk_report
    from mrflearn.evaluation.layers import LayersReport, layers_report
    from mrflearn.evaluation.metrics import (
        flat_accuracy,
        flat_accuracy_score,
        flat_classification_report,
        flat_f1_score,
        flat_fbeta_score,
        flat_precision_score,
        flat_recall_score,
        sequence_accuracy,
        sequence_accuracy_score,
    )
    from mrflearn.evaluation.similarity import CosineSpace, analogies, spearman, word_similarity
    from mrflearn.evaluation.tagging import (
        Confusion,
        TaggingReport,
        confusion,
        many_to_one,
        tagging_report,
        v_measure,
    )

__all__ = [
    "BracketReport",
    "ChunkReport",
    "ChunkScore",
    "Confusion",
    "CosineSpace",
    "LayersReport",
    "Reliability",
    "TaggingReport",
    "analogies",
    "bracket_report",
    "chunk_report",
    "confusion",
    "flat_accuracy",
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "layers_report",
    "many_to_one",
    "reliability",
    "sequence_accuracy",
    "sequence_accuracy_score",
    "spearman",
    "tagging_report",
    "v_measure",
    "word_similarity",
]

__getattr__, __dir__ = lazy(__name__)

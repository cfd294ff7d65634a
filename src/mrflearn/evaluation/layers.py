"""Several layers of labels scored side by side: each layer alone, and all of them together.

A labelling has for each layer of each sentence the labels of its tokens: `labels[layer][sentence]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from mrflearn.errors import DataError
from mrflearn.evaluation.chunks import ChunkReport, chunk_report
from mrflearn.evaluation.tagging import Share, TaggingReport, hits, tagging_report
from mrflearn.io.spans import are_chunk_tags

Layer = Sequence[Sequence[str]]  # the labels of each sentence


@dataclass(frozen=True, slots=True)
class LayerReport:
    """How right one layer is; `chunks` where its labels are chunk tags."""

    tagging: TaggingReport
    chunks: ChunkReport | None


@dataclass(frozen=True, slots=True)
class LayersReport:
    """The report of each layer by name, and the tokens right in every layer at once."""

    layers: dict[str, LayerReport]
    joint: Share


def layers_report(truth: Mapping[str, Layer], predicted: Mapping[str, Layer]) -> LayersReport:
    """Accuracy of each layer, chunk scores where its labels are chunk tags, and joint accuracy."""
    if not truth or list(truth) != list(predicted):
        raise DataError(
            f"the true layers are {', '.join(truth) or 'none'}, the predicted ones "
            f"{', '.join(predicted) or 'none'}; both need the same."
        )
    reports = {name: _layer_report(truth[name], predicted[name]) for name in truth}
    layers = [chain.from_iterable(hits(truth[name], predicted[name])) for name in truth]
    right = list(map(all, zip(*layers, strict=True)))
    return LayersReport(reports, Share(sum(right), len(right)))


def _layer_report(truth: Layer, predicted: Layer) -> LayerReport:
    """Accuracy, and chunk scores where all labels are chunk tags."""
    labels = {label for part in (truth, predicted) for sentence in part for label in sentence}
    chunks = chunk_report(truth, predicted) if are_chunk_tags(labels) else None
    return LayerReport(tagging_report(truth, predicted), chunks)

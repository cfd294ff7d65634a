"""Several layers of labels scored side by side: each layer alone, and all of them together.

A labelling has for each layer of each sentence the labels of its tokens: `labels[layer][sentence]`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mrflearn.errors import DataError
from mrflearn.evaluation.chunks import ChunkReport, ChunkScore, chunk_report, paired
from mrflearn.evaluation.tagging import Share, TaggingReport, tagging_report
from mrflearn.io.spans import are_chunk_tags, split_tag

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
    reports = {name: layer_report(truth[name], predicted[name]) for name in truth}
    hits = (_hits(truth[name], predicted[name]) for name in truth)
    right = [all(own) for own in zip(*hits, strict=True)]
    return LayersReport(reports, Share(sum(right), len(right)))


def layer_report(truth: Layer, predicted: Layer) -> LayerReport:
    """Accuracy, and chunk scores where all labels are chunk tags."""
    labels = {label for part in (truth, predicted) for sentence in part for label in sentence}
    chunks = chunk_report(truth, predicted) if are_chunk_tags(labels) else None
    return LayerReport(tagging_report(truth, predicted), chunks)


def token_report(truth: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> ChunkReport:
    """Precision, recall and F1 of single tokens by label, as fields of a form are often scored.

    A token counts for the label of its chunk tag (`B-` and `I-` alike); O counts for nothing.
    """
    correct, guessed, actual = Counter[str](), Counter[str](), Counter[str]()
    for pair in paired(truth, predicted):
        for true, guess in zip(*pair, strict=True):
            (letter, label), (guessed_letter, guessed_label) = split_tag(true), split_tag(guess)
            actual[label] += letter != "O"
            guessed[guessed_label] += guessed_letter != "O"
            correct[label] += letter != "O" != guessed_letter and label == guessed_label
    names = sorted(name for name in actual.keys() | guessed.keys() if actual[name] + guessed[name])
    scores = {name: ChunkScore(correct[name], guessed[name], actual[name]) for name in names}
    total = ChunkScore(correct.total(), guessed.total(), actual.total())
    return ChunkReport(total, scores)


def _hits(truth: Layer, predicted: Layer) -> Iterable[bool]:
    for pair in paired(truth, predicted):
        yield from (a == b for a, b in zip(*pair, strict=True))

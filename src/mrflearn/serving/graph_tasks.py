"""Questions for CRFs on graphs: no graph fits on a line, but what was learned from them does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn.serving import blocks
from mrflearn.serving.tasks import Task

if TYPE_CHECKING:
    from mrflearn.estimators.graph_crf import GraphCRF

SHOWN = 20


def graph_tasks(model: GraphCRF) -> list[Task]:
    """What a CRF on graphs of any form can be asked."""

    def weights(words: list[str]) -> list[blocks.Block]:
        label = " ".join(words) or None
        rows: list[list[str | float]] = [
            [own.attribute, own.factors, " ".join(own.labels), own.weight]
            for own in model.top_features(label, SHOWN)
        ]
        header = ["attribute", "factors", "labels", "weight"]
        return [blocks.table("heaviest weights", header, rows)]

    hint, most = "a label; nothing: all labels", max(len(own.split()) for own in model.classes_)
    return [Task("weights", hint, model.classes_[0], weights, most=most, least=0)]

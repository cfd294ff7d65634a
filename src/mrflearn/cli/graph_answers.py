"""What `mrflearn inspect` says of a CRF on graphs of any form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from mrflearn.cli.answers import say, say_json
from mrflearn.cli.layered_answers import field_weights, tell_weights

if TYPE_CHECKING:
    from mrflearn.estimators.graph_crf import GraphCRF


def inspect_graphs(model: GraphCRF, top: int, label: str | None, as_json: bool) -> None:
    """Tells the labels, the sizes of its kinds of factors, and the heaviest weights."""
    labels = model.classes_
    if label is not None and label not in labels:
        raise typer.BadParameter(f"--label {label}: the labels are {', '.join(labels)}.")
    answer: dict[str, Any] = {
        "class": type(model).__name__,
        "estimator": model.estimator,
        "labels": labels,
        **field_weights(model, top, label),
    }
    if as_json:
        say_json(answer)
        return
    say(f"{answer['class']} by {model.estimator}: {len(labels)} labels ({', '.join(labels)})")
    tell_weights(answer)

"""What `mrflearn inspect` says of a chain CRF: its heaviest weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mrflearn.cli.answers import say, say_json, say_table

if TYPE_CHECKING:
    from mrflearn.estimators.crf import CRF


def inspect_crf(model: CRF, top: int, label: str | None, as_json: bool) -> None:
    """The heaviest attributes and transitions, of one label or of all."""
    features = model.top_features(label, top)
    transitions = [
        (names, weight)
        for names, weight in model.top_transitions(len(model.transition_features_))
        if label is None or label in names
    ][:top]
    edges = [
        row
        for row in model.top_edge_features(len(model.edge_features_))
        if label is None or label in row[1:3]
    ][:top]
    answer: dict[str, Any] = {
        "class": type(model).__name__,
        "labels": model.classes_,
        "attributes": model.num_attributes_,
        "temperature": getattr(model, "temperature_", 1.0),
        "features": [[*row] for row in features],
        "transitions": [[*names, weight] for names, weight in transitions],
        "edges": [[*row] for row in edges],
    }
    if as_json:
        say_json(answer)
        return
    say(f"CRF: {len(answer['labels'])} labels, {answer['attributes']:,} attributes")
    say()
    rows = [[attribute, name, f"{weight:+.4f}"] for attribute, name, weight in features]
    say_table(["attribute", "label", "weight"], rows)
    say()
    rows = [[" -> ".join(names), f"{weight:+.4f}"] for names, weight in transitions]
    say_table(["transition", "weight"], rows)
    if edges:
        say()
        rows = [[name, f"{a} -> {b}", f"{weight:+.4f}"] for name, a, b, weight in edges]
        say_table(["attribute", "transition", "weight"], rows)

"""Features as a user's own module has them, for models that name their functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NO_FUNCTION = 3


def of_words(sentence: Sequence[str]) -> list[dict[str, Any]]:
    """The word, its ending and whether it is capitalised."""
    return [{"w": w, "end": w[-1:], "capital": w[:1].isupper()} for w in sentence]


def of_rows(sentence: Sequence[Sequence[str]]) -> list[list[str]]:
    """Word and tag, and the tag before."""
    tags = ["", *(row[1] for row in sentence)]
    return [[f"w={r[0]}", f"t={r[1]}", f"b={tags[i]}"] for i, r in enumerate(sentence)]


def of_graph(graph: Any) -> Any:
    """The degree of every node."""
    for node in graph.nodes:
        graph.nodes[node]["features"] = [f"degree={graph.degree[node]}"]
    return graph

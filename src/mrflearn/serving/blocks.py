"""What an answer is made of: blocks that the page knows how to show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Block = dict[str, Any]


def tokens(
    words: Sequence[str], labels: Sequence[str], chances: Sequence[Sequence[tuple[str, float]]]
) -> Block:
    """Words with their labels; under each, the likeliest labels and their probabilities."""
    parts = [
        {"word": word, "label": label, "chances": [[name, chance] for name, chance in own]}
        for word, label, own in zip(words, labels, chances, strict=True)
    ]
    return {"kind": "tokens", "tokens": parts}


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str | float]]) -> Block:
    """A table; numbers are shown rounded."""
    return {"kind": "table", "title": title, "header": list(header), "rows": list(map(list, rows))}


def cells(title: str, rows: Sequence[Sequence[float]], names: Sequence[str] = ()) -> Block:
    """A matrix drawn as coloured cells: red above zero, blue below."""
    return {
        "kind": "cells",
        "title": title,
        "rows": [[float(value) for value in row] for row in rows],
        "names": list(names),
    }


def tree(title: str, node: Any) -> Block:
    """A parse: [label, child, child, ...], a word being a plain string."""
    return {"kind": "tree", "title": title, "tree": node}


def note(text: str) -> Block:
    """One sentence."""
    return {"kind": "note", "text": text}

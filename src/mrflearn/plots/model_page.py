"""What a page says of a fitted model: how training went, and what was learned, with pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrflearn.kinds import KINDS, found_in
from mrflearn.plots.page import Cell, Page


def model_page(model: Any, title: str, facts: Mapping[str, Any]) -> Page:
    """The page of a fitted estimator; `facts` are shown as a table."""
    page = Page(title)
    kind = type(model).__name__
    page.text(f"A {kind}. What training reported:")
    page.table(("", ""), [row for name, value in facts.items() for row in _fact(name, value)])
    place = KINDS[kind].page
    if place is not None:
        found_in("plots", place)(page, model)
    return page


def _fact(name: str, value: Any) -> list[tuple[Cell, ...]]:
    """One row, or none for what is no plain value and for where the model stands."""
    if name == "model" or value is None or not isinstance(value, (str, int, float)):
        return []
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return [(name.replace("_", " "), value)]

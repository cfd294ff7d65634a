"""One table of the Penn Treebank: our bounds beside the strongest rivals, in text and in gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import appendix
import figure6
import gaps
import trigrams
from results import Row
from rows import Rows

TEXT = "Penn Treebank"
HEADER = "model | validation | test | gaps, first guess | among ten | training, s | commit"


def report(rows: Rows) -> list[str]:
    """Lines of the table, the best validation text first; a line for what was not measured, too."""
    found = sorted(_lines(rows), key=lambda own: -own[0])
    return appendix.table(HEADER, (own[1:] for own in found)) if found else []


def _lines(rows: Rows) -> Iterator[tuple[Any, ...]]:
    guessed = {row["point"]["name"]: row for row in _of_text(rows.of(gaps.PART))}
    fields = [row for row in _of_text(rows.of(trigrams.PART)) if "seed" in row["point"]]
    for order in sorted({row["point"].get("order", 3) for row in fields}):
        own = [row for row in fields if row["point"].get("order", 3) == order]
        name = f"trigram field, n-grams to order {order}, certified, mean of {len(own)} seeds"
        shares = [_mean(own, key) for key in ("first", "among")]
        yield _line(name, own, _mean(own, "valid"), _mean(own, "test"), shares)
    for row in _of_text(rows.of(figure6.PART)):
        figures = row["figures"]
        if row["point"]["vocabulary"] is None and "bound" in row["point"]:
            gap = guessed.get(f"MRF, {row['point']['bound']}")
            name = f"{figures['name']}, D = {row['point']['dims']}, certified"
            yield _line(name, [row, *([gap] if gap else [])], figures["valid"], None, _shares(gap))
    for row in _of_text(rows.of(appendix.PART)):
        if row["point"]["form"] == "LBL" and row["point"]["vocabulary"] is None:
            kind = "one table of vectors" if row["point"]["tied"] else "U and W apart"
            name = f"log-bilinear, {kind}, D = {row['point']['dims']}, trained to its best, exact"
            yield _line(name, [row], row["figures"]["valid"], row["figures"]["test"], [])
    for row in _of_text(rows.of(trigrams.RIVALS)):
        order, figures = row["point"]["order"], row["figures"]
        for sides in ("", ", both sides"):
            gap = guessed.get(f"Kneser-Ney {order}-gram{sides}")
            name = f"Kneser-Ney {order}-gram, exact; in gaps {sides[2:] or 'the left side alone'}"
            own = [row, *([gap] if gap else [])]
            yield _line(name, own, figures["valid"], figures["test"], _shares(gap))


def _of_text(found: Iterable[Row]) -> list[Row]:
    return [row for row in found if row["point"]["text"] == TEXT]


def _mean(found: list[Row], key: str) -> float | None:
    values = [row["figures"].get(key) for row in found]
    return None if None in values else sum(values) / len(values)


def _shares(gap: Row | None) -> list[float | None]:
    return [] if gap is None else [gap["figures"][key] for key in ("first", "among")]


def _line(
    name: str, rows: list[Row], valid: float, test: float | None, shares: list[float | None]
) -> tuple[Any, ...]:
    text = [valid, name, f"{valid:.4f}", "" if test is None else f"{test:.4f}"]
    first, among = (
        "" if own is None else f"{100 * own:.1f} %" for own in (*shares, None, None)[:2]
    )
    seconds = max(row["figures"].get("seconds", 0.0) for row in rows)
    commits = ", ".join(dict.fromkeys(str(row.get("commit")) for row in rows))
    return (*text, first, among, f"{seconds:.1f}", commits)

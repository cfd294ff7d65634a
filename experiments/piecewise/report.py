"""Tables and pictures redrawn from the rows, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import published
from published import Figure
from rows import Rows
from strengths import SCORE, STRENGTHS, TUNED, chosen, tried
from synthetic_report import synthetic

Pick = Callable[[dict[str, Any]], float]

ORDER = ("ml", "bp", "pw", "pwpl", "pl", "edge-pl", "pw-reweighted")
FEATURES = {
    "tags": "on tokens",
    "tags-words": "on tokens, the word on transitions too",
    "tags-own": "on tokens, all of the token itself on transitions too",
    "tags-both": "on tokens and on transitions",
    "tags-edges": "on transitions alone",
}
CONDITIONS = """\
Means and, where there are several subsets or halves (their number in brackets), standard
deviations; scores in percent.  Gaussian prior of variance 10 (c2 = 0.05) where no other is named,
L-BFGS to its stopping rule, features of the paper's Tables 1 to 3 as far as the data allow
(`features.py`), so that scores are to be compared within a table.  Seconds are processor seconds of
one core of a machine kept busy by other work: they are good for ratios within a table."""


class Column(NamedTuple):
    """A figure of every estimator: its head, where it stands in a row, and what the paper has."""

    head: str
    pick: Pick
    theirs: Mapping[str, Figure] | None = None  # None: the paper has no such figure


def write_report(rows: Rows, folder: Path) -> None:
    """report.md with every table there are rows for, and the pictures."""
    parts = [
        _names(rows),
        _tags(rows),
        *(_strengths(rows, task) for task in TUNED),
        _chunks(rows),
        _seminars(rows),
        synthetic(rows, folder),
    ]
    lines = ["# Piecewise training: results", "", CONDITIONS]
    for part in parts:
        lines += part
    (folder / "report.md").write_text("\n".join(lines) + "\n")


def _names(rows: Rows) -> list[str]:
    theirs = published.TABLE_4 | {"pwpl": published.TABLE_8["names"]["pwpl"]}
    theirs |= {"pw-reweighted": published.TABLE_7["names"]["pw-reweighted"]}
    columns = [
        Column("F1", _of("name_f1"), theirs),
        Column("seconds", _seconds, published.TABLE_8_SECONDS["names"]),
    ]
    return _table("Tables 4, 7, 8: names", rows, "names", columns)


def _tags(rows: Rows) -> list[str]:
    columns = [
        Column("accuracy", _of("tag_accuracy"), published.TABLE_8["tags"]),
        Column("seconds", _seconds, published.TABLE_8_SECONDS["tags"]),
    ]
    lines = []
    for task, where in FEATURES.items():
        lines += _table(
            f"Table 8: parts of speech, features {where} (`{task}`)", rows, task, columns
        )
    return lines


def _chunks(rows: Rows) -> list[str]:
    small = published.TABLE_5 | {"pw-reweighted": published.TABLE_7["chunks-223"]["pw-reweighted"]}
    large = published.TABLE_8["chunks-447"], published.TABLE_8_SECONDS["chunks-447"]
    others = [Column("parts of speech", _of("pos_accuracy")), Column("both", _of("joint_accuracy"))]
    f1, seconds = Column("F1", _of("chunk_f1")), Column("seconds", _seconds)
    titles = {
        "chunks-223": "Tables 5, 7: noun phrases, 223 sentences",
        "chunks-447": "Table 8: noun phrases, 447 sentences (both layers right: an accuracy)",
        "chunks-grmm": "Noun phrases, the first 223 sentences, as GRMM was measured",
        "chunks-all": "Noun phrases, all 8,936 sentences",
    }
    columns = {
        "chunks-223": [f1._replace(theirs=small), *others, seconds],
        "chunks-447": [
            f1,
            others[0],
            others[1]._replace(theirs=large[0]),  # which the paper calls an accuracy
            seconds._replace(theirs=large[1]),
        ],
    }
    lines = []
    for task, title in titles.items():
        lines += _table(title, rows, task, columns.get(task, [f1, *others, seconds]))
    return lines


def _seminars(rows: Rows) -> list[str]:
    columns = []
    for field, table in published.TABLE_9.items():
        theirs = dict(table)
        if field in published.TABLE_6:
            theirs["edge-pl"] = published.TABLE_6[field]["edge-pl"]
            theirs["pw-reweighted"] = published.TABLE_7[field]["pw-reweighted"]
        columns.append(Column(field, _field(field), theirs))
    columns.append(Column("seconds", _seconds))
    return _table("Tables 6, 7, 9: seminars, F1 of tokens", rows, "seminars", columns)


def _table(title: str, rows: Rows, task: str, columns: list[Column]) -> list[str]:
    """An estimator a line, those of the paper among them; nothing where none was measured."""
    found = {estimator: rows.of(task, estimator) for estimator in ORDER}
    if not any(found.values()):
        return []
    heads = ["estimator"]
    for column in columns:
        heads += [column.head] if column.theirs is None else [column.head, "paper"]
    lines = ["", f"## {title}", "", *_head(heads)]
    for estimator, own in found.items():
        known = any(estimator in (column.theirs or {}) for column in columns)
        if own or known:
            cells = [cell for column in columns for cell in _cells(column, estimator, own)]
            lines.append(f"| {estimator} | " + " | ".join(cells) + " |")
    return lines


def _cells(column: Column, estimator: str, own: list[dict[str, Any]]) -> list[str]:
    ours = _words([column.pick(row) for row in own])
    if column.theirs is None:
        return [ours]
    mean, spread = column.theirs.get(estimator, (None, None))
    paper = "" if mean is None else f"{mean:g}" + ("" if spread is None else f" ± {spread:g}")
    return [ours, paper]


def _strengths(rows: Rows, task: str) -> list[str]:
    """A task again, each estimator with the penalty that did best on held-out sentences."""
    tuned = chosen(rows, task)
    if not tuned:
        return []
    heads = ["estimator", *(f"c2 {c2:g}" for c2 in STRENGTHS), "chosen", "test", "test, c2 0.05"]
    title = f"`{task}`, the prior chosen on a held-out fifth of the first training subset"
    lines = ["", f"## {title}", "", *_head(heads)]
    for estimator, c2 in tuned.items():
        scores = tried(rows, task, estimator)
        cells = [f"{100 * scores[own]:.2f}" for own in STRENGTHS] + [f"{c2:g}"]
        tests = (rows.of(task, estimator, c2), rows.of(task, estimator))
        cells += [_words([_of(SCORE)(row) for row in own]) for own in tests]
        lines.append(f"| {estimator} | " + " | ".join(cells) + " |")
    return lines


def _head(heads: list[str]) -> list[str]:
    return ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]


def _words(values: list[float]) -> str:
    if not values:
        return "not run"
    if len(values) == 1:
        return f"{values[0]:.2f} (1)"
    return f"{fmean(values):.2f} ± {stdev(values):.2f} ({len(values)})"


def _of(name: str) -> Pick:
    return lambda row: 100 * float(row[name])


def _field(name: str) -> Pick:
    return lambda row: 100 * float(row["token_f1"].get(name, 0.0))


def _seconds(row: dict[str, Any]) -> float:
    return float(row["train_cpu_seconds"])

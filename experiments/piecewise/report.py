"""Tables and pictures redrawn from the rows, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import published
from published import Figure
from rows import Point, Rows
from strengths import SCORES, STRENGTHS, chosen, tried
from synthetic import ALPHAS

from mrflearn.plots.figure import COLOURS, INK, panels, save

Pick = Callable[[dict[str, Any]], float]

CONDITIONS = """\
Mean and, where there are several subsets or folds (their number in brackets), standard deviation;
scores in percent.  Gaussian prior of variance 10, L-BFGS to its stopping rule, features of the
paper's Tables 1 to 3 on every edge, without its lists of names and with another lexicon
(`features.py` says which), so that scores are to be compared within a table.  Ours are processor
seconds on one core of a machine busy with other work; `make bench-piecewise` times with care."""


def write_report(rows: Rows, folder: Path) -> None:
    """report.md with every table there are rows for, and the pictures."""
    parts = [
        _chain_tables(rows),
        _chunk_tables(rows),
        _seminar_tables(rows),
        _reweighted(rows),
        _times(rows),
        _synthetic(rows, folder),
    ]
    lines = ["# Piecewise training: results", "", CONDITIONS]
    for part in parts:
        lines += part
    (folder / "report.md").write_text("\n".join(lines) + "\n")


def _chain_tables(rows: Rows) -> list[str]:
    lines = _table("Table 4: names, F1", rows, "names", _of("name_f1"), published.TABLE_4)
    return lines + [line for task in STRENGTHS for line in _strengths(rows, task)]


def _strengths(rows: Rows, task: str) -> list[str]:
    """A task again, each estimator with the penalty that did best on held-out sentences."""
    tuned, grid, score = chosen(rows, task), STRENGTHS[task], _of(SCORES[task])
    if not tuned:
        return []
    heads = [f"held out, c2 = {c2:g}" for c2 in grid]
    heads += ["chosen", "test", "seconds", "test, c2 = 0.05", "seconds, c2 = 0.05"]
    lines = [
        "",
        f"## {task}, the prior of each estimator chosen on held-out training sentences",
        "",
    ]
    lines += ["| estimator | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for estimator, c2 in tuned.items():
        scores = tried(rows, task, estimator)
        cells = [f"{100 * scores[own]:.2f}" for own in grid] + [f"{c2:g}"]
        for prior in (c2, Point.c2):
            found = rows.of(task, estimator, prior)
            picks = (score, _of("train_cpu_seconds", 1))
            cells += [_words(list(map(pick, found))) if found else "not run" for pick in picks]
        lines.append(f"| {estimator} | " + " | ".join(cells) + " |")
    return lines


def _chunk_tables(rows: Rows) -> list[str]:
    lines = _table(
        "Table 5: noun phrases, 223 sentences, F1",
        rows,
        "chunks-223",
        _of("chunk_f1"),
        published.TABLE_5,
    )
    for task, title in (
        ("chunks-grmm", "GRMM's setting: the first 223 sentences"),
        ("chunks-all", "All 8,936 sentences"),
    ):
        for name in ("chunk_f1", "pos_accuracy", "joint_accuracy", "train_cpu_seconds"):
            scale = 1 if name == "train_cpu_seconds" else 100
            lines += _table(f"{title}, {name}", rows, task, _of(name, scale), {})
    return lines


def _seminar_tables(rows: Rows) -> list[str]:
    lines = []
    for field, theirs in published.TABLE_6.items():
        title = f"Table 6: seminars, {field}, F1 of tokens"
        lines += _table(title, rows, "seminars", _field(field), theirs)
    for field, theirs in published.TABLE_9.items():
        title = f"Table 9: seminars, {field}, F1 of tokens"
        lines += _table(title, rows, "seminars", _field(field), theirs)
    return lines


def _reweighted(rows: Rows) -> list[str]:
    picks = {"names": _of("name_f1"), "chunks-223": _of("chunk_f1")}
    lines = []
    for name, theirs in published.TABLE_7.items():
        task, pick = (name, picks[name]) if name in picks else ("seminars", _field(name))
        title = f"Table 7: basic and reweighted pieces, {name}"
        lines += _table(title, rows, task, pick, theirs, only=tuple(theirs))
    return lines


def _times(rows: Rows) -> list[str]:
    picks = {
        "tags": "tag_accuracy",
        "tags-edges": "tag_accuracy",
        "tags-both": "tag_accuracy",
        "chunks-447": "chunk_f1",
        "names": "name_f1",
    }
    lines = []
    for task, name in picks.items():
        title, theirs = f"Table 8: {task}", "tags" if task.startswith("tags") else task
        lines += _table(f"{title}, {name}", rows, task, _of(name), published.TABLE_8[theirs])
        seconds = published.TABLE_8_SECONDS[theirs]
        lines += _table(f"{title}, seconds", rows, task, _of("train_cpu_seconds", 1), seconds)
    return lines


def _table(
    title: str,
    rows: Rows,
    task: str,
    pick: Pick,
    theirs: Mapping[str, Figure],
    only: tuple[str, ...] = (),
) -> list[str]:
    """A table for each number of training sentences, most first; empty where none was measured."""
    by_size: dict[int, dict[str, list[float]]] = {}
    for row in rows.of(task):
        name = row["point"]["estimator"]
        if row["point"]["start"] != "zero":
            name += f" from {row['point']['start']}"
        if not only or name in only:
            ours = by_size.setdefault(row["train_sentences"], {})
            ours.setdefault(name, []).append(pick(row))
    return [
        line
        for size in sorted(by_size, reverse=True)
        for line in _beside(f"{title} (ours trained on {size:,})", by_size[size], theirs)
    ]


def _beside(title: str, ours: Mapping[str, list[float]], theirs: Mapping[str, Figure]) -> list[str]:
    """One table: an estimator a line, ours beside the paper's."""
    lines = ["", f"## {title}", "", "| estimator | ours | paper |", "|---|---|---|"]
    run = {name.removesuffix(" from chain") for name in ours}
    for name in sorted(ours.keys() | (theirs.keys() - run)):
        own = _words(ours[name]) if name in ours else "not run"
        mean, spread = theirs.get(name.removesuffix(" from chain"), (None, None))
        paper = "" if mean is None else f"{mean:g}" + ("" if spread is None else f" ± {spread:g}")
        lines.append(f"| {name} | {own} | {paper} |")
    return lines


def _words(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.2f} (1)"
    return f"{fmean(values):.2f} ± {stdev(values):.2f} ({len(values)})"


def _of(name: str, scale: float = 100.0) -> Pick:
    return lambda row: scale * float(row[name])


def _field(name: str) -> Pick:
    return lambda row: 100 * float(row["token_f1"].get(f"{name}", 0.0))


def _synthetic(rows: Rows, folder: Path) -> list[str]:
    """Figures 3 and 4, and the words of section 5.2.1."""
    errors = _errors(rows)
    largest = max((size for own in errors.values() for _, size in own), default=0)
    whole = {
        estimator: {draw: error for (draw, size), error in own.items() if size == largest}
        for estimator, own in errors.items()
    }
    lines: list[str] = []
    shared = sorted(set.intersection(*(set(own) for own in whole.values()))) if whole else []
    if {"pl", "pw", "pwpl"} <= whole.keys() and len(shared) > 1:
        pairs = {name: [whole[name][draw] for draw in shared] for name in ("pl", "pw", "pwpl")}
        _draw_scatter(pairs, shared, folder / "figure-3.png")
        lines += ["", f"## Section 5.2.1 and Figure 3: {len(shared)} generating models", ""]
        lines += _differences(pairs)
    curves = _curves(errors)
    if curves:
        _draw_curves(curves, folder / "figure-4.png")
        lines += ["", f"## Figure 4: learning curves (paper: {published.FIGURE_4})", ""]
        lines += ["| sequences | " + " | ".join(curves) + " |", "|---" * (len(curves) + 1) + "|"]
        for size in next(iter(curves.values())):
            cells = " | ".join(f"{100 * (1 - curve[size]):.2f}" for curve in curves.values())
            lines.append(f"| {size} | {cells} |")
    return lines


def _errors(rows: Rows) -> dict[str, dict[tuple[int, int], float]]:
    found: dict[str, dict[tuple[int, int], float]] = {}
    for row in rows.of("hmm"):
        point = row["point"]
        own = found.setdefault(point["estimator"], {})
        own[point["draw"], point["size"]] = 1 - row["state_accuracy"]
    return found


def _differences(errors: Mapping[str, list[float]]) -> list[str]:
    import numpy as np
    from scipy.stats import ttest_rel

    apart = np.subtract(errors["pwpl"], errors["pw"])
    alike = np.corrcoef(errors["pwpl"], errors["pw"])[0, 1]
    test = ttest_rel(errors["pl"], errors["pwpl"])
    near = f"mean difference in testing error {apart.mean():.4f}, correlation {alike:.4f}"
    means = " and ".join(f"{fmean(errors[name]):.4f}" for name in ("pl", "pwpl"))
    return [
        f"PWPL and PW: {near} (paper: {published.PW_AND_PWPL}).",
        "",
        f"PL and PWPL: mean testing error {means}, paired t-test p = {test.pvalue:.2g}.",
        "",
        f"The paper: {published.FIGURE_3}.",
    ]


def _curves(errors: Mapping[str, dict[tuple[int, int], float]]) -> dict[str, dict[int, float]]:
    """The mean error at each size over the models that were trained at every size."""
    names = [name for name in ("pl", "pwpl") if name in errors]
    sizes = sorted({size for name in names for _, size in errors[name]})
    draws = [
        draw
        for draw in sorted({draw for name in names for draw, _ in errors[name]})
        if all((draw, size) in errors[name] for name in names for size in sizes)
    ]
    if len(sizes) < 2 or not draws:
        return {}
    return {
        name: {size: fmean(errors[name][draw, size] for draw in draws) for size in sizes}
        for name in names
    }


def _draw_scatter(errors: Mapping[str, list[float]], draws: list[int], path: Path) -> None:
    figure, axes = panels(2, width=4.4, height=4.0)
    for axis, other in zip(axes, ("pl", "pw"), strict=True):
        for place, alpha in enumerate(ALPHAS):
            own = [i for i, draw in enumerate(draws) if draw % len(ALPHAS) == place]
            x, y = ([errors[name][i] for i in own] for name in (other, "pwpl"))
            colour = COLOURS[place % len(COLOURS)] if place < len(COLOURS) else INK
            axis.plot(x, y, ".", color=colour, label=f"alpha {alpha:g}")
        ends = [min(map(min, errors.values())), max(map(max, errors.values()))]
        axis.plot(ends, ends, color=INK, lw=0.8)
        axis.set(xlabel=f"testing error, {other.upper()}", ylabel="testing error, PWPL")
    axes[0].legend(frameon=False, fontsize=8)
    save(figure, path)


def _draw_curves(curves: Mapping[str, dict[int, float]], path: Path) -> None:
    figure, axes = panels(1, width=5.0, height=3.6)
    for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
        accuracy = [100 * (1 - error) for error in curve.values()]
        axes[0].plot(list(curve), accuracy, "o-", color=colour, label=name.upper())
    axes[0].set(xlabel="training sequences", ylabel="testing accuracy, %", xscale="log")
    axes[0].legend(frameon=False)
    save(figure, path)

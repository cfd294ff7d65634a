"""`mrflearn evaluate` of a model with a grammar: its trees beside a treebank's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mrflearn.cli.answers import remark, say, say_json, say_table
from mrflearn.errors import DataError


def evaluate_parses(fitted: Any, file: Path, as_json: bool) -> None:
    """Labelled brackets of the most probable trees, as evalb counts them."""
    from mrflearn.evaluation.brackets import bracket_report
    from mrflearn.io.ptb import read_trees
    from mrflearn.io.trees import remove_traces

    truth = [tree for tree in map(remove_traces, read_trees(file)) if tree is not None]
    if not truth:
        raise DataError("there are no trees in it.", path=file)
    report = bracket_report(truth, fitted.parse([tree.words for tree in truth]))
    total = report.total
    answer = {
        "sentences": report.sentences,
        "unparsed": report.unparsed,
        "precision": total.precision,
        "recall": total.recall,
        "f1": total.f1,
        "exact": report.exact,
        "tagging": report.tagging,
        "labels": {name: score.f1 for name, score in report.by_label.items()},
    }
    if as_json:
        say_json(answer)
        return
    say(
        f"labelled brackets: precision {100 * total.precision:.2f} %, recall "
        f"{100 * total.recall:.2f} %, F1 {100 * total.f1:.2f} % ({report.sentences:,} sentences; "
        f"exact {100 * report.exact:.2f} %, tags {100 * report.tagging:.2f} %)"
    )
    common = sorted(report.by_label.items(), key=lambda item: -item[1].actual)[:10]
    rows = [
        [name, *(f"{100 * share:.2f}" for share in (s.precision, s.recall, s.f1)), str(s.actual)]
        for name, s in common
    ]
    say_table(["brackets, %", "precision", "recall", "F1", "true"], rows)
    if report.unparsed:
        remark(f"{report.unparsed} sentences have no parse; their brackets count as missed")

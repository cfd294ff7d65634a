"""`mrflearn evaluate` of a model with a grammar: its trees beside a treebank's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mrflearn.cli.answers import remark, say, say_json, say_table


def evaluate_parses(fitted: Any, file: Path, as_json: bool) -> None:
    """Labelled brackets of the most probable trees, as evalb counts them."""
    from mrflearn.data.ptb import read_trees
    from mrflearn.data.trees import remove_traces
    from mrflearn.evaluation.brackets import bracket_report

    truth = [tree for tree in map(remove_traces, read_trees(file)) if tree is not None]
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
        f"labelled brackets: precision {total.precision:.4f}, recall {total.recall:.4f}, "
        f"F1 {total.f1:.4f} ({report.sentences} sentences; exact {report.exact:.4f}, "
        f"tags {report.tagging:.4f})"
    )
    common = sorted(report.by_label.items(), key=lambda item: -item[1].actual)[:10]
    rows = [
        [name, f"{s.precision:.3f}", f"{s.recall:.3f}", f"{s.f1:.3f}", str(s.actual)]
        for name, s in common
    ]
    say_table(["label", "precision", "recall", "F1", "brackets"], rows)
    if report.unparsed:
        remark(f"{report.unparsed} sentences have no parse; their brackets count as missed")

"""What `tag`, `evaluate` and `inspect` say of CRFs on graphs of any form."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mrflearn.cli.answers import say, say_json
from mrflearn.cli.labelling import batches, mistakes_of, tell_mistakes
from mrflearn.cli.layered_answers import field_weights, tell_weights
from mrflearn.errors import DataError

if TYPE_CHECKING:
    from mrflearn.estimators.graph_crf import GraphAnswer, GraphCRF
    from mrflearn.io.graphs import LabelledGraph

BATCH = 100


def tag_graphs(
    model: GraphCRF, file: Path, n: int, marginals: bool, batch: int, as_json: bool
) -> None:
    """The nodes of each graph, each with its label; a blank line ends a graph."""
    from mrflearn.io.graphs import read_graphs

    for part in batches(read_graphs(file), batch):
        graphs = [own.networkx() for own in part]
        best = model.n_best(graphs, n) if n > 1 else [[own] for own in model.decode(graphs)]
        chances = model.predict_marginals(graphs) if marginals else [None] * len(part)
        for answers, chance in zip(best, chances, strict=True):
            if as_json:
                say_json(_record(answers, chance))
            else:
                _tell(answers, chance)
        sys.stdout.flush()  # whoever reads a pipe should not wait for the next batch


def _record(answers: list[GraphAnswer], chance: Any) -> dict[str, Any]:
    best = answers[0]
    record = {"labels": best.labels, "score": best.score, "kind": best.kind}
    record["converged"] = best.converged
    if len(answers) > 1:
        record["nbest"] = [{"labels": own.labels, "score": own.score} for own in answers]
    if chance is not None:
        record["marginals"] = chance
    return record


def _tell(answers: list[GraphAnswer], chance: Any) -> None:
    for rank, own in enumerate(answers):
        if len(answers) > 1:
            say(f"# {rank} {own.score:.6f}")
        for node, label in own.labels.items():
            sure = [] if chance is None else [f"{chance[node][label]:.4f}"]
            say("\t".join([str(node), label, *sure]))
        say()


def evaluate_graphs(model: GraphCRF, file: Path, n: int, as_json: bool) -> None:
    """Accuracy of nodes and of whole graphs, and which labels are taken for others."""
    from mrflearn.evaluation.tagging import confusion, tagging_report
    from mrflearn.io.graphs import read_graphs

    truth: list[list[str]] = []
    found: list[list[str]] = []
    for part in batches(read_graphs(file), BATCH):
        answers = model.predict([own.networkx() for own in part])
        for graph, labels in zip(part, answers, strict=True):
            truth.append(_known(graph, file, len(truth)))
            found.append([labels[node] for node in graph.nodes])
    if not truth:
        raise DataError("there are no graphs in it.", path=file)
    report, table = tagging_report(truth, found), confusion(truth, found)
    answer = {
        "file": str(file),
        "graphs": report.sentences.total,
        "nodes": report.tokens.total,
        "accuracy": report.tokens.accuracy,
        "graph_accuracy": report.sentences.accuracy,
        "mistakes": mistakes_of(table, n),
    }
    if as_json:
        say_json(answer)
        return
    say(f"{file}: {answer['graphs']:,} graphs, {answer['nodes']:,} nodes")
    say(
        f"accuracy {100 * report.tokens.accuracy:.2f} %, whole graphs "
        f"{100 * report.sentences.accuracy:.2f} %"
    )
    tell_mistakes(mistakes_of(table, n), "true label")


def _known(graph: LabelledGraph, file: Path, number: int) -> list[str]:
    labels = [label for label in graph.labels.values() if isinstance(label, str)]
    if len(labels) < len(graph.nodes):
        raise DataError(
            f"graph {number} (counted from 0) has nodes without one label, so that there is "
            "nothing to compare with.",
            path=file,
        )
    return labels


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

"""What `mrflearn evaluate` tells of a chain CRF: how right it is on labelled data."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrflearn.cli.answers import say, say_json, say_table
from mrflearn.cli.labelling import batches, mistakes_of, tell_mistakes, with_recipe
from mrflearn.cli.options import ChunkScheme
from mrflearn.cli.pictures import keep
from mrflearn.cli.tagger_files import figures, tell_figures

if TYPE_CHECKING:
    from mrflearn.estimators.crf import CRF
    from mrflearn.evaluation.calibration import Reliability
    from mrflearn.evaluation.chunks import ChunkReport

BATCH = 500


def evaluate_crf(
    crf: CRF,
    folder: Path,
    file: Path,
    train: Path | None,
    scheme: ChunkScheme | None,
    n: int,
    calibration: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Accuracy of tokens and, for chunk tags, precision, recall and F1 as conlleval counts them."""
    from mrflearn.evaluation.chunks import chunk_report
    from mrflearn.evaluation.tagging import confusion, tagging_report
    from mrflearn.io.spans import are_chunk_tags

    truth, found, words = _labels(with_recipe(crf, folder), file, scheme)
    known = None if train is None else _words(crf, train)
    tokens = tagging_report(truth, found, words=words if known is not None else None, known=known)
    table = confusion(truth, found)
    answer: dict[str, Any] = {
        "file": str(file),
        "sentences": tokens.sentences.total,
        "tokens": tokens.tokens.total,
        **figures(tokens),
        "sentence_accuracy": tokens.sentences.accuracy,
    }
    if are_chunk_tags(table.labels):
        answer |= _chunk_figures(chunk_report(truth, found))
    answer["mistakes"] = mistakes_of(table, n)
    reliable = _reliability(crf, file, truth) if calibration else None
    if reliable is not None:
        answer["calibration_error"] = reliable.expected_error
    if plot is not None:
        draw(plot, table, reliable)
    if as_json:
        say_json(answer)
    else:
        _tell(answer, reliable)


def _labels(
    crf: CRF, file: Path, scheme: ChunkScheme | None
) -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
    from mrflearn.errors import DataError
    from mrflearn.estimators.crf_answers import Constraints

    constraints = Constraints(scheme=scheme.value) if scheme else None
    truth: list[list[str]] = []
    found: list[list[str]] = []
    words: list[list[str]] = []
    for part in batches(crf.recipe_.read(file), BATCH):
        for example in part:
            if example.labels is None:
                raise DataError("there are no labels to compare with.")
            truth.append(list(example.labels))
            words.append([row[0] if row else "" for row in example.rows])
        found += crf.predict([example.items for example in part], constraints)
    if not truth:
        raise DataError("there are no sentences in it.")
    return truth, found, words


def _words(crf: CRF, file: Path) -> set[str]:
    return {row[0] for example in crf.recipe_.read(file) for row in example.rows if row}


def _chunk_figures(report: ChunkReport) -> dict[str, Any]:
    scores = {"": report.total, **report.by_label}
    figures = {
        name: {"precision": s.precision, "recall": s.recall, "f1": s.f1, "chunks": s.actual}
        for name, s in scores.items()
    }
    total = figures.pop("")
    return {**total, "by_label": figures}


def _reliability(crf: CRF, file: Path, truth: Iterable[list[str]]) -> Reliability:
    from mrflearn.evaluation.calibration import reliability

    sure: list[float] = []
    right: list[bool] = []
    gold = iter(truth)
    for part in batches(crf.recipe_.read(file), BATCH):
        for marginals in crf.predict_marginals([example.items for example in part]):
            for label, token in zip(next(gold), marginals, strict=True):
                guess = max(token, key=token.__getitem__)
                sure.append(token[guess])
                right.append(guess == label)
    return reliability(sure, right)


def draw(file: Path, table: Any, reliable: Reliability | None) -> None:
    """The confusions, or where calibration was asked for, how far probabilities hold."""
    from mrflearn.plots.calibration import draw_reliability
    from mrflearn.plots.confusion import draw_confusion

    keep(
        draw_confusion(table) if reliable is None else draw_reliability({"tokens": reliable}), file
    )


def _tell(answer: dict[str, Any], reliable: Reliability | None) -> None:
    say(f"{answer['file']}: {answer['sentences']:,} sentences, {answer['tokens']:,} tokens")
    say(tell_figures(answer))
    say(f"whole sentences {100 * answer['sentence_accuracy']:.2f} %")
    if "f1" in answer:
        say()
        rows = [_row("all", answer)]
        rows += [_row(name, own) for name, own in answer["by_label"].items()]
        say_table(["chunks, %", "precision", "recall", "F1", "true"], rows)
    tell_mistakes(answer["mistakes"], "true label")
    if reliable is not None:
        say()
        tell_reliability(reliable)


def _row(name: str, score: dict[str, Any]) -> list[str]:
    shares = [f"{100 * score[key]:.2f}" for key in ("precision", "recall", "f1")]
    return [name, *shares, str(score["chunks"])]


def tell_reliability(table: Reliability) -> None:
    """How often predictions of each confidence are right, as a table."""
    columns = zip(
        table.edges[:-1],
        table.edges[1:],
        table.counts,
        table.confidence,
        table.accuracy,
        strict=True,
    )
    rows = [
        [f"{low:.1f} - {high:.1f}", f"{count:.0f}", f"{sure:.4f}", f"{right:.4f}"]
        for low, high, count, sure, right in columns
        if count
    ]
    say_table(["confidence", "tokens", "mean", "right"], rows)
    say(f"expected calibration error {100 * table.expected_error:.2f} %")

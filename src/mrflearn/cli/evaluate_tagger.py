"""What `mrflearn evaluate` tells of a tagger: how right it is on words seen and not seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrflearn.cli.answers import remark, say, say_json
from mrflearn.cli.evaluate_crf import draw, tell_reliability
from mrflearn.cli.labelling import mistakes_of, tell_mistakes
from mrflearn.cli.tagger_files import Tagger, figures, rate, read_truth, source_kept, tell_figures

if TYPE_CHECKING:
    from mrflearn.evaluation.calibration import Reliability


def evaluate_tagger(
    tagger: Tagger, file: Path, n: int, calibration: bool, plot: Path | None, as_json: bool
) -> None:
    """Accuracy of all tokens, of seen and of unseen words, and which tags are confused."""
    from mrflearn.evaluation.tagging import confusion

    words, truth = read_truth(source_kept(tagger), file)
    report, found = rate(tagger, words, truth)
    table = confusion(truth, found)
    answer: dict[str, Any] = {
        "file": str(file),
        "sentences": report.sentences.total,
        "tokens": report.tokens.total,
        **figures(report),
        "sentence_accuracy": report.sentences.accuracy,
        "unknown_tags": _unknown_tags(truth, tagger.classes_),
        "mistakes": mistakes_of(table, n),
        "confusion": {"labels": table.labels, "counts": table.counts.tolist()},
    }
    reliable = _reliability(tagger, words, truth) if calibration else None
    if reliable is not None:
        answer["calibration_error"] = reliable.expected_error
    if plot is not None:
        draw(plot, table, reliable)
    for tag, count in answer["unknown_tags"].items():
        remark(f"the tag '{tag}' was never seen in training; its {count} tokens count as wrong")
    if as_json:
        say_json(answer)
    else:
        _tell(answer, reliable)


def _unknown_tags(truth: Sequence[Sequence[str]], classes: Sequence[str]) -> dict[str, int]:
    """How often tags occur that training never saw."""
    known, found = set(classes), dict[str, int]()
    for tag in (tag for own in truth for tag in own if tag not in known):
        found[tag] = found.get(tag, 0) + 1
    return found


def _reliability(
    tagger: Tagger, words: Sequence[Sequence[str]], truth: Sequence[Sequence[str]]
) -> Reliability:
    from mrflearn.evaluation.calibration import reliability

    classes = tagger.classes_
    sure: list[float] = []
    right: list[bool] = []
    for table, own in zip(tagger.predict_proba(words), truth, strict=True):
        sure += table.max(axis=1).tolist() if len(own) else []
        best = table.argmax(axis=1).tolist() if len(own) else []
        right += [classes[guess] == tag for guess, tag in zip(best, own, strict=True)]
    return reliability(sure, right)


def _tell(answer: dict[str, Any], reliable: Reliability | None) -> None:
    say(f"{answer['file']}: {answer['sentences']:,} sentences, {answer['tokens']:,} tokens")
    say(tell_figures(answer))
    say(f"whole sentences {100 * answer['sentence_accuracy']:.2f} %")
    tell_mistakes(answer["mistakes"], "true tag")
    if reliable is not None:
        say()
        tell_reliability(reliable)

"""What the verbs that teach and ask taggers share: their files, and figures on tagged text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mrflearn.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mrflearn.evaluation.tagging import TaggingReport
    from mrflearn.io.tag_files import TagSource


class Tagger(Protocol):
    """What every tagger can be asked."""

    @property
    def classes_(self) -> list[str]: ...

    @property
    def known_words_(self) -> set[str]: ...

    def predict(self, X: Sequence[Sequence[str]]) -> list[list[str]]: ...

    def predict_proba(self, X: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]: ...

    def n_best(self, X: Sequence[Sequence[str]], n: int) -> list[list[tuple[list[str], float]]]: ...


def rate(
    tagger: Tagger, words: list[tuple[str, ...]], truth: list[tuple[str, ...]]
) -> tuple[TaggingReport, list[list[str]]]:
    """How right a tagger is, and what it said."""
    from mrflearn.evaluation.tagging import tagging_report

    found = tagger.predict(words)
    return tagging_report(truth, found, words=words, known=tagger.known_words_), found


def figures(report: TaggingReport) -> dict[str, Any]:
    """Shares between 0 and 1; null where there is nothing to share."""
    answer: dict[str, Any] = {"accuracy": report.tokens.accuracy}
    if report.seen is not None and report.unseen is not None:
        answer["accuracy_seen"] = report.seen.accuracy
        answer["accuracy_unseen"] = report.unseen.accuracy
        answer["unseen_tokens"] = report.unseen.total
    return answer


def read_truth(
    source: TagSource, file: Path
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Words and tags of a file in which every word has its tag."""
    words, tags = source.tagged(file)
    truth: list[tuple[str, ...]] = []
    for number, own in enumerate(tags, start=1):
        known = tuple(tag for tag in own if tag is not None)
        if len(known) < len(own):
            raise DataError(
                f"sentence {number} has words without a tag (`_`) in column '{source.column}', so "
                "that there is nothing to compare with.",
                path=file,
            )
        truth.append(known)
    return words, truth


def tell_figures(answer: dict[str, Any]) -> str:
    """The figures as people read them."""
    told = [f"accuracy {_percent(answer['accuracy'])}"]
    if "accuracy_seen" in answer:
        told.append(f"on words seen in training {_percent(answer['accuracy_seen'])}")
        unseen = f"on the {answer['unseen_tokens']:,} others {_percent(answer['accuracy_unseen'])}"
        told += [unseen] if answer["unseen_tokens"] else ["there are no others"]
    return "; ".join(told)


def _percent(share: float) -> str:
    return "(none)" if math.isnan(share) else f"{100 * share:.2f} %"

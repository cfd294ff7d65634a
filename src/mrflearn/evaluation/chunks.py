"""Precision, recall and F1 of chunks, counted as the CoNLL shared tasks' scorer counts them.

A predicted chunk is right if a true chunk has the same first token, last token and label.  Which
chunks tags stand for, ill-formed ones too, is `mrflearn.io.spans`' reading, so IOB1, IOB2 and
BIOES tags of the same chunks score the same, and may even be compared with each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from mrflearn.errors import DataError
from mrflearn.io.spans import Scheme, tags_to_spans


@dataclass(frozen=True, slots=True)
class ChunkScore:
    """Counts of chunks, and the shares they make (between 0 and 1; 0 where nothing is counted)."""

    correct: int
    predicted: int
    actual: int

    @property
    def precision(self) -> float:
        """The share of predicted chunks that are right."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of true chunks that were found."""
        return self.correct / self.actual if self.actual else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        both = self.predicted + self.actual
        return 2 * self.correct / both if both else 0.0


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """The score of all chunks, and that of each label, by name."""

    total: ChunkScore
    by_label: dict[str, ChunkScore]

    @classmethod
    def of(cls, correct: Counter[str], guessed: Counter[str], actual: Counter[str]) -> ChunkReport:
        """The report of counts by label."""
        labels = sorted(guessed.keys() | actual.keys())
        scores = {name: ChunkScore(correct[name], guessed[name], actual[name]) for name in labels}
        return cls(ChunkScore(correct.total(), guessed.total(), actual.total()), scores)


def chunk_report(
    truth: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]], scheme: Scheme | None = None
) -> ChunkReport:
    """The scores of tag sequences; with a `scheme`, true tags that break it are a `DataError`."""
    correct, guessed, actual = Counter[str](), Counter[str](), Counter[str]()
    for true_tags, tags in paired(truth, predicted):
        true_spans = tags_to_spans(true_tags, scheme)
        spans = true_spans if true_tags == tags else tags_to_spans(tags)  # most are the same
        actual.update(span.label for span in true_spans)
        guessed.update(span.label for span in spans)
        correct.update(span.label for span in set(true_spans).intersection(spans))
    return ChunkReport.of(correct, guessed, actual)


def paired(
    truth: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]
) -> Iterator[tuple[list[str], list[str]]]:
    """Sentences side by side, as lists; `DataError` where their numbers or lengths differ."""
    for number, (true_tags, tags) in enumerate(zip_longest(truth, predicted), start=1):
        if true_tags is None or tags is None:
            raise DataError(
                "there are not as many predicted sentences as true ones. Are both of the same file?"
            )
        if len(true_tags) != len(tags):
            raise DataError(
                f"sentence {number} has {len(true_tags)} true tags but {len(tags)} predicted ones. "
                "Are both of the same file?"
            )
        yield list(true_tags), list(tags)

"""Documents made ready for the composite model: batches of sentences of about one length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray

from mrflearn.data.vocabulary import Vocabulary
from mrflearn.models.composite_lm import CompositeShape
from mrflearn.models.hidden_backoff import Tokens
from mrflearn.models.ngram_level import NgramLevel
from mrflearn.objectives.expected_counts import Batch
from mrflearn.statistics.document_stream import DocumentStream, EncodedDocument
from mrflearn.statistics.ngrams import Counts

Figures: TypeAlias = NDArray[np.float64]
TOKENS_PER_BATCH = 8192


@final
@dataclass(frozen=True, eq=False)
class Given:
    """The n-gram model's part in explaining a text: which model judges which sentences."""

    text: DocumentStream
    judges: tuple[tuple[NgramLevel, Counts], ...]  # with the numbers of the sentences

    @classmethod
    def whole(cls, text: DocumentStream, level: NgramLevel | None) -> Given:
        """One model for all sentences, or none."""
        return cls(text, () if level is None else ((level, np.arange(len(text))),))

    @classmethod
    def deleted(
        cls, text: DocumentStream, unit: Counts, order: int, vocabulary: Vocabulary, folds: int
    ) -> Given:
        """Each sentence judged by the n-gram model of those in other folds [Jelinek & Mercer 1980].

        A model of the sentence itself would leave nothing for grammar and topics to explain.
        Sentences of one `unit` are in one fold.
        """
        judges = []
        fold = unit % folds
        for k in range(folds):
            inside, outside = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
            if len(inside):
                rest = part(text, outside if len(outside) else inside)
                judges.append((NgramLevel.learn(rest.stream, order, vocabulary), inside))
        return cls(text, tuple(judges))

    def values(self, tag_of_word: Figures) -> tuple[Figures, Counts]:
        """(p(token | words before, preterminal), bucket) of each token of the text."""
        size = len(self.text.stream) - 1
        value, bucket = np.zeros((size, tag_of_word.shape[1])), np.zeros(size, np.int64)
        for level, sentences in self.judges:
            here, places = part(self.text, sentences), self.text.places(sentences, ends=True)
            value[places] = level.tagged(here.stream, tag_of_word)
            bucket[places] = level.buckets(here.stream)
        return value, bucket


def part(text: DocumentStream, sentences: Counts) -> DocumentStream:
    """Some sentences of a text as a text of their own."""
    separator = text.stream[:1]
    stream = np.concatenate([separator, text.stream[1:][text.places(sentences, ends=True)]])
    length = text.length[sentences]
    first = np.concatenate([[0], np.cumsum(length + 1)[:-1]])[: len(length)]
    return DocumentStream(stream, text.document[sentences], first, length)


def batches(
    text: DocumentStream,
    given: tuple[Figures, Counts],
    shape: CompositeShape,
    *,
    longest: int | None = None,
    row_of_sentence: Counts | None = None,
) -> Iterator[tuple[Counts, Batch]]:
    """(sentence numbers, batch) for all sentences, the short before the long.

    Sentences of more than `longest` words get no derivation.  `row_of_sentence` is whose topic
    shares a sentence has, by default its document's.
    """
    ends = shape.grammar is None
    owner = text.document if row_of_sentence is None else row_of_sentence
    rows = shape.index.rows(text.stream)
    order = np.argsort(text.length, kind="stable")
    limit = np.inf if longest is None else longest
    for charted in (True, False):
        chosen = order[(text.length[order] <= limit) == charted]
        for sentences in _chunks(chosen, text.length):
            places = text.places(sentences, ends=ends)
            sizes = text.length[sentences] + ends
            tokens = Tokens(
                torch.from_numpy(rows[:, places]),
                torch.from_numpy(given[1][places]),
                torch.from_numpy(np.repeat(owner[sentences], sizes)),
                torch.from_numpy(given[0][places]),
                torch.from_numpy(sizes),
            )
            yield sentences, Batch(tokens, charted)


def _chunks(sentences: Counts, length: Counts) -> Iterator[Counts]:
    total = np.cumsum(length[sentences])
    if len(sentences):
        yield from np.split(sentences, np.flatnonzero(np.diff(total // TOKENS_PER_BATCH)) + 1)


def encode(
    documents: Sequence[Sequence[Sequence[str]]], vocabulary: Vocabulary
) -> list[EncodedDocument]:
    """Documents as numbers."""
    return [[vocabulary.encode(words) for words in sentences] for sentences in documents]

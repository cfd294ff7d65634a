"""Documents made ready for the composite model: batches of sentences of about one length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray

from mrflearn.features.document_stream import DocumentStream, EncodedDocument
from mrflearn.features.ngrams import Counts
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.models.composite_lm import CompositeShape
from mrflearn.models.hidden_backoff import Tokens
from mrflearn.models.ngram_level import NgramLevel, with_blind
from mrflearn.objectives.expected_counts import Batch

Figures: TypeAlias = NDArray[np.float64]
TOKENS_PER_BATCH = 8192


class Judged(NamedTuple):
    """What an n-gram model makes of each token of a text; zeros without one."""

    given: Figures  # p(token | words before, preterminal), (tokens, preterminals)
    blind: Figures  # p(token | words before), where a grammar makes ends: among words
    bucket: Counts

    def at(self, places: Counts) -> Judged:
        """The same for some tokens."""
        return Judged(self.given[places], self.blind[places], self.bucket[places])


@final
@dataclass(frozen=True, eq=False)
class Given:
    """A text and the n-gram model, if there is one, that has its part in explaining it."""

    text: DocumentStream
    level: NgramLevel | None

    def values(self, tag_of_word: Figures) -> Judged:
        """What the n-gram model makes of each token of the text."""
        size, tags = len(self.text.stream) - 1, tag_of_word.shape[1]
        if self.level is None:
            return Judged(np.zeros((size, tags)), np.zeros(size), np.zeros(size, np.int64))
        found = self.level.tagged(self.text.stream, with_blind(tag_of_word))
        return Judged(found[:, :-1], found[:, -1], self.level.buckets(self.text.stream))


def part(text: DocumentStream, sentences: Counts) -> DocumentStream:
    """Some sentences of a text as a text of their own."""
    separator = text.stream[:1]
    stream = np.concatenate([separator, text.stream[1:][text.places(sentences, ends=True)]])
    length = text.length[sentences]
    first = np.concatenate([[0], np.cumsum(length + 1)[:-1]])[: len(length)]
    return DocumentStream(stream, text.document[sentences], first, length)


def batches(
    text: DocumentStream,
    given: Judged,
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
            here = given.at(places)
            tokens = Tokens(
                torch.from_numpy(rows[:, places]),
                torch.from_numpy(here.bucket),
                torch.from_numpy(np.repeat(owner[sentences], sizes)),
                torch.from_numpy(here.given),
                torch.from_numpy(here.blind),
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

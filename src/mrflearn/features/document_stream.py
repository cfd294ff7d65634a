"""Documents of sentences as one stream of numbers, and where each sentence stands in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from mrflearn.features.ngrams import Counts

EncodedDocument = Sequence[NDArray[np.int32]]  # the ids of the words of each sentence


@final
@dataclass(frozen=True, eq=False)
class DocumentStream:
    """A stream with a separator before, between and after sentences; none of them is empty.

    Tokens are the symbols after the first.  Those of sentence i begin at `first[i]`: `length[i]`
    words and the separator that ends it.
    """

    stream: Counts
    document: Counts
    first: Counts
    length: Counts

    @classmethod
    def of(cls, documents: Sequence[EncodedDocument], separator: int) -> DocumentStream:
        """The stream of documents, numbered from 0; empty sentences leave no trace."""
        pairs = [(n, words) for n, own in enumerate(documents) for words in own if len(words)]
        end = np.array([separator], np.int64)
        pieces = [piece for _, words in pairs for piece in (words, end)]
        stream = np.concatenate([end, *pieces]).astype(np.int64)
        length = np.array([len(words) for _, words in pairs], np.int64)
        first = np.cumsum(length + 1) - length - 1
        return cls(stream, np.array([number for number, _ in pairs], np.int64), first, length)

    def __len__(self) -> int:
        return len(self.length)

    def by_document(self, documents: int) -> list[Counts]:
        """The sentences of each of so many documents."""
        order = np.argsort(self.document, kind="stable")
        sizes = np.bincount(self.document, minlength=documents)
        return np.split(order, np.cumsum(sizes)[:-1])

    def part(self, sentences: Counts) -> DocumentStream:
        """Some sentences as a stream of their own."""
        stream = self.stream[1:][self.places(sentences, ends=True)]
        length = self.length[sentences]
        first = np.cumsum(length + 1) - length - 1
        stream = np.concatenate([self.stream[:1], stream])
        return DocumentStream(stream, self.document[sentences], first, length)

    def places(self, sentences: Counts, *, ends: bool) -> Counts:
        """The places of the tokens of some sentences, one sentence after the other."""
        sizes = self.length[sentences] + ends
        starts = np.repeat(self.first[sentences] - np.cumsum(sizes) + sizes, sizes)
        return np.asarray(starts + np.arange(len(starts)))

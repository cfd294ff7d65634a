"""Documents as a stream: every sentence is found again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.features.document_stream import DocumentStream

SENTENCE = st.lists(st.integers(1, 9), max_size=4)


@given(documents=st.lists(st.lists(SENTENCE, max_size=4), max_size=4), ends=st.booleans())
def test_sentences_are_found_in_the_stream(documents: list[list[list[int]]], ends: bool) -> None:
    arrays = [[np.array(words, np.int32) for words in sentences] for sentences in documents]
    text = DocumentStream.of(arrays, 0)
    spoken = [(d, words) for d, sentences in enumerate(documents) for words in sentences if words]
    assert len(text) == len(spoken)
    for number, (document, words) in enumerate(spoken):
        assert text.document[number] == document
        places = text.places(np.array([number]), ends=ends)
        assert text.stream[1:][places].tolist() == words + [0] * ends
    every = text.places(np.arange(len(text)), ends=True)
    assert every.tolist() == list(range(len(text.stream) - 1))


def test_sentences_are_known_by_document() -> None:
    text = DocumentStream.of([[np.array([1, 2])], [], [np.array([3]), np.array([4])]], 0)
    assert [mine.tolist() for mine in text.by_document(4)] == [[0], [], [1, 2], []]
    part = text.part(np.array([2, 0]))
    assert part.stream.tolist() == [0, 4, 0, 1, 2, 0]
    assert part.first.tolist() == [0, 2]
    assert part.document.tolist() == [2, 0]

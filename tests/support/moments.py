"""Moments of sentences that are lists of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mrflearn.features.moments import Moments, MomentsCounter
from mrflearn.io.corpus import LINE_END_ID, Vocabulary


def count_sentences(
    sentences: Iterable[Sequence[str]], vocabulary: Vocabulary, context: int = 2
) -> Moments:
    """Moments of sentences at the offsets 1 to `context`."""
    flat = [index for words in sentences for index in [*vocabulary.encode(words), LINE_END_ID]]
    counter = MomentsCounter(vocabulary, context)
    counter.add(np.array(flat, dtype=np.int32))
    return counter.moments()

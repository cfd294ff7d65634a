"""The moments a language model reads, of whatever its user hands over."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.features.counting import MomentsCounter
from mrflearn.features.moments import Moments
from mrflearn.io.corpus import Text, Vocabulary, count_corpus, encode_corpus, hold


def checked_moments(moments: Moments, context: int) -> Moments:
    """The same moments, if a language model of this context can be learned from them."""
    if moments.vocabulary is None:
        raise DataError("these moments have no vocabulary; a language model needs its words.")
    if moments.context != context:
        raise DataError(
            f"the moments were counted with a context of {moments.context}, this model has "
            f"{context}; try context={moments.context}."
        )
    return moments


def counted(text: Text, context: int, *, size: int | None = None, min_count: int = 1) -> Moments:
    """The moments of a text over its own vocabulary."""
    held = hold(text)
    words = count_corpus(held)
    vocabulary = Vocabulary.from_counts(words, size=size, min_count=min_count)
    return moments_of(held, vocabulary, context)


def moments_of(
    text: Text | Moments,
    vocabulary: Vocabulary | None,
    context: int,
    ids: NDArray[np.int32] | None = None,
) -> Moments:
    """The moments of a text over a vocabulary, or given moments if they are over that one.

    `ids` are those of the text, where it has been encoded before.
    """
    if isinstance(text, Moments):
        if text.vocabulary != vocabulary or text.context != context:
            raise DataError(
                "these moments have another vocabulary or context than the model; count the text "
                "with the model's own."
            )
        return text
    assert vocabulary is not None  # noqa: S101 - a language model has its words
    counter = MomentsCounter(vocabulary, context)
    counter.add(encode_corpus(hold(text), vocabulary) if ids is None else ids)
    moments = counter.moments()
    if not moments.words:
        name = f"{text}: " if isinstance(text, (str, os.PathLike)) else ""
        raise DataError(f"{name}there are no words in this text. Is the file empty?")
    return moments

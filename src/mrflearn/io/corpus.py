"""A corpus as users hand it over (a path, or lists of words), counted and turned into numbers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.blocks import read_blocks
from mrflearn.io.files import PathLike
from mrflearn.io.text import read_sentences
from mrflearn.io.vocabulary import LINE_END_ID, Vocabulary, count_words

Text: TypeAlias = PathLike | Iterable[Sequence[str]]
Held: TypeAlias = PathLike | list[Sequence[str]]


def hold(text: Text) -> Held:
    """The corpus in a form that can be read twice: its path, or a list of its sentences."""
    if isinstance(text, (str, os.PathLike)):
        # Standard input flows by once only.
        if len(str(text).split("\n")) > 1:
            raise DataError(
                "a text is given by its path or as a list of sentences, each a list of words; this "
                f"is the text itself, {str(text)[:40]!r} ... Try "
                "[line.split() for line in text.splitlines()]."
            )
        return list(read_sentences("-")) if str(text) == "-" else text
    sentences = list(text)
    for number, sentence in enumerate(sentences, start=1):
        if isinstance(sentence, (str, bytes)):
            raise DataError(
                f"sentence {number} is one string, {sentence[:40]!r}, not a list of words. Split "
                "it first (`line.split()`), or give the path of a text file."
            )
    return sentences


def count_corpus(text: Held) -> Counter[str]:
    """How often each word occurs."""
    if isinstance(text, list):
        return Counter(chain.from_iterable(text))
    return count_words(text)


def encode_corpus(text: Held, vocabulary: Vocabulary) -> NDArray[np.int32]:
    """The ids of all words, with `LINE_END_ID` after each sentence."""
    if isinstance(text, list):
        ids = vocabulary.encode(chain.from_iterable(text))
        return np.insert(ids, np.cumsum([len(words) for words in text], dtype=int), LINE_END_ID)
    pieces = [vocabulary.encode_block(block) for block in read_blocks(text)]
    return np.concatenate([np.zeros(0, np.int32), *pieces])

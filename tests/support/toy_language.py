"""A toy language of tagged sentences in which endings tell tags, but not always."""

from __future__ import annotations

import numpy as np

STEMS = "bal", "cor", "dem", "fon", "gar", "hul", "jin", "kep", "lom", "mur", "nal", "pos"
ENDINGS = {"noun": "tion", "verb": "ize", "adverb": "ly"}
ORDER = ("the", "noun", "verb", "adverb"), ("noun", "verb", "the", "noun"), ("the", "noun", "verb")
CLOSED = {"the": "the"}


def toy_sentences(count: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences and tags; one noun in five is a bare stem, and so is one verb in five."""
    generator = np.random.default_rng(seed)
    sentences, tags = [], []
    for _ in range(count):
        own = ORDER[generator.integers(len(ORDER))]
        sentences.append([_word(tag, generator) for tag in own])
        tags.append(list(own))
    return sentences, tags


def _word(tag: str, generator: np.random.Generator) -> str:
    if tag in CLOSED:
        return CLOSED[tag]
    stem = STEMS[generator.integers(len(STEMS))]
    return stem if tag != "adverb" and generator.random() < 0.2 else stem + ENDINGS[tag]

"""Questions for word vectors: neighbours and analogies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn.errors import DataError
from mrflearn.serving import blocks
from mrflearn.serving.label_tasks import split
from mrflearn.serving.tasks import Task

if TYPE_CHECKING:
    from mrflearn.estimators.language_model import LanguageModel
    from mrflearn.estimators.word_vectors import WordVectors

SHOWN = 10
LETTERS = 5  # of a word that is likely to mean something


def vector_tasks(model: WordVectors) -> list[Task]:
    """What word vectors can be asked."""

    def analogy(text: str) -> list[blocks.Block]:
        asked = split(text)
        if len(asked) != 3:
            raise DataError(f"an analogy takes three words, not {len(asked)}.")
        first, second, third = asked
        found = model.analogy(first, second, third, SHOWN)
        return [blocks.table(" ".join(asked), ["word", "cosine"], found)]

    hint = "three words: what is to the third as the second to the first?"
    return [neighbours_task(model), Task("analogy", hint, " ".join(usual_words(model)), analogy)]


def neighbours_task(model: LanguageModel | WordVectors) -> Task:
    """Which words have similar vectors."""

    def neighbours(text: str) -> list[blocks.Block]:
        asked = split(text)
        if len(asked) > SHOWN:
            raise DataError(f"{len(asked)} words; ask for at most {SHOWN} at a time.")
        return [
            blocks.table(word, ["word", "cosine"], model.neighbors(word, SHOWN)) for word in asked
        ]

    return Task("neighbors", "one word or several", _telling_word(model), neighbours)


def _telling_word(model: LanguageModel | WordVectors) -> str:
    """The most frequent word that is not among the very short ones, which mean little."""
    words = model.frequent_words(len(model.vocabulary_))
    long = (word for word in words if word.isalpha() and len(word) >= LETTERS)
    return next(long, usual_words(model)[-1])


def usual_words(model: LanguageModel | WordVectors) -> list[str]:
    """The three most frequent words, for examples."""
    words = model.frequent_words(len(model.vocabulary_))
    told = [word for word in words if word.isalpha()] or words
    return (told * 3)[:3]

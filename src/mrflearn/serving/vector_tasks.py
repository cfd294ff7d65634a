"""Questions for word vectors: neighbours and analogies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn.serving import blocks
from mrflearn.serving.tasks import Task

if TYPE_CHECKING:
    from mrflearn.estimators.language_model import LanguageModel
    from mrflearn.estimators.word_vectors import WordVectors

SHOWN = 10
LETTERS = 5  # of a word that is likely to mean something


def vector_tasks(model: WordVectors) -> list[Task]:
    """What word vectors can be asked."""

    def analogy(asked: list[str]) -> list[blocks.Block]:
        first, second, third = asked
        found = model.analogy(first, second, third, SHOWN)
        return [blocks.table(" ".join(asked), ["word", "cosine"], found)]

    hint = "three words: what is to the third as the second to the first?"
    example = " ".join(usual_words(model))
    return [neighbours_task(model), Task("analogy", hint, example, analogy, most=3, least=3)]


def neighbours_task(model: LanguageModel | WordVectors) -> Task:
    """Which words have similar vectors."""

    def neighbours(asked: list[str]) -> list[blocks.Block]:
        return [
            blocks.table(word, ["word", "cosine"], model.neighbors(word, SHOWN)) for word in asked
        ]

    return Task("neighbors", "one word or several", _telling_word(model), neighbours, most=SHOWN)


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

"""Questions for language models: gaps, neighbours, next words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn.errors import DataError
from mrflearn.serving import blocks
from mrflearn.serving.label_tasks import split
from mrflearn.serving.tasks import Task

if TYPE_CHECKING:
    from mrflearn.estimators.language_model import LanguageModel
    from mrflearn.estimators.ngram import NgramLanguageModel

SHOWN = 10


def language_model_tasks(model: LanguageModel) -> list[Task]:
    """What a Markov random field language model can be asked."""
    words = [word for word in model.vocabulary_.words if word.isalpha()]
    usual = words[:4] if len(words) >= 4 else ["a"] * 4

    def fill(text: str) -> list[blocks.Block]:
        found = model.fill(split(text), SHOWN)
        return [blocks.table("words for the gap", ["word", "probability"], found)]

    def neighbours(text: str) -> list[blocks.Block]:
        asked = split(text)
        if len(asked) > SHOWN:
            raise DataError(f"{len(asked)} words; ask for at most {SHOWN} at a time.")
        return [
            blocks.table(word, ["word", "cosine"], model.neighbors(word, SHOWN)) for word in asked
        ]

    gap = " ".join([*usual[:2], "_", *usual[2:3]])
    return [
        Task("fill", "words with one gap, written _", gap, fill),
        Task("neighbors", "one word or several", usual[-1], neighbours),
    ]


def ngram_tasks(model: NgramLanguageModel) -> list[Task]:
    """What an n-gram model can be asked."""

    def next_word(text: str) -> list[blocks.Block]:
        found = model.next_word(text.split(), SHOWN)
        return [blocks.table("next word", ["word", "probability"], found)]

    def score(text: str) -> list[blocks.Block]:
        words = split(text)
        value = model.score_samples([words])[0]
        return [
            blocks.note(
                f"log-probability {value:.4f} nats, sentence end counted: "
                f"{value / (len(words) + 1):.4f} a token"
            )
        ]

    return [
        Task("next word", "the beginning of a sentence (may be empty)", "the", next_word),
        Task("score", "a sentence", "the", score),
    ]

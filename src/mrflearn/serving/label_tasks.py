"""Questions for models that label words: labels with probabilities, and the best labellings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mrflearn.data.columns import ColumnSentence
from mrflearn.errors import DataError, StorageError
from mrflearn.serving import blocks
from mrflearn.serving.tasks import Task

if TYPE_CHECKING:
    from mrflearn.estimators.crf import CRF
    from mrflearn.statistics.recipes import Recipe

LABELLINGS = 5
LABELS_SHOWN = 4
MOST_WORDS = 500


def crf_tasks(model: CRF) -> list[Task]:
    """What a chain CRF can be asked."""
    recipe: Recipe | None = getattr(model, "recipe_", None)
    if recipe is None or recipe.format == "crfsuite":
        raise StorageError(
            "this CRF does not know how its features are made from words: it was trained in "
            "Python, or on features. Train it with `mrflearn train crf` on words."
        )

    def answer(text: str) -> list[blocks.Block]:
        sentence = _sentence(recipe, split(text))
        items = [recipe.items(sentence)]
        best = model.n_best(items, LABELLINGS)[0]
        chances = model.predict_marginals(items)[0]
        labels = best[0][0]
        words = sentence.columns[0]
        return [
            blocks.tokens(words, labels, [likeliest(own) for own in chances]),
            blocks.table(
                "best labellings",
                ["probability", *words],
                [[chance, *labelling] for labelling, chance in best],
            ),
        ]

    hint = "words, set apart by spaces"
    if len(recipe.seen) > 1:
        hint = "words as " + "/".join(recipe.seen) + ", set apart by spaces"
    example = " ".join(_example(word, recipe) for word in ("He", "reckons", "the", "deficit"))
    return [Task("tag", hint, example, answer)]


def split(text: str) -> list[str]:
    """The words of a question; an error where there are none, or too many for a page."""
    words = text.split()
    if not words:
        raise DataError("there are no words in it.")
    if len(words) > MOST_WORDS:
        raise DataError(
            f"{len(words)} words; a page takes {MOST_WORDS}, `mrflearn tag` files of any size."
        )
    return words


def likeliest(chances: Mapping[str, float]) -> list[tuple[str, float]]:
    """The labels to show, best first."""
    return sorted(chances.items(), key=lambda pair: -pair[1])[:LABELS_SHOWN]


def _sentence(recipe: Recipe, words: list[str]) -> ColumnSentence:
    width = len(recipe.seen)
    rows = [word.rsplit("/", width - 1) for word in words]
    for word, row in zip(words, rows, strict=True):
        if len(row) != width:
            wanted = "/".join(recipe.seen)
            raise DataError(f"'{word}' should be {wanted}: the model looks at these columns.")
    return ColumnSentence(recipe.seen, tuple(zip(*rows, strict=True)))


def _example(word: str, recipe: Recipe) -> str:
    tags = {"He": "PRP", "reckons": "VBZ", "the": "DT", "deficit": "NN"}
    return "/".join([word, *[tags[word]] * (len(recipe.seen) - 1)])

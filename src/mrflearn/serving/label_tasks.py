"""Questions for models that label words: labels with probabilities, and the best labellings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mrflearn.errors import DataError, StorageError
from mrflearn.io.columns import ColumnSentence
from mrflearn.serving import blocks
from mrflearn.serving.tasks import Task

if TYPE_CHECKING:
    from mrflearn.estimators.crf import CRF
    from mrflearn.estimators.factorial_crf import FactorialCRF
    from mrflearn.estimators.hmm_tagger import HMMTagger
    from mrflearn.estimators.skip_chain_crf import SkipChainCRF
    from mrflearn.estimators.tagger import JointTagger
    from mrflearn.features.recipes import Recipe

LABELLINGS = 5
LABELS_SHOWN = 4
MOST_WORDS = 500  # of a chain


def crf_tasks(model: CRF) -> list[Task]:
    """What a chain CRF can be asked."""
    recipe = _recipe(model)

    def answer(asked: list[str]) -> list[blocks.Block]:
        sentence = _sentence(recipe, asked)
        items = [recipe.items(sentence)]
        best = model.n_best(items, LABELLINGS)[0]
        chances = model.predict_marginals(items)[0]
        labels = best[0][0]
        words = sentence.columns[0]
        return [
            blocks.tokens(words, labels, [likeliest(own) for own in chances]),
            _labellings(words, best),
        ]

    return [Task("tag", _hint(recipe), _example(recipe), answer, most=MOST_WORDS)]


def layered_tasks(model: FactorialCRF | SkipChainCRF) -> list[Task]:
    """What a CRF of several layers, or with skip edges, can be asked."""
    from mrflearn.estimators.skip_chain_crf import SkipChainCRF

    recipe = _recipe(model)

    def answer(asked: list[str]) -> list[blocks.Block]:
        sentence = _sentence(recipe, asked)
        items, words = [recipe.items(sentence)], sentence.columns[0]
        if isinstance(model, SkipChainCRF):
            best = model.decode(items, words=[words])[0]
            layers = model.predict_marginals(items, words=[words])
        else:
            best, layers = model.decode(items)[0], model.predict_marginals(items)[0]
        found = [blocks.note(f"best labels: {best.kind}")]
        for name, labels, own in zip(recipe.layers, best.layers, layers, strict=True):
            found += [
                blocks.note(name),
                blocks.tokens(words, labels, [likeliest(token) for token in own]),
            ]
        return found

    return [Task("tag", _hint(recipe), _example(recipe), answer, most=MOST_WORDS)]


def tagger_tasks(model: HMMTagger | JointTagger) -> list[Task]:
    """What a tagger can be asked."""

    def answer(words: list[str]) -> list[blocks.Block]:
        best = model.n_best([words], LABELLINGS)[0]
        chances = model.predict_marginals([words])[0]
        return [
            blocks.tokens(words, best[0][0], [likeliest(own) for own in chances]),
            _labellings(words, best),
        ]

    hint = "words, set apart by spaces"
    return [Task("tag", hint, "He reckons the deficit", answer, most=MOST_WORDS)]


def _recipe(model: Any) -> Recipe:
    recipe: Recipe | None = getattr(model, "recipe_", None)
    if recipe is None or not recipe.columns:
        raise StorageError(
            "this CRF does not know how its features are made from words: it was trained in "
            "Python, or on features. Train it with `mrflearn train crf` on words."
        )
    return recipe


def _labellings(words: Sequence[str], best: Sequence[tuple[list[str], float]]) -> blocks.Block:
    rows: list[list[str | float]] = [[chance, *labelling] for labelling, chance in best]
    return blocks.table("best labellings", ["probability", *words], rows)


def _hint(recipe: Recipe) -> str:
    what = "words" if len(recipe.seen) == 1 else "words as " + "/".join(recipe.seen)
    return f"{what}, set apart by spaces"


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


def _example(recipe: Recipe) -> str:
    tags = {"He": "PRP", "reckons": "VBZ", "the": "DT", "deficit": "NN"}
    columns = len(recipe.seen) - 1
    return " ".join("/".join([word, *[tag] * columns]) for word, tag in tags.items())

"""Questions for language models: gaps, neighbours, next words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mrflearn.serving import blocks
from mrflearn.serving.tasks import Task
from mrflearn.serving.vector_tasks import neighbours_task, usual_words

if TYPE_CHECKING:
    from mrflearn.estimators.composite import CompositeLanguageModel
    from mrflearn.estimators.language_model import LanguageModel
    from mrflearn.estimators.ngram import NgramLanguageModel
    from mrflearn.io.trees import Tree

SHOWN = 10
LONGEST = 10  # words of an example
DRAWN = 5  # sentences to take an example from
MOST_TEXT = 1000  # words for models that look at a few of them at a time
MOST_WORDS = 150  # of a sentence for a grammar, whose time grows with the third power of its length


def language_model_tasks(model: LanguageModel) -> list[Task]:
    """What a Markov random field language model can be asked."""

    def fill(words: list[str]) -> list[blocks.Block]:
        found = model.fill(words, SHOWN)
        return [blocks.table("words for the gap", ["word", "probability"], found)]

    first, second, _ = usual_words(model)
    gap = f"{first} _ {second} {first}"  # "the _ of the", or what is most frequent elsewhere
    hint = "words with one gap, written _"
    return [Task("fill", hint, gap, fill, most=MOST_TEXT), neighbours_task(model)]


def composite_tasks(model: CompositeLanguageModel) -> list[Task]:
    """What a composite language model can be asked."""

    def parse(words: list[str]) -> list[blocks.Block]:
        (tree,) = model.parse([words])
        if tree is None:
            return [blocks.note("the grammar cannot produce this sentence")]
        return [blocks.tree("most probable tree", nested(tree))]

    def next_word(words: list[str]) -> list[blocks.Block]:
        found = model.next_word(words, SHOWN)
        return [blocks.table("next word", ["word", "probability"], found)]

    def topics(words: list[str]) -> list[blocks.Block]:
        del words  # there are none
        return [
            blocks.table(f"topic {number + 1}", ["word", "probability"], words)
            for number, words in enumerate(model.topic_words(SHOWN))
        ]

    (drawn,) = model.sample(1, sentences=DRAWN, longest=LONGEST)  # without empty sentences
    example = drawn[0] if drawn else list(model.vocabulary_.words[-1:])
    hint = "the beginning of a sentence"
    found = [Task("next word", hint, example[0], next_word, most=MOST_WORDS, least=0)]
    if model.answers_.grammar:
        found.insert(0, Task("parse", "a sentence", " ".join(example), parse, most=MOST_WORDS))
    if model.topics > 1:
        found.append(Task("topics", "nothing to fill in", "", topics, most=0, least=0))
    return found


def nested(tree: Tree) -> list[Any]:
    """A tree as lists, children after their parent's label."""
    if tree.word is not None:
        return [tree.label, tree.word]
    return [tree.label, *map(nested, tree.children)]


def ngram_tasks(model: NgramLanguageModel) -> list[Task]:
    """What an n-gram model can be asked."""

    def next_word(words: list[str]) -> list[blocks.Block]:
        found = model.next_word(words, SHOWN)
        return [blocks.table("next word", ["word", "probability"], found)]

    def score(words: list[str]) -> list[blocks.Block]:
        value = model.score_samples([words])[0]
        return [
            blocks.note(
                f"log-probability {value:.4f} nats, sentence end included: "
                f"{value / (len(words) + 1):.4f} per token"
            )
        ]

    hint = "the beginning of a sentence (may be empty)"
    return [
        Task("next word", hint, "the", next_word, most=MOST_TEXT, least=0),
        Task("score", "a sentence", "the", score, most=MOST_TEXT),
    ]

"""Questions for grammars of treebanks: best trees, next words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn.serving import blocks
from mrflearn.serving.tasks import Task
from mrflearn.serving.text_tasks import LONGEST, MOST_WORDS, SHOWN, nested

if TYPE_CHECKING:
    from mrflearn.estimators.pcfg import PCFG

TREES = 3
DRAWN = 10  # sentences to take an example from


def pcfg_tasks(model: PCFG) -> list[Task]:
    """What a grammar of a treebank can be asked."""

    def parse(words: list[str]) -> list[blocks.Block]:
        (found,) = model.n_best([words], TREES)
        if not found:
            return [blocks.note("the grammar cannot produce this sentence")]
        return [
            blocks.tree(f"tree {number}, probability {share:.3f} given the words", nested(tree))
            for number, (tree, share) in enumerate(found, start=1)
        ]

    def next_word(words: list[str]) -> list[blocks.Block]:
        found = model.next_word(words, SHOWN)
        return [blocks.table("next word", ["word", "probability"], found)]

    example = min(model.sample(DRAWN), key=lambda tree: abs(len(tree.words) - LONGEST)).words
    hint = "the beginning of a sentence (may be empty)"
    return [
        Task("parse", "a sentence", " ".join(example), parse, most=MOST_WORDS),
        Task("next word", hint, example[0], next_word, most=MOST_WORDS, least=0),
    ]

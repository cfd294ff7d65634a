"""Questions for grammars of treebanks: best trees, next words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrflearn.serving import blocks
from mrflearn.serving.label_tasks import split
from mrflearn.serving.tasks import Task
from mrflearn.serving.text_tasks import LONGEST, SHOWN, nested

if TYPE_CHECKING:
    from mrflearn.estimators.pcfg import PCFG

TREES = 3
DRAWN = 10  # sentences to take an example from


def pcfg_tasks(model: PCFG) -> list[Task]:
    """What a grammar of a treebank can be asked."""

    def parse(text: str) -> list[blocks.Block]:
        (found,) = model.parse_n([split(text)], TREES)
        if not found:
            return [blocks.note("the grammar cannot produce this sentence")]
        return [
            blocks.tree(f"tree {number}, probability {share:.3f} given the words", nested(tree))
            for number, (tree, share) in enumerate(found, start=1)
        ]

    def next_word(text: str) -> list[blocks.Block]:
        found = model.next_word(text.split(), SHOWN)
        return [blocks.table("next word", ["word", "probability"], found)]

    words = list(min(model.sample(DRAWN), key=lambda tree: abs(len(tree.words) - LONGEST)).words)
    return [
        Task("parse", "a sentence", " ".join(words), parse),
        Task("next word", "the beginning of a sentence (may be empty)", words[0], next_word),
    ]

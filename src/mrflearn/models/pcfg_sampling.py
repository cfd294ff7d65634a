"""New trees from a grammar, drawn without recursion."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mrflearn.io.trees import Tree
from mrflearn.models.pcfg import GrammarModel

Numbers = NDArray[np.float64]


class TreeSampler:
    """Draws trees in normal form; words outside the vocabulary come out as `<unk>`."""

    def __init__(self, model: GrammarModel) -> None:
        parent = model.shape.parent.numpy()
        order = np.argsort(parent, kind="stable")
        self.model = model
        self.first = np.searchsorted(parent[order], np.arange(model.shape.phrases + 1))
        self.left, self.right = (x.numpy()[order] for x in (model.shape.left, model.shape.right))
        self.rules = np.exp(model.rules.numpy()[order])
        self.start = np.exp(model.start.numpy()).cumsum()
        self.words = np.exp(model.words.numpy()).cumsum(axis=0)

    def draw(self, generator: np.random.Generator, longest: int) -> Tree | None:
        """A tree, or None if it gets more than `longest` words."""
        phrases = self.model.shape.phrases
        made: list[tuple[int, int]] = []  # symbols, parents first, and the word of a tag (else -1)
        waiting = [_pick(self.start, generator)]
        leaves = 0
        while waiting:
            symbol = waiting.pop()
            if symbol < phrases:
                chosen = slice(self.first[symbol], self.first[symbol + 1])
                rule = chosen.start + _pick(self.rules[chosen].cumsum(), generator)
                waiting += [int(self.right[rule]), int(self.left[rule])]
                made.append((symbol, -1))
            else:
                made.append((symbol, _pick(self.words[:, symbol - phrases], generator)))
                leaves += 1
            if leaves + len(waiting) > longest:
                return None
        return self._tree(made)

    def _tree(self, made: list[tuple[int, int]]) -> Tree:
        names, words = self.model.names, self.model.vocabulary.words
        done: list[Tree] = []  # the leftmost on top
        for symbol, word in reversed(made):
            if word >= 0:
                done.append(Tree(names[symbol], (), words[word]))
            else:
                done.append(Tree(names[symbol], (done.pop(), done.pop())))
        return done.pop()


def _pick(ends: Numbers, generator: np.random.Generator) -> int:
    """An index drawn by the upper ends of the choices."""
    chosen = int(np.searchsorted(ends, generator.random() * ends[-1], "right"))
    return min(chosen, len(ends) - 1)

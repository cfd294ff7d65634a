"""Probabilistic context-free grammars, and trees sampled from them.

Letters in shapes: r: rules; s: symbols; p: preterminals; v: words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.features.treebank import TreebankCounts
from mrflearn.graph.chart import ChartPotentials
from mrflearn.io.corpus import Vocabulary
from mrflearn.io.trees import PART, Tree
from mrflearn.kernels.rules import RuleShape

# A probabilistic context-free grammar with names for its symbols and words for its tags.


@final
@dataclass(frozen=True, eq=False)
class GrammarModel:
    """Rules, start symbols and words of preterminals, each with its probability in nats."""

    phrases: tuple[str, ...]
    preterminals: tuple[str, ...]
    vocabulary: Vocabulary
    shape: RuleShape
    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]
    words: Float[Tensor, "v p"]

    @classmethod
    def from_counts(
        cls, counts: TreebankCounts, vocabulary: Vocabulary, smoothing: float
    ) -> GrammarModel:
        """Relative frequencies; every word is given `smoothing` more occurrences.

        These have tags in the shares that tags have over all, so that no word rules a tag out; the
        same number of roots is spread over all symbols but the parts of split nodes, which are no
        trees.
        """
        words = torch.zeros(len(vocabulary), len(counts.preterminals), dtype=torch.float64)
        place = {tag: k for k, tag in enumerate(counts.preterminals)}
        ids = vocabulary.encode(word for _, word in counts.words).tolist()
        for word, ((tag, _), times) in zip(ids, counts.words.items(), strict=True):
            words[word, place[tag]] += times
        words += smoothing * words.sum(dim=0) / words.sum()
        words[vocabulary.separator] = 0.0  # the edge of a sentence is no word
        whole = [not name.startswith(PART) for name in counts.phrases]
        can_begin = torch.tensor([*whole, *[True] * len(counts.preterminals)]).double()
        start = smoothing * can_begin / can_begin.sum()
        for symbol, times in counts.roots.items():
            start[symbol] += times
        return cls(
            counts.phrases,
            counts.preterminals,
            vocabulary,
            counts.shape,
            counts.log_rules(),
            (start / start.sum()).log(),
            (words / words.sum(dim=0)).log(),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all symbols, phrases first."""
        return self.phrases + self.preterminals

    def potentials(self, sentences: Sequence[Sequence[str]]) -> ChartPotentials:
        """The scores of the grammar and of the words of sentences."""
        ids = self.vocabulary.encode(word for words in sentences for word in words)
        lengths = torch.tensor([len(words) for words in sentences], dtype=torch.int64)
        words = self.words[torch.from_numpy(ids).long()]
        return ChartPotentials(self.shape, words, lengths, self.rules, self.start)


# New trees from a grammar, drawn without recursion.


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

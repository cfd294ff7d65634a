"""Probabilistic context-free grammars, and trees sampled from them.

Letters in shapes: r: rules; s: symbols; p: preterminals; v: words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.features.treebank import TreebankCounts, usual_form
from mrflearn.graph.chart import ChartPotentials
from mrflearn.io.corpus import Vocabulary
from mrflearn.io.trees import Tree, tree_of_nodes
from mrflearn.kernels.rules import RuleLists, RuleShape
from mrflearn.models.ngram import draw

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
        """Relative frequencies; with `smoothing`, of what a larger treebank might hold as well.

        Every word has that many occurrences more, whose tags are shared out by how many words have
        them: no word rules a tag out, and tags of few words, such as full stops, take few others.
        Words seen once say which tags unknown ones have [Good 1953].  For rules see
        `TreebankCounts.with_free_chains`.  Only symbols seen at a root can begin a sentence.
        """
        words = counts.word_tags(vocabulary)
        if smoothing:
            counts = counts.with_free_chains()
            variety = (words > 0).sum(dim=0)
            words[vocabulary.unknown] += words[words.sum(dim=1) == 1].sum(dim=0)
            words += smoothing * variety / variety.sum()
        words[vocabulary.separator] = 0.0  # the edge of a sentence is no word
        start = counts.root_counts()
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


# New derivations and trees from a grammar, drawn without recursion.


class DerivationSampler:
    """Draws derivations by the log-probabilities of rules and start symbols."""

    def __init__(
        self, shape: RuleShape, rules: Float[Tensor, " r"], start: Float[Tensor, " s"]
    ) -> None:
        self.lists = RuleLists.of(shape, rules.double().exp().cpu().numpy())
        self.start = start.double().exp().cpu().numpy().cumsum()
        self.phrases = shape.phrases

    def draw(self, generator: np.random.Generator) -> Iterator[tuple[int, int]]:
        """Symbols, parents first and left before right, and how many wait after each."""
        lists, waiting = self.lists, [draw(self.start, generator)]
        while waiting:
            symbol = waiting.pop()
            if symbol < self.phrases:
                chosen = slice(lists.first[symbol], lists.first[symbol + 1])
                rule = chosen.start + draw(lists.score[chosen].cumsum(), generator)
                waiting += [int(lists.right[rule]), int(lists.left[rule])]
            yield symbol, len(waiting)


def sample_trees(
    model: GrammarModel, generator: np.random.Generator, longest: int
) -> Iterator[Tree]:
    """Trees in normal form without end; those of more than `longest` words are drawn again.

    Words outside the vocabulary come out as `<unk>`.
    """
    phrases, names = model.shape.phrases, model.names
    derivations = DerivationSampler(model.shape, model.rules, model.start)
    ends = np.exp(model.words.numpy()).cumsum(axis=0)
    while True:
        made: list[tuple[str, str | None]] = []
        leaves = 0
        for symbol, waiting in derivations.draw(generator):
            word = None
            if symbol >= phrases:
                word = model.vocabulary.words[draw(ends[:, symbol - phrases], generator)]
                leaves += 1
            made.append((names[symbol], word))
            if leaves + waiting > longest:
                break
        else:
            yield _tree(made)


def named_tree(
    spans: Iterable[tuple[int, int, int]],
    words: Sequence[str],
    names: Sequence[str],
    *,
    binarised: bool,
) -> Tree:
    """The tree of a parse's spans (start, end, symbol); binarised ones as a treebank has them."""
    tree = _tree([(names[s], words[i] if j == i + 1 else None) for i, j, s in spans])
    return usual_form(tree) if binarised else tree


def _tree(nodes: Sequence[tuple[str, str | None]]) -> Tree:
    """The tree of labels, parents first and left before right, with the words of tags."""
    return tree_of_nodes([(label, word, 2 if word is None else 0) for label, word in nodes])

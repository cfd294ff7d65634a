"""What a treebank holds for a grammar: counts of rules, of root symbols and of tagged words.

Trees are brought into a normal form first: empty elements and grammatical functions are dropped,
chains of only children are made one node (S+VP), and nodes of many children are split.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.io import trees as forms
from mrflearn.io.corpus import Vocabulary
from mrflearn.io.trees import Tree
from mrflearn.kernels.rules import RuleShape

Side = Literal["left", "right"]
FREE_USES = 30.0  # of a phrase, its children's unary chains independent of each other
LEAST_SHARE = 1e-3  # of a phrase's uses that a rule needs to be worth its time in a chart


def normal_form(tree: Tree, *, horizontal: int | None = 1, **options: Any) -> Tree | None:
    """The tree in the form that charts use, or None if it has no words.

    The options are those of `binarise`: which side nodes are split from, how many sisters and
    ancestors the labels remember, and whether sisters are remembered with their unary chains.
    """
    plain = forms.remove_traces(tree)
    if plain is None:
        return None
    collapsed = forms.collapse_unaries(forms.strip_functions(plain))
    return forms.binarise(collapsed, horizontal=horizontal, **options)


def usual_form(tree: Tree) -> Tree:
    """The tree as a treebank has it, without the nodes and labels of the normal form."""
    return forms.expand_unaries(forms.unbinarise(tree))


@dataclass(frozen=True, eq=False)
class TreebankCounts:
    """Rules (parent, left, right) and roots by symbol number, and words by (tag, word).

    Symbols are numbered phrases first; a label over a word and one over phrases are two symbols.
    """

    phrases: tuple[str, ...]
    preterminals: tuple[str, ...]
    rules: Counter[tuple[int, int, int]]  # fractions of uses, where smoothed
    roots: Counter[int]
    words: Counter[tuple[str, str]]

    @classmethod
    def of(cls, trees: Iterable[Tree], **options: Any) -> TreebankCounts:
        """The counts of trees as a treebank has them; the options are those of `normal_form`."""
        normal = (normal_form(tree, **options) for tree in trees)
        kept = [tree for tree in normal if tree is not None]
        nodes = [node for tree in kept for node in tree.nodes()]
        phrases = tuple(sorted({node.label for node in nodes if node.word is None}))
        preterminals = tuple(sorted({node.label for node in nodes if node.word is not None}))
        if not preterminals:
            raise DataError("the treebank has no words; is the file empty, or all traces?")
        number = {(label, False): k for k, label in enumerate(phrases)}
        number |= {(label, True): k for k, label in enumerate(preterminals, len(phrases))}

        def symbol(node: Tree) -> int:
            return number[node.label, node.word is not None]

        triples = ((node, *node.children) for node in nodes if node.children)
        used = Counter((symbol(parent), symbol(a), symbol(b)) for parent, a, b in triples)
        words = Counter((node.label, node.word) for node in nodes if node.word is not None)
        return cls(phrases, preterminals, used, Counter(map(symbol, kept)), words)

    @cached_property
    def shape(self) -> RuleShape:
        """The rules, in the order of their numbers."""
        listed = torch.tensor(sorted(self.rules), dtype=torch.int64).reshape(-1, 3)
        parent, left, right = listed.t().contiguous()
        return RuleShape(len(self.phrases), len(self.preterminals), parent, left, right)

    def with_free_chains(self) -> TreebankCounts:
        """The counts, and rules that differ from those seen in the unary chains of children alone.

        S -> NP+PRP VP is one of many forms of S -> NP VP, of which a small treebank shows a few.
        So each phrase is taken to have been used `FREE_USES` times besides, its children by their
        labels as often as it has them, and the chain below each label as it is anywhere.  Of trees
        whose nodes remember chains of sisters, there would be several derivations of one tree.
        """
        names = self.phrases + self.preterminals
        label = [n if n.startswith(forms.PART) else n.partition(forms.JOINT)[0] for n in names]
        kinds: Counter[tuple[int, str, str]] = Counter()
        parents: Counter[int] = Counter()
        chains: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for (parent, left, right), times in self.rules.items():
            kinds[parent, label[left], label[right]] += times
            parents[parent] += times
            for child in (left, right):
                chains[label[child]][child] += times
        rules: Any = Counter(self.rules)  # of fractions
        for (parent, *labels), times in kinds.items():
            first, second = (chains[name] for name in labels)
            share = times / parents[parent] / first.total() / second.total()
            least = LEAST_SHARE * (parents[parent] / FREE_USES + 1)
            for (a, uses), (b, others) in product(first.items(), second.items()):
                if share * uses * others >= least:
                    rules[parent, a, b] += FREE_USES * share * uses * others
        return replace(self, rules=rules)

    def log_rules(self) -> Float[Tensor, " r"]:
        """The relative frequency of each rule among those of its parent, in nats."""
        times = torch.tensor([self.rules[rule] for rule in sorted(self.rules)], dtype=torch.float64)
        total = torch.zeros(len(self.phrases), dtype=torch.float64)
        total.index_add_(0, self.shape.parent, times)
        return (times / total[self.shape.parent]).log()

    def root_counts(self) -> Float[Tensor, " s"]:
        """How often each symbol is a root."""
        return torch.tensor([self.roots[k] for k in range(self.shape.symbols)], dtype=torch.float64)

    def word_tags(self, vocabulary: Vocabulary) -> Float[Tensor, "v p"]:
        """How often each word of a vocabulary has each tag."""
        times = torch.zeros(len(vocabulary), len(self.preterminals), dtype=torch.float64)
        place = {tag: k for k, tag in enumerate(self.preterminals)}
        ids = vocabulary.encode(word for _, word in self.words).tolist()
        for word, ((tag, _), count) in zip(ids, self.words.items(), strict=True):
            times[word, place[tag]] += count
        return times

"""A probabilistic context-free grammar with names for its symbols and words for its tags.

Letters in shapes: r: rules; s: symbols; p: preterminals; v: words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.features.treebank import TreebankCounts
from mrflearn.io.binarisation import PART
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.kernels.rule_shape import RuleShape


@final
@dataclass(frozen=True, eq=False)
class GrammarModel:
    """Rules, start symbols and words of preterminals, each with its probability in nats."""

    phrases: tuple[str, ...]
    preterminals: tuple[str, ...]
    vocabulary: Vocabulary
    shape: RuleShape
    rules: Float[Tensor, "r"]
    start: Float[Tensor, "s"]
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

    def scores(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[Float[Tensor, "t p"], Int[Tensor, "b"]]:
        """How well each preterminal fits each token, sentences end to end, and their lengths."""
        ids = self.vocabulary.encode(word for words in sentences for word in words)
        lengths = torch.tensor([len(words) for words in sentences], dtype=torch.int64)
        return self.words[torch.from_numpy(ids).long()], lengths

"""The outside pass and expected counts where every rule has a weight.

Letters in shapes as in `inside_dense`.  Outside numbers are divided by the sentence's sum, so that
inside times outside is the probability that a symbol stands over a span.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from mrflearn.kernels.inside_dense import DenseRules, WordMatrices, apply, products
from mrflearn.kernels.span_table import SpanTable, bounded_exp, factor, largest_of


def expected_counts(
    words: Float[Tensor, "b n p"],
    rules: DenseRules,
    inside: SpanTable,
    matrices: WordMatrices,
    root: Float[Tensor, "b a"],
    root_scale: Float[Tensor, "b"],
    weight: Float[Tensor, "b"],
) -> tuple[Float[Tensor, "b n p"], DenseRules]:
    """Counts of preterminals at each word, and of rules, for sentences of two words or more.

    `root` and its scale are the outside of whole sentences; sentence b counts `weight[b]` times.
    """
    n, a = words.shape[1], len(rules.phrases)
    outside = SpanTable.empty(words, len(words), n, a)
    outside.put(n, root.unsqueeze(1), root_scale.unsqueeze(1))
    descent = _Descent(words, matrices, inside, outside, weight.unsqueeze(1))
    # Rules as matrices from a parent and one part to the other part.
    to_left = rules.phrases.transpose(1, 2).flatten(0, 1)
    to_right = rules.phrases.flatten(0, 1)
    found = words.new_zeros(a, a * a)
    for width in range(n - 1, 1, -1):
        here, scale = inside.at(width)
        pairs = descent.to(width)
        value = descent.beside_words(width, pairs.top)
        value += pairs.left @ to_left + pairs.right @ to_right
        found += descent.count(here, scale, pairs.left, pairs.top)
        # Phrases that cannot stand here must not decide the scale.
        outside.put(width, torch.where(here > 0, value, 0.0), pairs.top)
    phrases = found.view(a, a, a).transpose(0, 1) * rules.phrases
    return _words(descent, rules, phrases)


def _words(
    descent: _Descent, rules: DenseRules, phrases: Float[Tensor, "a x y"]
) -> tuple[Float[Tensor, "b n p"], DenseRules]:
    """The last step down, to single words; `phrases` are the counts of rules above them."""
    words, pairs = descent.words, descent.to(1)
    a, p = len(phrases), words.shape[2]
    parent, scale = descent.outside.at(2)
    above_left = parent * factor(scale, pairs.top[:, :-1], words.dtype).unsqueeze(-1)
    above_right = parent * factor(scale, pairs.top[:, 1:], words.dtype).unsqueeze(-1)
    two = products(above_left.unsqueeze(2), words[:, 1:].unsqueeze(2))
    other_two = products(above_right.unsqueeze(2), words[:, :-1].unsqueeze(2))
    value = pairs.left @ rules.word_left.transpose(1, 2).flatten(0, 1)
    value += pairs.right @ rules.word_right.flatten(0, 1)
    value[:, :-1] += two @ rules.words.transpose(1, 2).flatten(0, 1)
    value[:, 1:] += other_two @ rules.words.flatten(0, 1)
    flat = torch.zeros_like(pairs.top)
    left = descent.count(words, flat, pairs.left, pairs.top).view(p, a, a)
    right = descent.count(words, flat, pairs.right, pairs.top).view(p, a, a)
    both = descent.count(words[:, :-1], flat[:, 1:], two, pairs.top[:, :-1]).view(p, a, p)
    counts = DenseRules(
        phrases,
        left.transpose(0, 1) * rules.word_left,
        right.permute(1, 2, 0) * rules.word_right,
        both.transpose(0, 1) * rules.words,
    )
    share = (bounded_exp(pairs.top, words.dtype) * descent.weight).unsqueeze(-1)
    return words * value * share, counts


class _Pairs(NamedTuple):
    """For spans of one width, products of outside of parents and inside of other parts."""

    left: Float[Tensor, "b m ay"]  # the span is the left part of its parent
    right: Float[Tensor, "b m ax"]  # the span is the right part of its parent
    top: Float[Tensor, "b m"]  # the scale of both


@dataclass(frozen=True, eq=False)
class _Descent:
    words: Float[Tensor, "b n p"]
    matrices: WordMatrices
    inside: SpanTable
    outside: SpanTable
    weight: Float[Tensor, "b 1"]

    def to(self, width: int) -> _Pairs:
        """Products for the spans of a width where the other part has two words or more."""
        inside, outside = self.inside, self.outside
        n = inside.length
        m = n - width + 1
        # Parents of width + 2 ... n words, and other parts of 2 ... n - width words: in step, and
        # in step the other way round where spans are kept by their ends.
        longer, other = slice(width + 2, n + 1), slice(2, m)
        longer_end, other_end = slice(0, max(m - 2, 0)), slice(width, n - 1)
        as_left = outside.start_scale[:, :m, longer] + inside.start_scale[:, width:, other]
        as_right = outside.end_scale[:, width:, longer_end] + inside.end_scale[:, :m, other_end]
        above = outside.at(width + 1)[1]
        edges = pad(above, (1, 0), value=-torch.inf), pad(above, (0, 1), value=-torch.inf)
        top = largest_of(as_left, as_right, *edges)
        shares = factor(as_left, top.unsqueeze(-1), self.words.dtype)
        parents = outside.by_start[:, :m, longer] * shares.unsqueeze(-1)
        left = products(parents, inside.by_start[:, width:, other])
        shares = factor(as_right, top.unsqueeze(-1), self.words.dtype)
        parents = outside.by_end[:, width:, longer_end] * shares.unsqueeze(-1)
        return _Pairs(left, products(parents, inside.by_end[:, :m, other_end]), top)

    def beside_words(self, width: int, top: Float[Tensor, "b m"]) -> Float[Tensor, "b m x"]:
        """The outside of spans of a width where the other part is one word."""
        parent, scale = self.outside.at(width + 1)
        ahead = parent * factor(scale, top[:, 1:], parent.dtype).unsqueeze(-1)
        behind = parent * factor(scale, top[:, :-1], parent.dtype).unsqueeze(-1)
        m = parent.shape[1]
        on_left = apply(self.matrices.left[:, :m].transpose(-1, -2), ahead)
        on_right = apply(self.matrices.right[:, width:].transpose(-1, -2), behind)
        return pad(on_left, (0, 0, 1, 0)) + pad(on_right, (0, 0, 0, 1))

    def count(
        self,
        here: Float[Tensor, "b m x"],
        scale: Float[Tensor, "b m"],
        pairs: Float[Tensor, "b m q"],
        top: Float[Tensor, "b m"],
    ) -> Float[Tensor, "x q"]:
        """Products of inside and pairs over all spans of a width, without the rules' weights."""
        share = here * (bounded_exp(scale + top, here.dtype) * self.weight).unsqueeze(-1)
        return share.flatten(0, 1).t() @ pairs.flatten(0, 1)

"""The scores of the best parses of every span, for sentences of one length.

Letters in shapes: b: sentences of length n; m: spans of one width, by first word; p:
preterminals; a: phrases; q: pairs of symbols that some rule asks for; r: rules.
The inside pass with maxima for sums: in logarithms, so that nothing needs to be scaled.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.kernels.rule_blocks import Pairs
from mrflearn.kernels.rule_shape import RuleShape


def best_scores(
    words: Float[Tensor, "b n p"], rules: Float[Tensor, "r"], shape: RuleShape
) -> Float[Tensor, "a b n+1 n+1"]:
    """The score of the best parse of each phrase over each span, by first word and width."""
    b, n, _ = words.shape
    turned = words.permute(2, 1, 0).contiguous()
    found = [turned, turned]  # by width; nothing has width 0
    beside_left, beside_right = _beside_words(turned, rules, shape)
    by_left, by_right = shape.blocks.word_left.above_right, shape.blocks.word_right.above_left
    table = turned.new_full((shape.phrases, b, n + 1, n + 1), -torch.inf)
    for width in range(2, n + 1):
        value = _best_of_splits(found, n - width + 1, rules, shape)
        if width > 2:
            after = found[-1][by_left.second, 1:] + beside_left[:, : n - width + 1]
            before = found[-1][by_right.second, :-1] + beside_right[:, width - 1 :]
            _raise(_raise(value, by_left.first, after), by_right.first, before)
        found.append(value)
        table[:, :, : n - width + 1, width] = value.transpose(1, 2)
    return table


def _best_of_splits(
    found: list[Tensor], m: int, rules: Float[Tensor, "r"], shape: RuleShape
) -> Float[Tensor, "a m b"]:
    """The best of all splits into two words or into two phrases."""
    width, b = len(found), found[1].shape[2]
    block = shape.blocks.words if width == 2 else shape.blocks.phrases
    pairs = found[1].new_full((len(block.parts), m, b), -torch.inf)
    for k in [1] if width == 2 else range(2, width - 1):
        left, right = found[k][:, :m], found[width - k][:, k : k + m]
        torch.maximum(pairs, _sums(block.parts, left, right), out=pairs)
    value = found[1].new_full((shape.phrases, m, b), -torch.inf)
    return _raise(value, block.parent, pairs[block.parts.of_rule] + _columns(rules[block.rule]))


def _beside_words(
    words: Float[Tensor, "p n b"], rules: Float[Tensor, "r"], shape: RuleShape
) -> tuple[Float[Tensor, "q n b"], Float[Tensor, "q n b"]]:
    """The best rule for each parent and other part, beside each word on the left and right."""
    left, right = shape.blocks.word_left, shape.blocks.word_right
    found = []
    for block, word, pairs in (
        (left, left.left, left.above_right),
        (right, right.right, right.above_left),
    ):
        nothing = words.new_full((len(pairs), *words.shape[1:]), -torch.inf)
        scores = words[word] + _columns(rules[block.rule])
        found.append(_raise(nothing, pairs.of_rule, scores))
    return found[0], found[1]


def _sums(pairs: Pairs, first: Float[Tensor, "x m b"], second: Float[Tensor, "y m b"]) -> Tensor:
    return first.index_select(0, pairs.first) + second.index_select(0, pairs.second)


def _columns(scores: Float[Tensor, "r"]) -> Float[Tensor, "r 1 1"]:
    return scores[:, None, None]


def _raise(
    value: Float[Tensor, "x m b"], row: Int[Tensor, "r"], scores: Float[Tensor, "r m b"]
) -> Float[Tensor, "x m b"]:
    """The value itself, raised in place to the scores that belong to its rows."""
    return value.scatter_reduce_(0, row[:, None, None].expand_as(scores), scores, "amax")

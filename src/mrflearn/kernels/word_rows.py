"""What the rules of a listed grammar become beside each word of sentences of one length.

Letters in shapes: b: sentences of length n; p: preterminals; q: pairs of parent and other part.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.rule_sums import add_sums
from mrflearn.kernels.rule_weights import ListedRules


@dataclass(frozen=True, eq=False)
class WordRows:
    """What the rules become beside a word: a number for each parent and other part."""

    left: Float[Tensor, "q n b"]  # the word is the left part
    right: Float[Tensor, "q n b"]  # the word is the right part

    @classmethod
    def of(cls, rules: ListedRules, words: Float[Tensor, "p n b"]) -> WordRows:
        """The numbers of all words."""
        left, right = rules.word_left, rules.word_right
        nothing = words.new_zeros
        return cls(
            add_sums(
                nothing(len(left.block.above_right), *words.shape[1:]), left.beside_left, words
            ),
            add_sums(
                nothing(len(right.block.above_left), *words.shape[1:]), right.beside_right, words
            ),
        )

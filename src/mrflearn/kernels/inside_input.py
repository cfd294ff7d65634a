"""Scores of words, rules and start symbols as numbers up to 1, and what was divided out of them.

A parse of n words uses n words, n - 1 rules and one start symbol, so that one shift a word, one for
all rules and one for the start leave every parse of a sentence with the same factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.rule_shape import RuleShape
from mrflearn.kernels.rule_weights import ListedRules


@dataclass(frozen=True, eq=False)
class GrammarWeights:
    """A grammar's rules and start symbols, no longer in logarithms; the largest of each is 1."""

    shape: RuleShape
    rules: Float[Tensor, "r"]
    start: Float[Tensor, "s"]
    rule_shift: Float[Tensor, ""]
    start_shift: Float[Tensor, ""]

    @classmethod
    def of(
        cls, rules: Float[Tensor, "r"], start: Float[Tensor, "s"], shape: RuleShape
    ) -> GrammarWeights:
        """The weights for scores in nats."""
        rule_weights, rule_shift = near_one(rules)
        start_weights, start_shift = near_one(start)
        return cls(shape, rule_weights, start_weights, rule_shift, start_shift)

    @property
    def start_phrases(self) -> Float[Tensor, "a"]:
        """The weights of phrases at the root."""
        return self.start[: self.shape.phrases]

    @property
    def start_words(self) -> Float[Tensor, "p"]:
        """The weights of preterminals at the root, for sentences of one word."""
        return self.start[self.shape.phrases :]

    @cached_property
    def listed(self) -> ListedRules:
        """The rules as matrices, for grammars where few rules have a weight."""
        return ListedRules.of(self.shape.blocks, self.rules, self.shape.phrases)

    def shift(self, word_shift: Float[Tensor, "b n"]) -> Float[Tensor, "b"]:
        """What to add to the logarithm of a sum over parses."""
        length = word_shift.shape[1]
        fixed = (length - 1) * self.rule_shift.double() + self.start_shift.double()
        return word_shift.double().sum(dim=1) + fixed


def near_one(scores: Float[Tensor, "*k x"]) -> tuple[Float[Tensor, "*k x"], Float[Tensor, "*k"]]:
    """exp(scores - shift) with the largest score of each row as its shift (0 if all are -inf)."""
    if not scores.shape[-1]:
        return scores.clone(), scores.new_zeros(scores.shape[:-1])
    shift = scores.amax(dim=-1)
    shift = torch.where(shift > -torch.inf, shift, 0.0)
    return (scores - shift.unsqueeze(-1)).exp(), shift

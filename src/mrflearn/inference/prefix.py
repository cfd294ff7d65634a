"""The probability that a sentence begins with some words, and what comes next, for all words.

Letters in shapes: n: words so far; p: preterminals; a: phrases; s: symbols; r: rules.
Rules and start symbols must be probabilities, and so must be the words that preterminals may still
become; scores of the words so far can be anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.inside import log_inside
from mrflearn.kernels.left_corner import ending, left_corners
from mrflearn.kernels.rule_shape import RuleShape


@dataclass(frozen=True, eq=False)
class PrefixBeliefs:
    """What is known after 0, 1, ... n words; everything in nats.

    `follows` and `ends` are conditional on the words so far: after k words the next one comes from
    preterminal p with probability exp(follows[k, p]), and exp(ends[k]) is what remains.  Where the
    words so far cannot begin a sentence, all three are -inf.
    """

    begins: Float[Tensor, "n+1"]  # the words so far begin a sentence, or are one
    ends: Float[Tensor, "n+1"]  # the sentence is over
    follows: Float[Tensor, "n+1 p"]


@final
@dataclass(frozen=True, eq=False)
class Prefix:
    """Left-to-right probabilities under a normalised grammar, prepared once for many sentences."""

    shape: RuleShape
    rules: Float[Tensor, "r"]
    start: Float[Tensor, "s"]
    ends: Float[Tensor, "s"]  # that a symbol's words are finitely many
    corners: Float[Tensor, "s s"]

    @classmethod
    def of(cls, rules: Float[Tensor, "r"], start: Float[Tensor, "s"], shape: RuleShape) -> Prefix:
        """What can be said before any word is known; rules and start symbols in nats."""
        shape = shape.to(rules.device)
        ends = ending(rules.exp(), shape)
        return cls(shape, rules, start, ends, left_corners(rules.exp(), shape, ends))

    @torch.no_grad()
    def __call__(self, words: Float[Tensor, "n p"]) -> PrefixBeliefs:
        """Beliefs after each word of the beginning of a sentence."""
        n, inside = len(words), self._inside(words)
        whole = torch.logsumexp(self.start.unsqueeze(1) + inside[:, 0], dim=0)
        begins = words.new_full((n + 1,), -torch.inf)
        follows = words.new_full((n + 1, self.shape.preterminals), -torch.inf)
        begins[0] = _log_product(self.start, self.ends.unsqueeze(1))[0]
        due = self.start
        above: list[Tensor] = []
        for k in range(n + 1):
            if k:
                begins[k] = begins[k - 1] + torch.logsumexp(follows[k - 1] + words[k - 1], dim=0)
                due = self._due(torch.stack(above, dim=1), inside)
            if begins[k] == -torch.inf:
                break
            reached = _log_product(due, self.corners)
            above.append(reached[: self.shape.phrases])
            follows[k] = reached[self.shape.phrases :] - begins[k]
        ends = torch.where(begins > -torch.inf, whole - begins, -torch.inf)
        return PrefixBeliefs(begins, ends, follows)

    def _inside(self, words: Float[Tensor, "n p"]) -> Float[Tensor, "s n+1 n+1"]:
        """The log-sum over parses of each symbol over each span, by first word and width."""
        n, phrases = len(words), self.shape.phrases
        inside = words.new_full((self.shape.symbols, n + 1, n + 1), -torch.inf)
        inside[phrases:, :n, 1:2] = words.t().unsqueeze(2)
        if n > 1:
            inside[:phrases] = log_inside(words.unsqueeze(0), self.rules, self.shape)[:, 0]
        return inside

    def _due(self, above: Float[Tensor, "a k"], inside: Tensor) -> Float[Tensor, "s"]:
        """The log-weight of symbols due at word k: right parts whose left parts end there.

        The left part B of a rule A -> B C has the words i to k, and A, scored by `above[:, i]`, is
        a left corner of what was due at word i.
        """
        shape, k = self.shape, above.shape[1]
        if not shape.phrases:
            return torch.full_like(self.start, -torch.inf)
        places = torch.arange(k, device=above.device)
        left = inside[:, places, k - places]
        above, top = _scaled(above + left.amax(dim=0))
        left = (left - left.amax(dim=0).clamp(min=torch.finfo(left.dtype).min)).exp()
        if shape.dense:
            table = self.rules.exp().view(shape.phrases, -1)
            joined = torch.einsum("ak,sk->as", above, left)
            total = joined.flatten() @ table.view(-1, shape.symbols)
        else:
            each = (above[shape.parent] * left[shape.left]).sum(dim=1) * self.rules.exp()
            total = above.new_zeros(shape.symbols).index_add(0, shape.right, each)
        return total.log() + top


def _log_product(scores: Float[Tensor, "x"], matrix: Float[Tensor, "x y"]) -> Float[Tensor, "y"]:
    """log(exp(scores) @ matrix)."""
    weights, top = _scaled(scores)
    return (weights @ matrix).log() + top


def _scaled(scores: Tensor) -> tuple[Tensor, Tensor]:
    """exp(scores - top) with the largest of all scores as top, or 0 if all are -inf."""
    top = scores.max()
    top = torch.where(top > -torch.inf, top, 0.0)
    return (scores - top).exp(), top

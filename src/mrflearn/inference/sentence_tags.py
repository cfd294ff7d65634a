"""The tags of sentences given their words: chains whose ends meet separators.

Given the words a joint field is a chain of tags.  Separators around a sentence are known, so what
they say becomes part of the scores of its first and last tags.
Letters in shapes: n: tokens, sentences end to end; t: tags with the separator; s: tags without.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.graph.tag_scores import CENTRE, LEFT, RIGHT, SEPARATOR, TagScores
from mrflearn.kernels import chain_search, chain_sums, second_order_search, second_order_sums
from mrflearn.kernels.chain_steps import Steps


@final
@dataclass(frozen=True, eq=False)
class SentenceTags:
    """Scores of the tags of every token, laid out by `steps`, and of tags near each other."""

    unary: Float[Tensor, "r s"]
    transitions: Float[Tensor, "k s s"]
    steps: Steps

    @classmethod
    def of(
        cls,
        scores: TagScores,
        words: Int[Tensor, "n"],
        lengths: Int[Tensor, "b"],
        allowed: Bool[Tensor, "n s"] | None = None,
    ) -> SentenceTags:
        """The chains of sentences, among tags that are allowed."""
        unary = _word_scores(scores, words, lengths)
        _add_edges(unary, scores.transitions, lengths)
        own = unary[:, SEPARATOR + 1 :]
        if allowed is not None:
            own = own.masked_fill(~allowed, -torch.inf)
        steps = Steps.of(lengths)
        inner = scores.transitions[:, SEPARATOR + 1 :, SEPARATOR + 1 :]
        return cls(steps.pack(own), inner.contiguous(), steps)

    def best(self) -> Int[Tensor, "n"]:
        """A most probable tag sequence of each sentence."""
        if self._first_order:
            states, _ = chain_search.viterbi(self.unary, self.transitions[0], self.steps)
        else:
            states, _ = second_order_search.viterbi(self.unary, *self._tables, self.steps)
        return self.steps.unpack(states, len(self.steps))

    def probabilities(self) -> Float[Tensor, "n s"]:
        """The probability of every tag at every token."""
        if self._first_order:
            found = chain_sums.expectations(self.unary, self.transitions[0], self.steps).single
        else:
            leaf = self.unary.detach().double().requires_grad_(True)
            with torch.enable_grad():
                other = replace(self, unary=leaf, transitions=self.transitions.detach().double())
                (found,) = torch.autograd.grad(other.log_partition().sum(), leaf)
        return self.steps.unpack(found, len(self.steps))

    def log_partition(self) -> Float[Tensor, "b"]:
        """The log-sum of the scores of all tag sequences of each sentence."""
        if self._first_order:
            return chain_sums.log_partition(self.unary, self.transitions[0], self.steps)
        return second_order_sums.log_partition(self.unary, *self._tables, self.steps)

    def n_best(self, count: int) -> tuple[Int[Tensor, "n m"], Float[Tensor, "b m"]]:
        """The best tag sequences of each sentence and their scores, -inf where there are fewer."""
        if self._first_order:
            found = chain_search.n_best(self.unary, self.transitions[0], self.steps, count)
        else:
            found = second_order_search.n_best(self.unary, *self._tables, self.steps, count)
        return self.steps.unpack(found[0], len(self.steps)), found[1]

    @property
    def _first_order(self) -> bool:
        return len(self.transitions) == 1

    @property
    def _tables(self) -> tuple[Tensor, Tensor]:
        return self.transitions[0], self.transitions[1]


def _word_scores(
    scores: TagScores, words: Int[Tensor, "n"], lengths: Int[Tensor, "b"]
) -> Float[Tensor, "n t"]:
    unary = scores.words[CENTRE][words]
    ends = lengths[lengths > 0].cumsum(0)
    if LEFT in scores.words:
        before = words.roll(1)
        before[ends.roll(1) % max(len(words), 1)] = SEPARATOR  # the first token of each sentence
        unary += scores.words[LEFT][before]
    if RIGHT in scores.words:
        after = words.roll(-1)
        after[ends - 1] = SEPARATOR
        unary += scores.words[RIGHT][after]
    return unary


def _add_edges(
    unary: Float[Tensor, "n t"], transitions: Float[Tensor, "k t t"], lengths: Int[Tensor, "b"]
) -> None:
    """Adds what the separators before and after each sentence say of the tags they reach."""
    place = torch.arange(len(unary), device=unary.device)
    last = lengths.cumsum(0).repeat_interleave(lengths) - 1 - place  # tokens still to come
    first = lengths.repeat_interleave(lengths) - 1 - last  # tokens before
    for distance, table in enumerate(transitions, start=1):
        # A separator stands at every place within K tokens before and after a sentence.
        unary += torch.where((first < distance).unsqueeze(1), table[SEPARATOR], 0.0)
        unary += torch.where((last < distance).unsqueeze(1), table[:, SEPARATOR], 0.0)

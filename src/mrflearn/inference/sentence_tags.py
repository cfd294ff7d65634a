"""The tags of sentences given their words, and the moments expected where tags are unknown.

Given the words a joint field is a chain of tags.  Separators around a sentence are known, so what
they say becomes part of the scores of its first and last tags.

The gradient of log Z by a score is how often that score is expected to count.  [Jernite, Rush,
Sontag 2015, section 7] names this, with expectation-maximisation, as the way to tags from
unlabelled text.
Letters in shapes: n: tokens, sentences end to end; t: tags with the separator; s: tags without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from mrflearn.features.tagged_sentences import UNKNOWN, JointMoments, TaggedSentences, count_joint
from mrflearn.graph.lifted import CENTRE, LEFT, RIGHT, SEPARATOR, TagPotentials
from mrflearn.kernels import chain_search, chain_sums, second_order
from mrflearn.kernels.chain_sums import Steps

# Chains whose ends meet separators.


@final
@dataclass(frozen=True, eq=False)
class SentenceTags:
    """Scores of the tags of every token, packed by `steps`, and of tags near each other."""

    unary: Float[Tensor, "r s"]
    transitions: Float[Tensor, "k s s"]
    steps: Steps

    @classmethod
    def of(
        cls,
        scores: TagPotentials,
        words: Int[Tensor, " n"],
        lengths: Int[Tensor, " b"],
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

    def best(self) -> Int[Tensor, " n"]:
        """A most probable tag sequence of each sentence."""
        states, _ = self._search.viterbi(self.unary, *self.transitions, self.steps)
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

    def log_partition(self) -> Float[Tensor, " b"]:
        """The log-sum of the scores of all tag sequences of each sentence."""
        sums: Any = chain_sums if self._first_order else second_order
        found: Tensor = sums.log_partition(self.unary, *self.transitions, self.steps)
        return found

    def n_best(self, count: int) -> tuple[Int[Tensor, "n m"], Float[Tensor, "b m"]]:
        """The best tag sequences of each sentence and their scores, -inf where there are fewer."""
        states, scores = self._search.n_best(self.unary, *self.transitions, self.steps, count)
        return self.steps.unpack(states, len(self.steps)), scores

    def split(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Values of all tokens, sentence by sentence."""
        return np.split(values, self.steps.lengths.cumsum(0)[:-1].tolist())

    @property
    def _first_order(self) -> bool:
        return len(self.transitions) == 1

    @property
    def _search(self) -> Any:
        return chain_search if self._first_order else second_order


def _word_scores(
    scores: TagPotentials, words: Int[Tensor, " n"], lengths: Int[Tensor, " b"]
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
    unary: Float[Tensor, "n t"], transitions: Float[Tensor, "k t t"], lengths: Int[Tensor, " b"]
) -> None:
    """Adds what the separators before and after each sentence say of the tags they reach."""
    place = torch.arange(len(unary), device=unary.device)
    last = lengths.cumsum(0).repeat_interleave(lengths) - 1 - place  # tokens still to come
    first = lengths.repeat_interleave(lengths) - 1 - last  # tokens before
    for distance, table in enumerate(transitions, start=1):
        # A separator stands at every place within K tokens before and after a sentence.
        unary += torch.where((first < distance).unsqueeze(1), table[SEPARATOR], 0.0)
        unary += torch.where((last < distance).unsqueeze(1), table[:, SEPARATOR], 0.0)


def sentence_chains(
    scores: TagPotentials, sentences: TaggedSentences, most: int
) -> Iterator[SentenceTags]:
    """The chains of sentences in batches of about so many scores of states, by known tags alone."""
    tokens = max(most // scores.tags ** len(scores.transitions), 1)
    group = np.maximum(np.cumsum(sentences.lengths) - 1, 0) // tokens
    for number in np.unique(group):
        part = sentences.part(group == number)
        own = part.words, part.lengths, part.tags
        words, lengths, tags = (torch.from_numpy(a).to(scores.transitions.device) for a in own)
        known = tags.unsqueeze(1)
        every = torch.arange(SEPARATOR + 1, scores.tags, device=tags.device)
        yield SentenceTags.of(scores, words, lengths, (known == UNKNOWN) | (known == every))


# Expected counts of sentences some of whose tags are unknown.


LARGEST_BATCH = 2**22  # scores of states held at once; bounds memory, changes no result


def expected_moments(scores: TagPotentials, sentences: TaggedSentences) -> JointMoments:
    """Expected counts given the words, and the tags where they are known."""
    places = tuple(scores.words)
    leaves = [
        part.detach().clone().requires_grad_(True)
        for part in (scores.transitions, *scores.words.values())
    ]
    own = TagPotentials(leaves[0], dict(zip(places, leaves[1:], strict=True)))
    totals = [torch.zeros_like(leaf, dtype=torch.float64) for leaf in leaves]
    with torch.enable_grad():
        for chains in sentence_chains(own, sentences, LARGEST_BATCH):
            gradients = torch.autograd.grad(chains.log_partition().sum(), leaves)
            for total, gradient in zip(totals, gradients, strict=True):
                total += gradient
    transitions, *words_of = (total.cpu().numpy() for total in totals)
    found = JointMoments(
        transitions, {p: csr_array(counts) for p, counts in zip(places, words_of, strict=True)}
    )
    return found + _of_separators(sentences, scores)


def _of_separators(sentences: TaggedSentences, scores: TagPotentials) -> JointMoments:
    """What no tag of a word has part in."""
    untagged = np.full_like(sentences.tags, UNKNOWN)
    bare = TaggedSentences(sentences.words, untagged, sentences.lengths)
    shape = scores.vocabulary, scores.tags
    return count_joint(bare, shape, len(scores.transitions), tuple(scores.words))

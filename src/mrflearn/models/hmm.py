"""A hidden Markov model of tagged text, in the manner of TnT and hunpos [Brants 2000]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array, vstack

from mrflearn.features.tag_counts import TagCounts
from mrflearn.kernels.chain_steps import Steps
from mrflearn.models.suffix_tree import SuffixTree, suffix_tree
from mrflearn.models.tag_lattice import TagLattice, tag_lattice
from mrflearn.models.tag_transitions import TagTransitions, tag_transitions
from mrflearn.models.word_context import WordContext, word_context
from mrflearn.models.word_tags import WordTags

# How many occurrences of a known word weigh as much as what its ending says of its tags; chosen on
# validation sentences, see docs/decisions/hmm-tagger.md.
ENDING_WEIGHT = 1.0
WORDS_AT_ONCE = 4096  # bounds memory where there are many tags
EDGES_AT_ONCE = 2**23  # of one lattice, unless a single sentence has more


class Laid(NamedTuple):
    """Some sentences as a lattice, and where its rows stand among their tokens."""

    tags: TagLattice
    steps: Steps


@final
@dataclass(frozen=True, eq=False)
class HMM:
    """Everything follows from the counts; settings as in `HMMTagger`."""

    counts: TagCounts
    order: int
    suffixes: bool
    rare: int
    longest: int
    beam: float | None

    @cached_property
    def number(self) -> dict[str, int]:
        """The numbers of the known words."""
        return {word: i for i, word in enumerate(self.counts.words)}

    @cached_property
    def transitions(self) -> TagTransitions:
        """Which tag comes next."""
        return tag_transitions(self.counts, self.order)

    @cached_property
    def known(self) -> WordTags:
        """The tags of known words: those counted, and with suffixes those of words alike."""
        lexicon = self.counts.lexicon
        if self.suffixes:
            lexicon = self._smoothed(lexicon)
        return WordTags.of(lexicon, self.counts.tag_total)

    @cached_property
    def context(self) -> WordContext | None:
        """How the tag before changes P(word | tag); not looked at in a first-order model."""
        return word_context(self.counts, self.known) if self.order == 2 else None

    @cached_property
    def endings(self) -> SuffixTree:
        """What endings say of tags, from words that are rare enough to resemble new ones."""
        rare = self._rare_words
        words = [self.counts.words[i] for i in rare.tolist()]
        return suffix_tree(words, self.counts.lexicon[rare], self.longest)

    @cached_property
    def _rare_words(self) -> Int[np.ndarray, "k"]:
        total = self.counts.word_total
        # Where no word is rare enough, the rarest must do.
        return np.flatnonzero(total <= max(self.rare, total.min()))

    def unknown(self, words: Sequence[str]) -> WordTags:
        """The tags of new words; all scores of a word lack one constant, log P(word)."""
        if self.suffixes:
            share = self._pruned(self.endings.shares(words))
        else:
            count = np.asarray(self.counts.lexicon[self._rare_words].sum(axis=0))
            share = csr_array(np.repeat(count[None] / count.sum(), len(words), axis=0))
        return WordTags.of(share, self.counts.tag_total)

    def lattices(self, sentences: Sequence[Sequence[str]]) -> Iterator[Laid]:
        """The tags that are possible and how they may follow each other, some sentences a time."""
        numbers, new = self._numbered(sentences)
        entries = self.known + self.unknown(new) if new else self.known
        lengths = np.array([len(words) for words in sentences], dtype=np.int64)
        tokens = np.cumsum(np.concatenate([[0], lengths]))
        for first, last in _runs(_edges_of(np.diff(entries.begin)[numbers], self.order, tokens)):
            steps = Steps.of(torch.from_numpy(lengths[first:last]))
            rows = numbers[tokens[first] : tokens[last]][steps.source.numpy()]
            yield Laid(tag_lattice(rows, steps, entries, self.transitions, self.context), steps)

    def _numbered(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[Int[np.ndarray, "n"], tuple[str, ...]]:
        """The numbers of all words, and the words that are new, whose numbers come last."""
        known, new = self.number, dict[str, int]()
        numbers: list[int] = []
        for words in sentences:
            for place, word in enumerate(words):
                found = known.get(word)
                if found is None and not place:  # a capital at the start says little
                    found = known.get(word.lower())
                if found is None:
                    found = new.setdefault(word, len(known) + len(new))
                numbers.append(found)
        return np.array(numbers, dtype=np.int64), tuple(new)

    def _smoothed(self, lexicon: csr_array) -> csr_array:
        """Counts of a word's tags, mixed with as many as its ending would have it."""
        parts = []
        for first in range(0, lexicon.shape[0], WORDS_AT_ONCE):
            counts = lexicon[first : first + WORDS_AT_ONCE].toarray()
            total = counts.sum(axis=1, keepdims=True)
            guess = self.endings.shares(self.counts.words[first : first + WORDS_AT_ONCE])
            share = (counts + ENDING_WEIGHT * guess) / (total + ENDING_WEIGHT)
            kept = self._pruned(share)
            parts.append(csr_array(kept.multiply(total)))
        return csr_array(vstack(parts))

    def _pruned(self, share: Float[np.ndarray, "k t"]) -> csr_array:
        """Without the tags that are so much less probable than the best one of their word."""
        if self.beam is not None:
            share = np.where(share * self.beam < share.max(axis=1, keepdims=True), 0.0, share)
        return csr_array(share)


def _edges_of(
    own: Int[np.ndarray, "n"], order: int, tokens: Int[np.ndarray, "b+1"]
) -> Int[np.ndarray, "b"]:
    """How many edges the lattice of each sentence has, give or take those at its start."""
    size = own.copy()
    for back in range(1, order + 1):
        size[back:] *= own[:-back]
    total = np.concatenate([[0], np.cumsum(size)])
    return np.diff(total[tokens])


def _runs(sizes: Int[np.ndarray, "b"]) -> Iterator[tuple[int, int]]:
    """(first, last) of runs of sentences that are not too large together."""
    first, total = 0, 0
    for place, size in enumerate(sizes.tolist()):
        if place > first and total + size > EDGES_AT_ONCE:
            yield first, place
            first, total = place, 0
        total += size
    if len(sizes):
        yield first, len(sizes)

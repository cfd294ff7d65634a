"""A hidden Markov model of tagged text, in the manner of TnT [Brants 2000]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int

from mrflearn.kernels.chain_steps import Steps
from mrflearn.models.suffix_tree import SuffixTree, suffix_tree
from mrflearn.models.tag_lattice import TagLattice, tag_lattice
from mrflearn.models.tag_transitions import TagTransitions, tag_transitions
from mrflearn.models.word_tags import WordTags
from mrflearn.statistics.tag_counts import TagCounts


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
        return tag_transitions(self.counts, self.order)

    @cached_property
    def known(self) -> WordTags:
        """The tags of known words."""
        return WordTags.counted(
            self.counts.emission, len(self.counts.words), len(self.counts.tags)
        )

    @cached_property
    def endings(self) -> SuffixTree:
        """What endings say of tags, from words that are rare enough to resemble new ones."""
        counts = self.counts
        share = counts.tag_total / counts.tag_total.sum()
        # [Brants 2000, eq. 8] prints the variance and calls it a standard deviation.
        theta = float(np.std(share, ddof=1)) if len(share) > 1 else 0.0
        return suffix_tree(
            counts.words, self._rare_pairs, len(share), longest=self.longest, theta=theta
        )

    @cached_property
    def _rare_pairs(self) -> Int[np.ndarray, "e 3"]:
        emission, total = self.counts.emission, self.counts.word_total
        # Where no word is rare enough, all words must do.
        limit = max(self.rare, int(total.min()))
        return emission[total[emission[:, 0]] <= limit]

    def unknown(self, words: Sequence[str]) -> WordTags:
        """The tags of new words; their scores lack the same constant for all tags of a word."""
        if self.suffixes:
            share = self.endings.shares(words)
        else:
            _, tag, times = self._rare_pairs.T
            count = np.bincount(tag, weights=times, minlength=len(self.counts.tags))
            share = np.repeat(count[None] / count.sum(), len(words), axis=0)
        if self.beam is not None:
            share[share * self.beam < share.max(axis=1, keepdims=True)] = 0.0
        total = self.counts.tag_total
        with np.errstate(divide="ignore"):
            # P(word | tag) = P(tag | word) P(word) / P(tag)
            scores: Float[np.ndarray, "k t"] = np.log(share) - np.log(total / total.sum())
        return WordTags.of(scores)

    def lattice(self, sentences: Sequence[Sequence[str]]) -> tuple[TagLattice, Steps]:
        """The tags that are possible, and how they may follow each other."""
        known, new = self.number, dict[str, int]()
        numbers: list[int] = []
        for words in sentences:
            for place, word in enumerate(words):
                if word not in known and not place and word.lower() in known:
                    word = word.lower()  # a capital at the start says nothing of the word
                found = known.get(word)
                if found is None:
                    found = new.setdefault(word, len(known) + len(new))
                numbers.append(found)
        entries = self.known + self.unknown(tuple(new)) if new else self.known
        steps = Steps.of(torch.tensor([len(words) for words in sentences], dtype=torch.int64))
        word = np.array(numbers, dtype=np.int64)[steps.source.numpy()]
        return tag_lattice(word, steps, entries, self.transitions, self.order), steps

"""P(word | tag, tag before it): counted pairs of tags mixed with P(word | tag), as in hunpos.

Letters in shapes: k: counted (tag before, tag, word); n: what is asked about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from mrflearn.features.tag_counts import TagCounts
from mrflearn.models.word_tags import WordTags


@final
@dataclass(frozen=True, eq=False)
class WordContext:
    """`score[i]` is log P(word | tags) of the counted `code[i]`; codes rise.

    What was never counted has P(word | tag) times `left`.
    """

    code: Int[np.ndarray, "k"]
    score: Float[np.ndarray, "k"]
    left: float
    words: int
    tags: int

    def scores(
        self,
        before: Int[np.ndarray, "n"],
        tag: Int[np.ndarray, "n"],
        word: Int[np.ndarray, "n"],
        alone: Float[np.ndarray, "n"],
    ) -> Float[np.ndarray, "n"]:
        """log P(word | tag, tag before), given log P(word | tag); new words have high numbers."""
        wanted = _codes(before, tag, word, self.words, self.tags)
        wanted[word >= self.words] = -1
        place = np.minimum(np.searchsorted(self.code, wanted), len(self.code) - 1)
        found = self.code[place] == wanted
        result: Float[np.ndarray, "n"] = np.where(
            found, self.score[place], alone + np.log(self.left)
        )
        return result


def word_context(counts: TagCounts, entries: WordTags) -> WordContext:
    """Counts of words after pairs of tags, mixed by deleted interpolation with `entries`."""
    before, tag, word, times = counts.emission.T
    pair = before * (counts.edge + 1) + tag
    pairs = np.bincount(pair, weights=times)[pair]
    alone = np.asarray(counts.lexicon[word, tag]).ravel()
    ours = (times - 1) / np.maximum(pairs - 1, 1)
    theirs = (alone - 1) / np.maximum(counts.tag_total[tag] - 1, 1)
    # Each word votes for what would foretell it best were it not counted; ties share the vote.
    votes = times * ((theirs > ours) + 0.5 * (theirs == ours))
    left = float((votes.sum() + 1) / (times.sum() + 2))
    code = _codes(before, tag, word, len(counts.words), len(counts.tags))
    mixed = (1 - left) * times / pairs + left * np.exp(_looked_up(entries, word, tag))
    order = np.argsort(code)
    return WordContext(code[order], np.log(mixed[order]), left, len(counts.words), len(counts.tags))


def _codes(
    before: Int[np.ndarray, "n"],
    tag: Int[np.ndarray, "n"],
    word: Int[np.ndarray, "n"],
    words: int,
    tags: int,
) -> Int[np.ndarray, "n"]:
    result: Int[np.ndarray, "n"] = (before * tags + tag) * words + word
    return result


def _looked_up(
    entries: WordTags, word: Int[np.ndarray, "n"], tag: Int[np.ndarray, "n"]
) -> Float[np.ndarray, "n"]:
    """log P(word | tag) of given pairs, -inf where the tag is not among the word's."""
    tags = int(max(entries.tag.max(), tag.max())) + 1
    own = np.repeat(np.arange(len(entries.begin) - 1), np.diff(entries.begin)) * tags + entries.tag
    order = np.argsort(own)
    wanted = word * tags + tag
    place = np.minimum(np.searchsorted(own, wanted, sorter=order), len(own) - 1)
    found = own[order[place]] == wanted
    return np.where(found, entries.score[order[place]], -np.inf)

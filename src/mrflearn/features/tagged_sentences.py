"""Tagged sentences as arrays, and their counts: of a joint tagger, and of an HMM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from mrflearn.errors import DataError
from mrflearn.io.corpus import check_sentences

# Sentences and their tags as numbers, packed end to end; a tag may be unknown.


UNKNOWN = -1
SEPARATOR = 0  # the number of its word and of its tag
Sentences: TypeAlias = Sequence[Sequence[str]]
Tags: TypeAlias = Sequence[str | None] | None


@final
@dataclass(frozen=True, eq=False)
class TaggedSentences:
    """Words and tags of all tokens, by number, and how many tokens each sentence has."""

    words: Int[np.ndarray, " n"]
    tags: Int[np.ndarray, " n"]
    lengths: Int[np.ndarray, " b"]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def known(self) -> Bool[np.ndarray, " b"]:
        """Whether all tags of a sentence are known."""
        gaps = np.concatenate([[0], np.cumsum(self.tags == UNKNOWN)])
        ends = np.cumsum(self.lengths)
        return np.asarray(gaps[ends] == gaps[ends - self.lengths])

    def part(self, kept: Bool[np.ndarray, " b"]) -> TaggedSentences:
        """The sentences that are kept."""
        tokens = np.repeat(kept, self.lengths)
        return TaggedSentences(self.words[tokens], self.tags[tokens], self.lengths[kept])


def number_sentences(
    sentences: Sentences, tags: Sequence[Tags], words: Mapping[str, int], labels: Mapping[str, int]
) -> TaggedSentences:
    """The sentences by number; a tag that is None, or all of them, stays unknown."""
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    pairs = zip(sentences, tags, strict=True)
    tagged = chain.from_iterable([None] * len(own) if some is None else some for own, some in pairs)
    word = np.fromiter(map(words.__getitem__, chain.from_iterable(sentences)), np.int64)
    tag = np.fromiter((UNKNOWN if tag is None else labels[tag] for tag in tagged), np.int64)
    return TaggedSentences(word, tag, lengths)


def check_tags(sentences: Sentences, tags: Sequence[Tags]) -> None:
    """Raises `DataError` where sentences and tags do not belong together."""
    if len(sentences) != len(tags):
        raise DataError(f"there are {len(sentences)} sentences and tags for {len(tags)}.")
    check_sentences(sentences)
    for index, (sentence, some) in enumerate(zip(sentences, tags, strict=True)):
        if some is not None and len(some) != len(sentence):
            raise DataError(
                f"sentence {index} has {len(sentence)} words and {len(some)} tags; None is no tag."
            )


# All that the joint tagger reads of a tagged text: how often tags meet tags and words.
#
# The text is one ring [Jernite, Rush, Sontag 2015, section 4.1]: every sentence is preceded by K
# separators, each with a tag of its own, so that counts of texts add up.  Counts need not be whole:
# where tags are unknown, they are expectations.


@final
@dataclass(frozen=True, eq=False)
class JointMoments:
    """Counts of tag pairs at the distances 1, 2, ..., and of (word, tag) at each place of words."""

    transitions: Float[np.ndarray, "k t t"]
    words: dict[int, csr_array]

    @property
    def positions(self) -> float:
        """N: the weight of all positions, separators counted in."""
        return float(self.transitions[0].sum())

    @property
    def distances(self) -> int:
        """K: how far apart tags are counted."""
        return len(self.transitions)

    def __add__(self, other: JointMoments) -> JointMoments:
        words = {place: counts + other.words[place] for place, counts in self.words.items()}
        return JointMoments(self.transitions + other.transitions, words)

    def __mul__(self, weight: float) -> JointMoments:
        words = {place: counts * weight for place, counts in self.words.items()}
        return JointMoments(self.transitions * weight, words)

    def rounded_up(self, multiple: int) -> JointMoments:
        """The same ring with separators added until N is a multiple.

        Next to K separators one more adds one pair of separators at every distance and place.
        """
        more = -self.positions % multiple
        transitions = self.transitions.copy()
        transitions[:, SEPARATOR, SEPARATOR] += more
        corner = [more], ([SEPARATOR], [SEPARATOR])
        words = {place: own + csr_array(corner, own.shape) for place, own in self.words.items()}
        return JointMoments(transitions, words)


def count_joint(
    sentences: TaggedSentences, shape: tuple[int, int], distances: int, places: Sequence[int]
) -> JointMoments:
    """The moments of sentences, `shape` being (words, tags); what has an unknown tag is left out.

    Separators are always known: of sentences without tags they alone are counted.
    """
    tags = shape[1]
    word = with_separators(sentences.words, sentences.lengths, distances)
    tag = with_separators(sentences.tags, sentences.lengths, distances)
    transitions = [
        _pairs(tag, np.roll(tag, -step), (tags, tags)).toarray() for step in range(1, distances + 1)
    ]
    words = {place: _pairs(np.roll(word, -place), tag, shape) for place in places}
    return JointMoments(np.stack(transitions), words)


def _pairs(
    first: NDArray[np.int64], second: NDArray[np.int64], shape: tuple[int, int]
) -> csr_array:
    known = (first != UNKNOWN) & (second != UNKNOWN)
    return coo_array((np.ones(int(known.sum())), (first[known], second[known])), shape).tocsr()


def with_separators(
    values: Int[np.ndarray, " n"], lengths: Int[np.ndarray, " b"], count: int
) -> NDArray[np.int64]:
    """The values with `count` separators before each sentence."""
    starts = np.cumsum(lengths) - lengths
    return np.insert(values, np.repeat(starts, count), SEPARATOR)


# How often words have tags, and tags follow tags: all that a hidden Markov model learns from.


@final
@dataclass(frozen=True, eq=False)
class TagCounts:
    """Counts of (tag before, tag, word, times) and of (tag two before, tag before, tag, times).

    Tags and words are given by number, and `len(tags)` is the edge of a sentence: two of them come
    before its first tag, and one is counted after its last.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    emission: Int[np.ndarray, "k 4"]
    trigram: Int[np.ndarray, "g 4"]

    def __post_init__(self) -> None:
        edge = self.edge + 1
        sound = _within(self.emission, (edge, self.edge, len(self.words)))
        if not (len(self.emission) and sound and _within(self.trigram, (edge, edge, edge))):
            raise DataError(
                "counts of tags name a word or a tag that is not there, or are not above 0."
            )

    @property
    def edge(self) -> int:
        """The number of the edge of a sentence."""
        return len(self.tags)

    @cached_property
    def lexicon(self) -> csr_array:
        """How often each word (a row) has each tag (a column)."""
        _, tag, word, times = self.emission.T
        shape = (len(self.words), len(self.tags))
        return csr_array((times.astype(np.float64), (word, tag)), shape=shape)

    @cached_property
    def tag_total(self) -> Float[np.ndarray, " t"]:
        """How often each tag occurs."""
        return np.asarray(self.lexicon.sum(axis=0), dtype=np.float64)

    @cached_property
    def word_total(self) -> Float[np.ndarray, " w"]:
        """How often each word occurs."""
        return np.asarray(self.lexicon.sum(axis=1), dtype=np.float64)


def count_tags(sentences: Sentences, tags: Sequence[Tags]) -> TagCounts:
    """The counts of tagged sentences; words and tags are numbered as they come."""
    emissions: Counter[tuple[str | None, str, str]] = Counter()
    trigrams: Counter[tuple[str | None, ...]] = Counter()
    check_tags(sentences, tags)
    for number, words in enumerate(sentences):
        own = _known(tags[number], number)
        line = (None, None, *own, None)
        emissions.update(zip(line[1:], own, words, strict=False))
        if len(own):
            trigrams.update(zip(line, line[1:], line[2:], strict=False))
    if not emissions:
        raise DataError("there are no tagged words to learn from. Is the file empty?")
    names = tuple(dict.fromkeys(tag for _, tag, _ in emissions))
    word = {name: i for i, name in enumerate(dict.fromkeys(word for _, _, word in emissions))}
    number_of: dict[str | None, int] = {name: i for i, name in enumerate(names)}
    number_of[None] = len(names)
    rows = [(number_of[b], number_of[t], word[w], n) for (b, t, w), n in emissions.items()]
    triples = [(*(number_of[t] for t in three), n) for three, n in trigrams.items()]
    return TagCounts(tuple(word), names, np.array(rows), np.array(triples))


def _known(tags: Any, number: int) -> tuple[str, ...]:
    """The tags of a sentence, each of which must be there."""
    for tag in (None,) if tags is None else tags:
        if tag is None or isinstance(tag, set):
            raise DataError(
                f"sentence {number} has words without a tag. A hidden Markov model counts tags, so "
                "that all must be known; a joint tagger learns from gaps too."
            )
        if not isinstance(tag, str):
            raise DataError(
                f"sentence {number}: the tag {tag!r} is a {type(tag).__name__}; tags are strings. "
                "Try str(...) around it."
            )
    return tuple(tags)


def _within(counts: Int[np.ndarray, "k 4"], sizes: tuple[int, int, int]) -> bool:
    """Whether each row has three numbers below these sizes, and was counted."""
    if counts.shape[1:] != (4,):
        return False
    inside = (counts[:, :3] >= 0) & (counts[:, :3] < sizes)
    return bool(inside.all() and (counts[:, 3] > 0).all())

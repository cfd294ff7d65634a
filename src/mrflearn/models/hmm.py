"""Hidden Markov models for tagging: transitions, word and suffix emissions, lattices.

Letters in shapes: t: tags; x: tags and the edge of a sentence; w: words; c: contexts of tags; g:
counted trigrams; k: entries (word, tag), or some of n nodes; n: what is asked about; r: rows
(tokens) packed by `Steps`; b: sentences that have words, longest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import coo_array, csr_array, vstack

from mrflearn.features.tagged_sentences import TagCounts
from mrflearn.kernels.chain_sums import Steps
from mrflearn.kernels.lattice import Lattice, LatticeEdges

# What the ending of a word says of its tag, learned from rare words [Brants 2000, section 2.3].


# How many words seen with an ending weigh as much as all that shorter endings say; chosen on
# validation sentences, see docs/decisions/hmm-tagger.md.
STRENGTH = 6.0
_DIGIT = re.compile(r"\d")


class SuffixTree(NamedTuple):
    """How many rare words with each ending had each tag."""

    number: dict[str, int]
    counts: csr_array  # n t
    longest: int

    def shares(self, words: Sequence[str]) -> Float[np.ndarray, "k t"]:
        """P(tag | ending) of each word, every ending smoothed by the next shorter one."""
        result = np.zeros((len(words), self.counts.shape[1]))
        ladders = [endings(word, self.longest) for word in words]
        for level in range(self.longest + 2):
            found = [
                (row, self.number[ladder[level]])
                for row, ladder in enumerate(ladders)
                if level < len(ladder) and ladder[level] in self.number
            ]
            if not found:
                break
            rows, numbers = np.array(found).T
            counts = self.counts[numbers].toarray()
            # [Brants 2000, eq. 7] with theta = STRENGTH / count: the more words, the more trust.
            strength = STRENGTH if level else 0.0
            total = counts.sum(axis=1, keepdims=True) + strength
            result[rows] = (counts + strength * result[rows]) / total
        return result


def suffix_tree(words: Sequence[str], seen: csr_array, longest: int) -> SuffixTree:
    """The tree of words and the tags they were seen with; how often does not count."""
    number: dict[str, int] = {}
    ladders = [endings(word, longest) for word in words]
    rows = [number.setdefault(ending, len(number)) for ladder in ladders for ending in ladder]
    word = np.repeat(np.arange(len(words)), [len(ladder) for ladder in ladders])
    has = coo_array((np.ones(len(rows)), (rows, word)), shape=(len(number), len(words)))
    return SuffixTree(number, csr_array(has.tocsr() @ (seen > 0).astype(np.float64)), longest)


def endings(word: str, longest: int) -> list[str]:
    """The endings of a word from the empty one on, all digits being equal.

    Words of different shapes have trees of their own, which meet in the empty ending.
    """
    form = _DIGIT.sub("0", word)
    kind = shape(word)
    return ["", *(kind + form[len(form) - n :] for n in range(min(longest, len(form)) + 1))]


def shape(word: str) -> str:
    """One letter: has digits (0), all capitals (X), a capital (A), a hyphen (-), others (a)."""
    if _DIGIT.search(word):
        return "0"
    if word[:1].isupper():
        return "X" if len(word) > 1 and word.isupper() else "A"
    return "-" if "-" in word else "a"


# Which tag comes next: trigrams or bigrams of tags, smoothed by deleted interpolation.


Numbers: TypeAlias = Int[np.ndarray, " n"]


class TagTransitions(NamedTuple):
    """`log_probability[context[u, v]]` is of the tag after u and v, in nats; the last is the edge.

    Trigram contexts that were never seen share the row of their second tag.
    """

    context: Int[np.ndarray, "x x"]
    log_probability: Float[np.ndarray, "c x"]
    weights: tuple[float, ...]

    @property
    def edge(self) -> int:
        """The number of the edge of a sentence."""
        return len(self.context) - 1


def tag_transitions(counts: TagCounts, order: int) -> TagTransitions:
    """Interpolated transitions: of order 2 after two tags, of order 1 after one.

    The weights of unigrams, bigrams (and trigrams) sum to 1 [Brants 2000, figure 1].
    """
    size = len(counts.tags) + 1
    first, second, third, times = counts.trigram.T
    after, before = second * size + third, first * size + second
    unigram, bigram = _table(third, times, size), _table(after, times, size**2)
    events = [
        (unigram[third], np.full(len(third), times.sum())),
        (bigram[after], _table(second, times, size)[second]),
        (times, _table(before, times, size**2)[before]),
    ]
    weights = _elected(events[: order + 1], times)
    levels = [_shares(unigram[None]), _shares(bigram.reshape(size, size))]
    context = np.broadcast_to(np.arange(size), (size, size))
    if order == 2:
        pairs, row = np.unique(before, return_inverse=True)
        context = context.copy()
        context.reshape(-1)[pairs] = size + np.arange(len(pairs))
        trigram = _table(row * size + third, times, len(pairs) * size).reshape(-1, size)
        # Rows: every second tag behind an unseen first one, then every pair that was seen.
        levels[1] = levels[1][np.concatenate([np.arange(size), pairs % size])]
        levels.append(np.concatenate([np.zeros((size, size)), _shares(trigram)]))
    return TagTransitions(context, _mixed(levels, weights), weights)


def _elected(levels: Sequence[tuple[Numbers, Numbers]], times: Numbers) -> tuple[float, ...]:
    """The weight of each level, by the counts of events and of their contexts there.

    Each event votes, as often as it occurs, for the level that would foretell it best were this
    one occurrence not counted.  Ties share the vote, and each level has one vote to begin with, so
    that nothing is impossible.
    """
    shares = np.stack([(own - 1) / np.maximum(context - 1, 1) for own, context in levels])
    best = shares == shares.max(axis=0)
    total = 1.0 + ((best / best.sum(axis=0)) * times).sum(axis=1)
    return tuple((total / total.sum()).tolist())


def _table(place: Numbers, times: Numbers, size: int) -> Numbers:
    return np.bincount(place, weights=times, minlength=size).astype(np.int64)


def _shares(counts: Int[np.ndarray, "c x"]) -> Float[np.ndarray, "c x"]:
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def _mixed(
    levels: list[Float[np.ndarray, "_ x"]], weights: tuple[float, ...]
) -> Float[np.ndarray, "c x"]:
    mixed = np.asarray(sum(w * level for w, level in zip(weights, levels, strict=True)))
    # A context that was never seen has no shares of its own: the other levels take its weight.
    return np.asarray(np.log(mixed / mixed.sum(axis=1, keepdims=True)))


# The tags that each word may have, with log P(word | tag).


@final
@dataclass(frozen=True, eq=False)
class WordTags:
    """Word i has the entries from `begin[i]` to `begin[i + 1]`."""

    begin: Int[np.ndarray, " w+1"]
    tag: Int[np.ndarray, " k"]
    score: Float[np.ndarray, " k"]

    @classmethod
    def of(cls, share: csr_array, prior: Float[np.ndarray, " t"]) -> WordTags:
        """P(word | tag) = P(tag | word) P(word) / P(tag), by shares P(tag | word) P(word)."""
        tag = share.indices.astype(np.int64)
        return cls(share.indptr.astype(np.int64), tag, np.log(share.data / prior[tag]))

    def __add__(self, other: WordTags) -> WordTags:
        """These words, and others after them."""
        return WordTags(
            np.concatenate([self.begin, self.begin[-1] + other.begin[1:]]),
            np.concatenate([self.tag, other.tag]),
            np.concatenate([self.score, other.score]),
        )


# P(word | tag, tag before it): counted pairs of tags mixed with P(word | tag), as in hunpos.


class WordContext(NamedTuple):
    """`score[i]` is log P(word | tags) of the counted `code[i]`; codes rise.

    What was never counted has P(word | tag) times `left`.
    """

    code: Int[np.ndarray, " k"]
    score: Float[np.ndarray, " k"]
    left: float
    words: int
    tags: int

    def scores(
        self, before: Numbers, tag: Numbers, word: Numbers, alone: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """log P(word | tag, tag before), given log P(word | tag); new words have high numbers."""
        wanted = (before * self.tags + tag) * self.words + word
        wanted[word >= self.words] = -1
        place = np.minimum(np.searchsorted(self.code, wanted), len(self.code) - 1)
        found = self.code[place] == wanted
        return np.asarray(np.where(found, self.score[place], alone + np.log(self.left)))


def word_context(counts: TagCounts, entries: WordTags) -> WordContext:
    """Counts of words after pairs of tags, mixed by deleted interpolation with `entries`."""
    before, tag, word, times = counts.emission.T
    pair = before * (counts.edge + 1) + tag
    pairs = np.bincount(pair, weights=times)[pair]
    alone = np.asarray(counts.lexicon[word, tag]).ravel()
    left, _ = _elected([(alone, counts.tag_total[tag]), (times, pairs)], times)
    size = len(counts.words), len(counts.tags)
    code = (before * size[1] + tag) * size[0] + word
    known = csr_array((np.exp(entries.score), entries.tag, entries.begin), shape=size)
    mixed = (1 - left) * times / pairs + left * np.asarray(known[word, tag]).ravel()
    order = np.argsort(code)
    return WordContext(code[order], np.log(mixed[order]), left, *size)


# Sentences as lattices: a node is a tag that a word may have, or a pair of them in a row.


class TagLattice(NamedTuple):
    """Sentences packed by `steps` as a lattice, and the row and the tag of each of its nodes."""

    lattice: Lattice
    row: Numbers
    tag: Numbers
    steps: Steps


def tag_lattice(
    word: Int[np.ndarray, " r"],
    steps: Steps,
    entries: WordTags,
    transitions: TagTransitions,
    words_in_context: WordContext | None,
) -> TagLattice:
    """The lattice of sentences packed by `steps`, whose rows hold the numbers of words.

    Words in context need pairs of tags for nodes: node j of a row is tag j % own of its word,
    behind tag j // own of the row before.  Else a node is a single tag.
    """
    pairs = words_in_context is not None
    own = np.diff(entries.begin)[word]  # tags of the row's word
    previous = np.full(len(word), -1)
    previous[steps.starting :] = steps.previous.numpy()
    above = np.where(previous < 0, 1, own[previous])  # tags of the row before
    degree, stride = (above[previous], own[previous]) if pairs else (above, np.ones_like(own))
    begin = np.concatenate([[0], np.cumsum(own * above if pairs else own)])
    row = np.repeat(np.arange(len(word)), np.diff(begin))
    behind, place = np.divmod(np.arange(len(row)) - begin[row], own[row])
    entry = entries.begin[word[row]] + place
    tag, edge, starts = entries.tag[entry], transitions.edge, previous[row] < 0
    before = np.where(starts, edge, entries.tag[entries.begin[word[previous[row]]] + behind])
    score = entries.score[entry]
    if words_in_context is not None:
        score = words_in_context.scores(before, tag, word[row], score)
    context, table = transitions.context[before, tag], transitions.log_probability
    bounds = np.concatenate([[0], np.cumsum(steps.sizes)]).astype(np.int64)
    length = steps.lengths[steps.order].numpy()
    length = length[length > 0]
    last = bounds[length - 1] + np.arange(len(length))  # rows, longest sentence first
    ends = np.zeros(len(word), dtype=bool)
    ends[last] = True
    ends = ends[row]
    score[starts] += table[transitions.context[edge, edge], tag[starts]]
    score[ends] += table[context[ends], edge]

    def edges(some: Int[np.ndarray, " k"]) -> LatticeEdges:
        """Those into nodes, from nodes of the row before that end in the tag they stand behind."""
        here = row[some]
        many = degree[here]
        first = np.cumsum(many) - many
        rank = np.arange(many.sum()) - np.repeat(first, many)
        start = begin[previous[here]] + behind[some]
        source = np.repeat(start, many) + rank * np.repeat(stride[here], many)
        weight = table[context[source], np.repeat(tag[some], many)]
        return LatticeEdges(source, weight, first, many)

    whole = (steps.sizes, tuple(begin[bounds].tolist()), begin[last], begin[last + 1])
    return TagLattice(Lattice(score, edges, *whole), row, tag, steps)


# A hidden Markov model of tagged text, in the manner of TnT and hunpos [Brants 2000].


# How many occurrences of a known word weigh as much as what its ending says of its tags; chosen on
# validation sentences, see docs/decisions/hmm-tagger.md.
ENDING_WEIGHT = 1.0
WORDS_AT_ONCE = 4096  # bounds memory where there are many tags
EDGES_AT_ONCE = 2**23  # of one lattice, unless a single sentence has more


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
        """The tags of known words: those counted, and with suffixes those of similar words."""
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
    def _rare_words(self) -> Int[np.ndarray, " k"]:
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

    def lattices(self, sentences: Sequence[Sequence[str]]) -> Iterator[TagLattice]:
        """The tags that are possible and how they may follow each other, some sentences a time."""
        numbers, new = self._numbered(sentences)
        entries = self.known + self.unknown(new) if new else self.known
        lengths = np.array([len(words) for words in sentences], dtype=np.int64)
        tokens = np.cumsum(np.concatenate([[0], lengths]))
        for first, last in _runs(_edges_of(np.diff(entries.begin)[numbers], self.order, tokens)):
            steps = Steps.of(torch.from_numpy(lengths[first:last]))
            rows = numbers[tokens[first] : tokens[last]][steps.source.numpy()]
            yield tag_lattice(rows, steps, entries, self.transitions, self.context)

    def _numbered(self, sentences: Sequence[Sequence[str]]) -> tuple[Numbers, tuple[str, ...]]:
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


def _edges_of(own: Numbers, order: int, tokens: Int[np.ndarray, " b+1"]) -> Int[np.ndarray, " b"]:
    """How many edges the lattice of each sentence has, give or take those at its start."""
    size = own.copy()
    for back in range(1, order + 1):
        size[back:] *= own[:-back]
    total = np.concatenate([[0], np.cumsum(size)])
    return np.diff(total[tokens])


def _runs(sizes: Int[np.ndarray, " b"]) -> Iterator[tuple[int, int]]:
    """(first, last) of runs of sentences that are not too large together."""
    first, total = 0, 0
    for place, size in enumerate(sizes.tolist()):
        if place > first and total + size > EDGES_AT_ONCE:
            yield first, place
            first, total = place, 0
        total += size
    if len(sizes):
        yield first, len(sizes)

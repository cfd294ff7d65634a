"""N-gram models: interpolated Kneser-Ney, ARPA files, levels of a composite model.

K. Heafield, I. Pouzyrevsky, J. Clark, P. Koehn: Scalable modified Kneser-Ney language model
estimation, ACL 2013; equations below are theirs.

There `<s>` begins and `</s>` ends a sentence; here the separator of the vocabulary does both.

How far to trust a model is learned by buckets: the longest context before a token that was ever
seen, how often it was seen, and how often what followed was new [Chen & Goodman 1999, section 2.4].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.ngrams import (
    Counts,
    NgramCounts,
    OrderStep,
    count_ngrams,
    find_codes,
    walk_orders,
)
from mrflearn.io.arpa import Arpa, ArpaSection
from mrflearn.io.corpus import SEPARATOR, UNKNOWN, Vocabulary

# n-gram models with back-off weights, scored and sampled over whole corpora at once.


Figures: TypeAlias = NDArray[np.float64]


class BackoffTable(NamedTuple):
    """The n-grams of one order, by rising code; see `NgramCounts.code`.

    `log_probability` is of the last word after the others; `log_backoff` weighs the order below
    after the whole n-gram, where the order above lacks the next word.
    """

    code: Counts
    log_probability: Figures
    log_backoff: Figures


@final
@dataclass(frozen=True, eq=False)
class TokenScores:
    """The log-probability of every predicted symbol in nats; which end sentences or are unknown."""

    log_probability: Figures
    ends: NDArray[np.bool_]
    unknown: NDArray[np.bool_]

    def part(self, tokens: slice) -> TokenScores:
        """The same of some of the tokens."""
        return TokenScores(self.log_probability[tokens], self.ends[tokens], self.unknown[tokens])


@final
@dataclass(frozen=True, eq=False)
class NgramModel:
    """Tables of orders 1 to n.  The vocabulary's separator both begins and ends a sentence."""

    vocabulary: Vocabulary
    tables: tuple[BackoffTable, ...]

    def __post_init__(self) -> None:
        states, below = len(self.vocabulary), 1
        for n, (code, probability, backoff) in enumerate(self.tables, start=1):
            whole = code.dtype == np.int64 and code.ndim == 1
            rising = whole and bool((np.diff(code) > 0).all())
            known = rising and (not len(code) or 0 <= code[0] <= code[-1] < below * states)
            if not (known and len(code) == len(probability) == len(backoff)):
                raise DataError(
                    f"the codes of order {n} must rise, name words and contexts that are there, "
                    "and have one probability and one back-off each."
                )
            below = len(code)
        if len(self.tables[0].code) != states:
            raise DataError(f"{len(self.tables[0].code)} unigrams for {states} words.")

    @property
    def order(self) -> int:
        return len(self.tables)

    def tensors(self) -> dict[str, Tensor]:
        """The tables by name and order."""
        return {
            f"{part}.{n}": torch.from_numpy(getattr(table, part))
            for n, table in enumerate(self.tables, start=1)
            for part in BackoffTable._fields
        }

    @classmethod
    def from_tensors(
        cls, vocabulary: Vocabulary, order: int, tensors: Mapping[str, Tensor]
    ) -> NgramModel:
        """The model that `tensors` gave."""
        tables = (
            BackoffTable(*(tensors[f"{part}.{n}"].cpu().numpy() for part in BackoffTable._fields))
            for n in range(1, order + 1)
        )
        return cls(vocabulary, tuple(tables))

    def log_probabilities(self, stream: Counts) -> Figures:
        """The log-probability of each symbol of a stream after the first, in nats."""
        result = self.tables[0].log_probability[stream[1:]]
        for step in self.walk(stream):
            here, own = step.tokens, self.tables[step.order - 1].log_probability
            backed_off = result[here] + self.tables[step.order - 2].log_backoff[step.context]
            found = own[step.place] if len(own) else backed_off
            result[here] = np.where(step.place >= 0, found, backed_off)
        return result

    def walk(self, stream: Counts) -> Iterator[OrderStep]:
        """The n-grams of a stream with a known context, from bigrams on."""

        def find(n: int, codes: Counts) -> Counts:
            return find_codes(self.tables[n - 1].code, codes)

        sizes = len(self.vocabulary), self.vocabulary.separator
        return walk_orders(stream, self.order, *sizes, find)

    def next_symbol(self, context: Sequence[int] | Counts) -> Figures:
        """Log-probabilities of every next symbol; a context is ids from a sentence's start on."""
        states = len(self.vocabulary)
        result = self.tables[0].log_probability.copy()
        last = [self.vocabulary.separator, *context][-max(self.order - 1, 1) :]
        for n in range(2, min(self.order, len(last) + 1) + 1):
            place = self._place(last[len(last) - n + 1 :])
            if place >= 0:
                result += self.tables[n - 2].log_backoff[place]
                table = self.tables[n - 1]
                first, end = np.searchsorted(table.code, [place * states, (place + 1) * states])
                result[table.code[first:end] % states] = table.log_probability[first:end]
        return result

    def _place(self, symbols: Sequence[int]) -> int:
        """The place of an n-gram in the table of its order, -1 where it is not."""
        place = symbols[0]
        for table, symbol in zip(self.tables[1:], symbols[1:], strict=False):
            code = np.array([place * len(self.vocabulary) + symbol])
            place = int(find_codes(table.code, code)[0])
            if place < 0:
                break
        return place

    def sample(self, generator: np.random.Generator, longest: int) -> list[int]:
        """The ids of one new sentence, cut off after `longest` words."""
        words: list[int] = []
        while len(words) < longest:
            symbol = draw(np.exp(self.next_symbol(words)).cumsum(), generator)
            if symbol == self.vocabulary.separator:
                break
            words.append(symbol)
        return words


def draw(ends: Figures, generator: np.random.Generator) -> int:
    """An index drawn by the upper ends of the choices, the cumulated weights."""
    chosen = int(np.searchsorted(ends, generator.random() * ends[-1], "right"))
    return min(chosen, len(ends) - 1)


# Interpolated modified Kneser-Ney smoothing [Chen & Goodman 1999], as KenLM's lmplz defines it.


# lmplz's --discount_fallback, for corpora so small or so odd that counts of counts say nothing.
FALLBACK = (0.5, 1.0, 1.5)


def kneser_ney(counts: Sequence[NgramCounts], vocabulary: Vocabulary) -> NgramModel:
    """The interpolated model of the highest order counted; it sums to 1 after every context."""
    states = len(vocabulary)
    adjusted = adjusted_counts(counts)
    # [Heafield 2013, eq. 4] Unigrams interpolate with the uniform distribution.
    lower: Figures = np.full(states, 1 / states)
    probabilities, backoffs = [], []
    for n, (grams, seen) in enumerate(zip(counts, adjusted, strict=True), start=1):
        context = grams.code // states if n > 1 else np.zeros(states, np.int64)
        contexts = len(counts[n - 2]) if n > 1 else 1
        cut = discount_of(seen, discounts(seen)[0])
        total = np.bincount(context, weights=seen, minlength=contexts)
        # [eqs. 2, 3] What the discounts take from a context is shared out by the order below.
        share = np.bincount(context, weights=cut, minlength=contexts)
        backoff = np.divide(share, total, out=np.ones(contexts), where=total > 0)
        below = lower[grams.suffix] if n > 1 else lower
        lower = (seen - cut) / total[context] + backoff[context] * below
        probabilities.append(lower)
        if n > 1:
            backoffs.append(backoff)
    backoffs.append(np.ones(len(lower)))
    tables = tuple(
        BackoffTable(grams.code, np.log(p), np.log(b))
        for grams, p, b in zip(counts, probabilities, backoffs, strict=True)
    )
    return NgramModel(vocabulary, tables)


def adjusted_counts(counts: Sequence[NgramCounts]) -> list[Counts]:
    """[eq. 1] Occurrences in the highest order, and how many words come before, in the others.

    Nothing comes before the beginning of a sentence: n-grams from there keep their occurrences.
    """
    before = [np.bincount(above.suffix, minlength=len(grams)) for grams, above in pairwise(counts)]
    kept = [
        np.where(grams.begins, grams.count, b) for grams, b in zip(counts, before, strict=False)
    ]
    return [*kept, counts[-1].count]


def discounts(adjusted: Counts) -> tuple[Figures, bool]:
    """What is taken from counts of 1, 2 and more, and whether the fallback had to serve."""
    t1, t2, t3, t4 = (int((adjusted == k).sum()) for k in (1, 2, 3, 4))
    if min(t1, t2, t3) == 0:
        return np.array(FALLBACK), True
    # [Chen & Goodman 1999, eq. 26]
    y = t1 / (t1 + 2 * t2)
    found = np.array([1 - 2 * y * t2 / t1, 2 - 3 * y * t3 / t2, 3 - 4 * y * t4 / t3])
    if (found <= 0).any() or (found > (1, 2, 3)).any():
        return np.array(FALLBACK), True
    return found, False


def discount_of(adjusted: Counts, discount: Figures) -> Figures:
    """The discount of each n-gram; none is taken from what was never seen."""
    return np.concatenate([[0.0], discount])[np.minimum(adjusted, 3)]


# n-gram models to and from the record of an ARPA file.


BEGIN, END = "<s>", "</s>"
LN10 = math.log(10)
NEVER = -99.0  # how ARPA files write the logarithm of 0


def to_arpa(model: NgramModel) -> Arpa:
    """The record of a model: `<s>` first, `</s>` last among its words."""
    words, separator = model.vocabulary.words, model.vocabulary.separator
    if BEGIN in words or END in words:
        raise DataError(f"an ARPA file cannot hold {BEGIN} or {END} as an ordinary word.")
    end = len(words)
    sections, grams = [], np.zeros((1, 0), np.int64)
    for order, table in enumerate(model.tables, start=1):
        context, last = np.divmod(table.code, end)
        ending = np.where(last == separator, end, last) if order > 1 else last
        grams = np.column_stack([grams[context], ending])
        probability, backoff = (
            np.maximum(values / LN10, NEVER).astype(np.float32)
            for values in (table.log_probability, table.log_backoff)
        )
        # Rounding may lift a probability of 1 above it.
        sections.append(ArpaSection(grams, np.minimum(probability, np.float32(0)), backoff))
    # Among unigrams, the probability of the separator is that of a new last word, `</s>`.
    first = sections[0]
    probability = np.append(first.probability, first.probability[separator])
    probability[separator] = NEVER
    grams = np.append(first.grams, [[end]], axis=0)
    backoff = np.append(first.backoff, np.float32(0))
    names = (*(BEGIN if word == SEPARATOR else word for word in words), END)
    return Arpa(names, (ArpaSection(grams, probability, backoff), *sections[1:]))


def from_arpa(arpa: Arpa) -> NgramModel:
    """The model that an ARPA file holds; it needs `<s>`, `</s>` and, for new words, `<unk>`."""
    vocabulary, renumber = _vocabulary(arpa)
    first, states = arpa.sections[0], len(vocabulary)
    begin, end = (arpa.words.index(mark) for mark in (BEGIN, END))
    # A closed vocabulary has no <unk>: what it does not know never happens.
    probability, backoff = np.full(states, NEVER), np.zeros(states)
    probability[np.delete(renumber, begin)] = np.delete(first.probability, begin)
    backoff[np.delete(renumber, end)] = np.delete(first.backoff, end)
    tables = [BackoffTable(np.arange(states), probability * LN10, backoff * LN10)]
    for order, section in enumerate(arpa.sections[1:], start=2):
        if (section.grams[:, 1:] == begin).any() or (section.grams[:, :-1] == end).any():
            raise DataError(
                f"an n-gram of order {order} has {BEGIN} or {END} inside it. Such models run over "
                "sentence ends, which is not supported."
            )
        tables.append(_table(renumber[section.grams], section, tables, states))
    return NgramModel(vocabulary, tuple(tables))


def _vocabulary(arpa: Arpa) -> tuple[Vocabulary, Counts]:
    """The vocabulary, and the id in it of each word of the file."""
    missing = [mark for mark in (BEGIN, END) if mark not in arpa.words]
    if missing or SEPARATOR in arpa.words:
        problem = f"lacks {missing[0]}" if missing else f"has a word {SEPARATOR}"
        raise DataError(f"the ARPA file {problem} among its 1-grams.")
    spoken = [word for word in arpa.words if word not in (BEGIN, END, UNKNOWN)]
    vocabulary = Vocabulary((SEPARATOR, UNKNOWN, *spoken))
    marks = {BEGIN: vocabulary.separator, END: vocabulary.separator}
    ids = dict(zip(vocabulary.words, range(len(vocabulary)), strict=True)) | marks
    return vocabulary, np.array([ids[word] for word in arpa.words], np.int64)


def _table(
    grams: Counts, section: ArpaSection, below: list[BackoffTable], states: int
) -> BackoffTable:
    place = grams[:, 0]
    for order, table in enumerate(below[1:], start=2):
        place = find_codes(table.code, place * states + grams[:, order - 1])
        if (place < 0).any():
            raise DataError(
                f"the first words of an n-gram of order {len(below) + 1} are not themselves among "
                f"the {order}-grams. Was the file pruned by hand?"
            )
    code = place * states + grams[:, -1]
    order_of = np.argsort(code)
    figures = (section.probability, section.backoff)
    probability, backoff = (own[order_of].astype(np.float64) * LN10 for own in figures)
    return BackoffTable(code[order_of], probability, backoff)


# An n-gram model as a level of the composite: probabilities of tokens, and how far to trust
# them.


SIZES, NOVELTIES = 8, 4  # steps of log2(times seen), and of the share of followers that were new


def with_blind(tag_of_word: Figures) -> Figures:
    """p(preterminal | word) and one more column for what can be any of them: the blind level's."""
    made = (tag_of_word.sum(axis=1, keepdims=True) > 0).astype(np.float64)
    return np.concatenate([tag_of_word, made], axis=1)


def bucket_count(order: int) -> int:
    """How many buckets an n-gram model of this order distinguishes."""
    return 1 + (order - 1) * SIZES * NOVELTIES


@final
@dataclass(frozen=True, eq=False)
class NgramLevel:
    """A model and, for each order above the first, its contexts: how often seen and renewed.

    `suffixes` is where an n-gram's last words stand in the order below, and `shorter` where its
    context without its first word does among contexts there.
    """

    model: NgramModel
    seen: tuple[Counts, ...]
    kinds: tuple[Counts, ...]
    suffixes: tuple[Counts, ...]
    shorter: tuple[Counts, ...]

    @classmethod
    def learn(cls, stream: Counts, order: int, vocabulary: Vocabulary) -> NgramLevel:
        """The Kneser-Ney model of a stream of sentences."""
        grams = count_ngrams(stream, order, len(vocabulary), vocabulary.separator)
        seen, kinds = [], []
        for below, above in pairwise(grams):
            context = above.code // len(vocabulary)
            times = np.bincount(context, weights=above.count, minlength=len(below))
            seen.append(times.astype(np.int64))
            kinds.append(np.bincount(context, minlength=len(below)))
        suffixes = tuple(above.suffix for above in grams[1:])
        # Every word's context without its first word is the empty one.
        shorter = tuple(below.suffix for below in grams[:-1])
        return cls(kneser_ney(grams, vocabulary), tuple(seen), tuple(kinds), suffixes, shorter)

    def tagged(self, stream: Counts, tag_of_word: Figures) -> Figures:
        """p(word | words before, preterminal) of each symbol after the first, (tokens, tags).

        The n-gram model and p(preterminal | word), one row a word, give it by Bayes' rule:
        p(w | uv) p(A | w) / sum_x p(x | uv) p(A | x).  A word whose row is zero, such as the
        sentence end where a grammar makes it, is left out of all of this.
        """
        result = np.exp(self.model.log_probabilities(stream))[:, None] * tag_of_word[stream[1:]]
        norms = self._norms(tag_of_word)
        below = np.broadcast_to(norms[0], result.shape).copy()
        for step in self.model.walk(stream):
            below[step.tokens] = norms[step.order - 1][step.context]
        # A preterminal that no word has after a context makes none.
        return np.divide(result, below, out=np.zeros_like(result), where=below > 0)

    def _norms(self, tag_of_word: Figures) -> list[Figures]:
        """sum_x p(x | context) p(A | x) for each context of each order, (contexts, tags).

        A context gives its own words their share and leaves the rest to the context one word
        shorter, so its sum is that one's, weighed, and what its own words have beyond.
        """
        states, tables = len(self.model.vocabulary), self.model.tables
        lower = np.exp(tables[0].log_probability)
        norms = [lower[None] @ tag_of_word]
        for n in range(2, self.model.order + 1):
            context, word = np.divmod(tables[n - 1].code, states)
            backoff = np.exp(tables[n - 2].log_backoff)
            own = np.exp(tables[n - 1].log_probability)
            beyond = own - backoff[context] * lower[self.suffixes[n - 2]]
            where = (context, np.arange(len(context)))
            spread = csr_array((beyond, where), shape=(len(backoff), len(context)))
            inherited = norms[-1][self.shorter[n - 2]]
            norms.append(backoff[:, None] * inherited + spread @ tag_of_word[word])
            lower = own
        return norms

    def buckets(self, stream: Counts) -> Counts:
        """The bucket of each symbol after the first."""
        result = np.zeros(len(stream) - 1, np.int64)
        for step in self.model.walk(stream):
            lower = step.order - 2
            times, kinds = self.seen[lower][step.context], self.kinds[lower][step.context]
            known = times > 0
            times, kinds, here = times[known], kinds[known], step.tokens[known]
            size = np.minimum(np.log2(times).astype(np.int64), SIZES - 1)
            novelty = np.minimum(NOVELTIES * kinds // times, NOVELTIES - 1)
            result[here] = 1 + (lower * SIZES + size) * NOVELTIES + novelty
        return result

"""n-gram models to and from the record of an ARPA file.

There `<s>` begins and `</s>` ends a sentence; here the separator of the vocabulary does both.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.features.ngrams import Counts
from mrflearn.io.arpa import Arpa, ArpaSection
from mrflearn.io.vocabulary import SEPARATOR, UNKNOWN, Vocabulary
from mrflearn.models.ngram import BackoffTable, NgramModel

BEGIN, END = "<s>", "</s>"
NEVER = -99.0  # how ARPA files write the logarithm of 0


def to_arpa(model: NgramModel) -> Arpa:
    """The record of a model: `<s>` first, `</s>` last among its words."""
    words, separator = model.vocabulary.words, model.vocabulary.separator
    for mark in (BEGIN, END):
        if mark in words:
            raise DataError(f"an ARPA file cannot hold {mark} as an ordinary word.")
    end = len(words)
    names = (*(BEGIN if word == SEPARATOR else word for word in words), END)
    sections, grams = [], np.zeros((1, 0), np.int64)
    for order, table in enumerate(model.tables, start=1):
        context, last = np.divmod(table.code, end)
        ending = np.where(last == separator, end, last) if order > 1 else last
        grams = np.column_stack([grams[context], ending])
        sections.append(_section(grams, table))
    return Arpa(names, (_with_both_marks(sections[0], separator), *sections[1:]))


def _section(grams: NDArray[np.int64], table: BackoffTable) -> ArpaSection:
    figures = [table.log_probability, table.log_backoff]
    probability, backoff = (
        np.maximum(values / math.log(10), NEVER).astype(np.float32) for values in figures
    )
    # Rounding may lift a probability of 1 above it.
    return ArpaSection(grams, np.minimum(probability, np.float32(0)), backoff)


def _with_both_marks(unigrams: ArpaSection, separator: int) -> ArpaSection:
    """Unigrams with the separator's probability moved to a new last word, `</s>`."""
    never = np.float32(NEVER)
    probability = np.append(unigrams.probability, unigrams.probability[separator])
    probability[separator] = never
    grams = np.append(unigrams.grams, [[len(unigrams.grams)]], axis=0)
    return ArpaSection(grams, probability, np.append(unigrams.backoff, np.float32(0)))


def from_arpa(arpa: Arpa) -> NgramModel:
    """The model that an ARPA file holds; it needs `<s>`, `</s>` and, for new words, `<unk>`."""
    vocabulary, renumber = _vocabulary(arpa)
    tables: list[BackoffTable] = [_unigrams(arpa, vocabulary, renumber)]
    begin, end = (arpa.words.index(mark) for mark in (BEGIN, END))
    for order, section in enumerate(arpa.sections[1:], start=2):
        if (section.grams[:, 1:] == begin).any() or (section.grams[:, :-1] == end).any():
            raise DataError(
                f"an n-gram of order {order} has {BEGIN} or {END} inside it. Such models run over "
                "sentence ends, which is not supported."
            )
        tables.append(_table(renumber[section.grams], section, tables, len(vocabulary)))
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


def _unigrams(arpa: Arpa, vocabulary: Vocabulary, renumber: Counts) -> BackoffTable:
    section, states = arpa.sections[0], len(vocabulary)
    # A closed vocabulary has no <unk>: what it does not know never happens.
    probability, backoff = np.full(states, NEVER), np.zeros(states)
    begins = np.array([word == BEGIN for word in arpa.words])
    ends = np.array([word == END for word in arpa.words])
    probability[renumber[~begins]] = section.probability[~begins]
    backoff[renumber[~ends]] = section.backoff[~ends]
    return BackoffTable(np.arange(states), probability * math.log(10), backoff * math.log(10))


def _table(
    grams: Counts, section: ArpaSection, below: list[BackoffTable], states: int
) -> BackoffTable:
    place = grams[:, 0]
    for order, table in enumerate(below[1:], start=2):
        place = table.find(place * states + grams[:, order - 1])
        if (place < 0).any():
            raise DataError(
                f"the first words of an n-gram of order {len(below) + 1} are not themselves among "
                f"the {order}-grams. Was the file pruned by hand?"
            )
    code = place * states + grams[:, -1]
    order_of = np.argsort(code)
    figures = [section.probability, section.backoff]
    probability, backoff = (f[order_of].astype(np.float64) * math.log(10) for f in figures)
    return BackoffTable(code[order_of], probability, backoff)

"""Tiny composite models, and everything about them by listing all derivations, levels, topics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import torch
from torch import Tensor

from mrflearn.execution.executor import Serial
from mrflearn.execution.held import Held
from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngrams import NgramIndex
from mrflearn.kernels.rules import RuleShape
from mrflearn.models.composite_lm import (
    GIVEN,
    CompositeModel,
    CompositeShape,
    Level,
    NgramScores,
    TokenBatch,
    batches,
)
from mrflearn.objectives.expected_counts import Expected, ShapedBatch, WithShape

STATES, SEPARATOR = 5, 0
Sentences = list[list[list[int]]]  # documents of sentences of word numbers
Derivation = tuple[float, list[int], list[int], int]  # weight, rules, preterminals, start symbol


def text_of(documents: Sentences) -> DocumentStream:
    arrays = [[np.array(words, np.int32) for words in sentences] for sentences in documents]
    return DocumentStream.of(arrays, SEPARATOR)


def random_model(
    documents: Sentences,
    levels: list[str],
    *,
    grammar: tuple[int, int] | None = (2, 2),
    topics: int = 2,
    buckets: int = 2,
    seed: int = 0,
) -> CompositeModel:
    """Random numbers on everything; tables know the n-grams of these documents."""
    generator = torch.Generator().manual_seed(seed)
    read = tuple(Level.read(name) for name in levels)
    most = 1 + max((level.words for level in read), default=0)
    index = NgramIndex.of(text_of(documents).stream, most, STATES, SEPARATOR, ends=grammar is None)
    wiring = None if grammar is None else RuleShape.full(*grammar)
    shape = CompositeShape(read, index, wiring, topics, buckets)

    def positive(*size: int) -> Tensor:
        return torch.rand(size, dtype=torch.float64, generator=generator) + 0.1

    tables = []
    for level in read:
        table = positive(*shape.table_shape(level))
        context, count = index.contexts(level.words + 1)
        where = torch.from_numpy(context)
        if grammar is not None and level.words == 0:
            table[SEPARATOR] = 0  # the end is no word where a grammar makes it
        total = torch.zeros(count, *table.shape[1:], dtype=torch.float64)
        total.index_add_(0, where, table[:-2])
        table[:-2] /= total[where]
        table[-2], table[-1] = 0, 1 / shape.symbols
        tables.append(table)
    weights = positive(buckets, shape.tags, len(read) + GIVEN)
    tags, start = positive(shape.tags), positive(0 if wiring is None else wiring.symbols)
    rules = torch.zeros(0, dtype=torch.float64)
    if wiring is not None:
        cube = positive(wiring.phrases, wiring.symbols, wiring.symbols)
        rules = (cube / cube.sum(dim=(1, 2), keepdim=True)).reshape(-1).log()
    weights = weights / weights.sum(dim=2, keepdim=True)
    return CompositeModel(
        shape, tuple(tables), weights, tags / tags.sum(), rules, (start / start.sum()).log()
    )


def batch_of(model: CompositeModel, documents: Sentences, *, derived: bool = True) -> TokenBatch:
    """All sentences in one batch, n-gram probabilities and buckets made up from the place."""
    text = text_of(documents)
    size = len(text.stream) - 1
    generator = np.random.default_rng(size)
    given = generator.uniform(0.05, 0.5, (size, model.shape.tags + 1))
    judged = NgramScores(given, generator.integers(0, model.shape.buckets, size))
    (batch,) = batches(text, judged, model.shape, longest=None if derived else 0)
    return batch


def derivations(model: CompositeModel, length: int) -> Iterator[Derivation]:
    """Every derivation with so many preterminals: weight, rules used, preterminals, start."""
    wiring = model.shape.grammar
    assert wiring is not None
    rules = list(
        zip(*(c.tolist() for c in (wiring.parent, wiring.left, wiring.right)), strict=True)
    )

    def below(symbol: int, size: int) -> Iterator[tuple[float, list[int], list[int]]]:
        if size == 1:
            if symbol >= wiring.phrases:
                yield 1.0, [], [symbol - wiring.phrases]
            return
        for number, (parent, left, right) in enumerate(rules):
            if parent == symbol:
                for first in range(1, size):
                    for a, b in product(below(left, first), below(right, size - first)):
                        weight = math.exp(float(model.rules[number])) * a[0] * b[0]
                        yield weight, [number, *a[1], *b[1]], [*a[2], *b[2]]

    for symbol in range(wiring.symbols):
        for weight, used, tags in below(symbol, length):
            yield weight * math.exp(float(model.start[symbol])), used, tags, symbol


def explanations(
    model: CompositeModel, tokens: TokenBatch, place: int, tag: int, shares: Tensor
) -> Iterator[tuple[float, int, int | None]]:
    """(weight, level, topic or None) of every way a preterminal can make the token at a place."""
    bucket = int(tokens.bucket[place])
    for number, (level, table) in enumerate(zip(model.shape.levels, model.tables, strict=True)):
        row = int(tokens.rows[level.words, place])
        own = float(model.weights[bucket, tag, number])
        column = tag if level.tag else 0
        if not level.topic:
            yield own * float(table[row, column, 0]), number, None
            continue
        for topic in range(model.shape.topics):
            value = own * float(shares[topic]) * float(table[row, column, topic])
            yield value, number, topic
    levels = len(model.shape.levels)
    last = (
        float(tokens.given[place, tag]),
        float(tokens.given[place, -1]),
        1 / model.shape.symbols,
    )
    for number, value in enumerate(last, start=levels):
        yield float(model.weights[bucket, tag, number]) * value, number, None


def listed_counts(model: CompositeModel, documents: Tensor, tokens: TokenBatch) -> Expected:
    """The E step by listing every derivation with every choice of level and topic."""
    tables = tuple(torch.zeros_like(table) for table in model.tables)
    found = {
        "weights": torch.zeros_like(model.weights),
        "tags": torch.zeros(STATES, model.shape.tags, dtype=torch.float64),
        "rules": torch.zeros_like(model.rules),
        "start": torch.zeros_like(model.start),
        "documents": torch.zeros_like(documents),
    }
    value, first = 0.0, 0
    for size in tokens.lengths.tolist():
        places = range(first, first + size)
        first += size
        every = []
        for weight, rules, tags, start in _all_tags(model, size, tokens.derived):
            ways = [
                list(explanations(model, tokens, i, tag, documents[tokens.document[i]]))
                for i, tag in zip(places, tags, strict=True)
            ]
            for chosen in product(*ways):
                total = weight * math.prod(way[0] for way in chosen)
                every.append((total, rules, tags, start, chosen))
        whole = math.fsum(entry[0] for entry in every)
        value += math.log(whole)
        for total, rules, tags, start, chosen in every:
            share = total / whole
            for rule in rules:
                found["rules"][rule] += share
            if start is not None:
                found["start"][start] += share
            for i, tag, (_, number, topic) in zip(places, tags, chosen, strict=True):
                found["tags"][tokens.rows[0, i], tag] += share
                found["weights"][tokens.bucket[i], tag, number] += share
                if number < len(tables):
                    level = model.shape.levels[number]
                    row, column = tokens.rows[level.words, i], tag if level.tag else 0
                    tables[number][row, column, topic or 0] += share
                if topic is not None:
                    found["documents"][tokens.document[i], topic] += share
    return Expected(value, 0, tables, **found)


def _all_tags(
    model: CompositeModel, size: int, derived: bool
) -> Iterator[tuple[float, list[int], list[int], int | None]]:
    if derived:
        yield from derivations(model, size)
        return
    for tags in product(range(model.shape.tags), repeat=size):
        yield math.prod(float(model.tags[tag]) for tag in tags), [], list(tags), None


def held(model: CompositeModel, train: Sequence[TokenBatch]) -> Held[ShapedBatch]:
    """The batches as the E step takes them, in this process."""
    return Serial().hold(train, WithShape(model.shape))

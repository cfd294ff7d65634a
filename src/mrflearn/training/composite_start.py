"""Where EM begins for the composite model: topics from PLSA, preterminals from a guess by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.features.document_stream import DocumentStream
from mrflearn.models.composite_lm import CompositeModel, CompositeShape, maximise_tables
from mrflearn.models.hidden_backoff import Level, Tokens
from mrflearn.models.plsa import PLSA, document_counts
from mrflearn.objectives.expected_counts import Batch

Figures: TypeAlias = NDArray[np.float64]
PLSA_STEPS = 30
MOST_DOCUMENTS = 0.5  # the share of documents above which a word is no sign of a topic
UNIFORM = 0.1  # how much of another level's weight the uniform distribution begins with
OTHER_TAGS = 0.1  # times that a word is taken to have been seen with tags in their common shares


@final
@dataclass(frozen=True, eq=False)
class GrammarStart:
    """Logs of rules and of start symbols, and how likely each word has each preterminal."""

    rules: Float[Tensor, "r"]
    start: Float[Tensor, "s"]
    tag_of_word: Float[Tensor, "w a"]


def tag_shares_of_words(
    counts: Float[Tensor, "w a"], separator: int | None
) -> Float[Tensor, "w a"]:
    """How likely each word has each preterminal; nothing is ruled out, as texts are small.

    The separator, if one is named, is made by the grammar and has no preterminal at all.
    """
    common = counts.sum(dim=0) + 1e-9
    raised = counts + OTHER_TAGS * common / common.sum()
    shares = raised / raised.sum(dim=1, keepdim=True)
    if separator is not None:
        shares[separator] = 0
    return shares


def start_topics(text: DocumentStream, shape: CompositeShape, documents: int, seed: int) -> PLSA:
    """PLSA of the words that levels have to explain, after a few steps of EM.

    Words found in most documents tell topics apart least and would drown the others: they are
    left aside here, and begin with no topic in particular.
    """
    ends = shape.grammar is None
    mine = [np.flatnonzero(text.document == d) for d in range(documents)]
    words = [text.stream[1:][text.places(sentences, ends=ends)] for sentences in mine]
    counts = document_counts(words, shape.index.states)
    spread = np.bincount(counts.indices, minlength=shape.index.states)
    common = spread > MOST_DOCUMENTS * documents
    rare = counts.copy()
    rare.data = rare.data * ~common[rare.indices]
    rare.eliminate_zeros()
    topics = PLSA.random(documents, shape.index.states, shape.topics, seed)
    for _ in range(PLSA_STEPS if shape.topics > 1 else 1):
        _, topics = topics.step(rare)
    return PLSA(np.where(common[:, None], 1.0, topics.words), topics.documents)


def start_model(
    shape: CompositeShape,
    train: Sequence[Batch],
    topics: PLSA,
    grammar: GrammarStart,
    given: bool,
) -> CompositeModel:
    """Relative frequencies in every level, hidden things guessed from the word and the document.

    Every level that has something to say begins with the same weight.
    """
    counts = tuple(torch.zeros(shape.table_shape(l), dtype=torch.float64) for l in shape.levels)
    tags = torch.zeros(shape.tags, dtype=torch.float64)
    by_word, by_document = torch.from_numpy(topics.words), torch.from_numpy(topics.documents)
    for batch in train:
        words = batch.tokens.rows[0]
        tag = grammar.tag_of_word[words]
        topic = by_word[words] * by_document[batch.tokens.document]
        total = topic.sum(dim=1, keepdim=True)
        topic = torch.where(total > 0, topic / total, 1 / shape.topics)
        tags += tag.sum(dim=0)
        for level, table in zip(shape.levels, counts, strict=True):
            _count(level, table, batch.tokens, tag, topic)
    tables = maximise_tables(shape, counts, _fallbacks(shape, counts))
    weights = _equal_weights(shape, given)
    return CompositeModel(shape, tables, weights, tags / tags.sum(), grammar.rules, grammar.start)


def _count(
    level: Level,
    table: Float[Tensor, "k a h"],
    tokens: Tokens,
    tag: Float[Tensor, "t a"],
    topic: Float[Tensor, "t h"],
) -> None:
    """Adds tokens to the counts of a level, in place."""
    one = tag.new_ones(len(tag), 1)
    used = (tag if level.tag else one).unsqueeze(2) * (topic if level.topic else one).unsqueeze(1)
    table.index_add_(0, tokens.rows[level.words], used)


def _fallbacks(
    shape: CompositeShape, counts: tuple[Float[Tensor, "k a h"], ...]
) -> tuple[Float[Tensor, "k a h"], ...]:
    """What stands where a preterminal or topic was not seen: frequencies without regard to them.

    The rows at the end are for n-grams not seen (nothing) and contexts not seen (all words alike).
    """
    plain = tuple(table.sum(dim=(1, 2), keepdim=True) for table in counts)
    even = []
    for level, table in zip(shape.levels, plain, strict=True):
        context, contexts = shape.index.contexts(level.words + 1)
        followers = np.bincount(context, minlength=contexts)[context]
        filled = torch.zeros_like(table)
        filled[: len(context), 0, 0] = torch.from_numpy(1 / np.maximum(followers, 1))
        filled[-1] = 1 / shape.symbols
        even.append(filled)
    found = maximise_tables(shape, plain, tuple(even))
    return tuple(one.expand(own.shape) for one, own in zip(found, counts, strict=True))


def _equal_weights(shape: CompositeShape, given: bool) -> Float[Tensor, "b a l"]:
    """The same for every level that can differ from the others.

    With one preterminal there is nothing to be blind to, and an n-gram model alone is just itself.
    """
    shown = [True] * len(shape.levels)
    shown += [given, given and shape.tags > 1, bool(shape.levels) or not given]
    begun = torch.tensor(shown, dtype=torch.float64)
    begun[-1] *= UNIFORM if begun[:-1].any() else 1
    weights = begun.repeat(shape.buckets, shape.tags, 1)
    return weights / weights.sum(dim=2, keepdim=True)

"""What a composite model, an n-gram model and caches of the document make of each word together.

The derivation says which word comes next by the probabilities of beginnings of sentences (left
corners), so that its word can be weighed, one by one, against those of models that look at the
words before alone.  Each of these may be right where another is wrong; weights come from folds of
the text (see `models/token_mixture`), so that a part that knows nothing new costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngrams import Counts
from mrflearn.inference.charts import Prefix
from mrflearn.models.composite_lm import (
    CompositeModel,
    CompositeShape,
    Figures,
    Level,
    TokenBatch,
    explain,
)
from mrflearn.models.ngram import NgramLevel, bucket_count
from mrflearn.models.token_mixture import (
    CACHE_ORDER,
    HISTORIES,
    TIMES,
    CacheScores,
    TokenMixture,
    cache_names,
)

LONGER = 5  # the order of the n-gram model beside the composite's own
TOPIC_LEVEL = Level.read("h")


def longer_order(order: int) -> int:
    """The order of the n-gram model beside a composite model whose own has this one."""
    return max(order, LONGER) if order > 1 else 1


class Memory(NamedTuple):
    """An n-gram model of the whole text and the weights of all sources."""

    level: NgramLevel
    mixture: TokenMixture


class SourceScores(NamedTuple):
    """What each source makes of each token, (tokens, sources), and the class of what is before."""

    values: Figures
    classes: Counts


def source_names(shape: CompositeShape, order: int) -> tuple[str, ...]:
    """The composite model, an n-gram model, topics where they have a level, caches."""
    topics = ("topics",) if TOPIC_LEVEL in shape.levels and shape.topics > 1 else ()
    return "composite", "n-gram", *topics, *cache_names(order)


def class_sizes(order: int) -> tuple[int, int, int]:
    """How many classes there are of histories, of what caches know, of what n-grams know."""
    return HISTORIES, min(order, CACHE_ORDER) * TIMES, bucket_count(longer_order(order))


def join_sources(
    own: Figures,
    given: Figures,
    bucket: Counts,
    topics: Figures | None,
    caches: CacheScores,
    order: int,
) -> SourceScores:
    """The columns of `source_names`; where a derivation has no say (nan) the n-gram model has."""
    first = [np.where(np.isnan(own), given, own), given, *([] if topics is None else [topics])]
    histories, kinds, _ = class_sizes(order)
    classes = caches.classes + histories * kinds * bucket
    return SourceScores(np.column_stack([*first, caches.values]), classes)


@torch.no_grad()
def composite_words(
    model: CompositeModel, text: DocumentStream, ready: Sequence[TokenBatch], shares: Tensor
) -> tuple[Figures, Figures | None]:
    """p(token | those before) by the model, and by topics alone if they have a level of their own.

    Tokens are all of the text, ends too; those of sentences in no batch have nan.
    """
    shape, size = model.shape, len(text.stream) - 1
    own, prefix = np.full(size, np.nan), None
    place = shape.levels.index(TOPIC_LEVEL) if "topics" in source_names(shape, 1) else None
    topics = None if place is None else np.zeros(size)
    if shape.grammar is not None:
        prefix = Prefix.of(model.rules.double(), model.start.double(), shape.grammar)
    for batch in ready:
        tokens = batch.to(model)
        given = shares[tokens.document]
        scores = explain(model, tokens, given).scores
        if prefix is None:
            found = scores[:, 0]
        else:
            found = prefix.next_words(model.potentials(scores.double(), tokens.lengths))
        own[text.places(batch.sentences, ends=True)] = found.double().cpu().numpy()
        if topics is not None and place is not None:
            value = (model.tables[place][tokens.rows[0], 0] * given).sum(dim=1)
            topics[text.places(batch.sentences, ends=shape.ends)] = value.double().cpu().numpy()
    return own, topics

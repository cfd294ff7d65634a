"""What a composite model, an n-gram model and caches of the document make of each word together.

The derivation says which word comes next by the probabilities of beginnings of sentences (left
corners), so that its word can be weighed, one by one, against those of models that look at the
words before alone.  Each of these may be right where another is wrong; weights come from folds of
the text (see `models/token_mixture`), so that a part that knows nothing new costs next to nothing.
For the same reason a model of all parts has one without its grammar beside it: where a text is too
short to learn a grammar from, words and topics are not drawn into what it gets wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngrams import Counts
from mrflearn.inference.charts import Prefix
from mrflearn.io.corpus import Vocabulary
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
    CACHES,
    HISTORIES,
    TIMES,
    CacheScores,
    TokenMixture,
    cache_names,
)

if TYPE_CHECKING:
    from mrflearn.estimators.composite_training import CompositeFit

LONGER = 5  # the order of the n-gram model beside the composite's own
TOPIC_LEVEL, PLAIN = Level.read("h"), "without grammar"


def longer_order(order: int) -> int:
    """The order of the n-gram model beside a composite model whose own has this one."""
    return max(order, LONGER) if order > 1 else 1


class SourceScores(NamedTuple):
    """What each source makes of each token, the class of what is before, and the mixture of all."""

    columns: dict[str, Figures]
    classes: Counts
    mixed: Figures


class Memory(NamedTuple):
    """An n-gram model of the whole text, p(word) in it, and the weights of all sources.

    `plain` is the composite model without a grammar, where that is a source.
    """

    level: NgramLevel
    unigrams: Figures
    mixture: TokenMixture
    plain: CompositeFit | None

    @property
    def cached(self) -> bool:
        """Whether caches are among the sources."""
        return self.mixture.names[-1] in CACHES

    def mix(self, joined: tuple[Figures, Counts]) -> SourceScores:
        """The sources that `join_sources` gave, by name, and their mixture."""
        values, classes = joined
        columns = dict(zip(self.mixture.names, values.T, strict=True))
        return SourceScores(columns, classes, self.mixture.of(values, classes))


def source_names(shape: CompositeShape, order: int, *, cached: bool) -> tuple[str, ...]:
    """The composite model, its parts alone and without a grammar, an n-gram model, and caches."""
    grammar = ("grammar",) if shape.grammar is not None and order > 1 else ()
    topics = ("topics",) if TOPIC_LEVEL in shape.levels and shape.topics > 1 else ()
    plain = (PLAIN,) if grammar and shape.topics > 1 else ()
    caches = cache_names(order) if cached else ()
    return "composite", *grammar, *topics, *plain, "n-gram", *caches


def class_sizes(order: int, *, cached: bool) -> tuple[int, int, int]:
    """How many classes there are of histories, of what caches know, of what n-grams know."""
    known = min(order, CACHE_ORDER) * TIMES if cached else 1
    return HISTORIES, known, bucket_count(longer_order(order))


def join_sources(
    own: dict[str, Figures],
    given: Figures,
    bucket: Counts,
    caches: CacheScores,
    order: int,
    *,
    cached: bool,
) -> tuple[Figures, Counts]:
    """All sources, by `source_names`; where a derivation has no say (nan) `given` n-grams have."""
    first = [np.where(np.isnan(column), given, column) for column in own.values()]
    histories, known, _ = class_sizes(order, cached=cached)
    classes = caches.classes % (histories * known) + histories * known * bucket
    return np.column_stack([*first, given, *([caches.values] if cached else [])]), classes


def unigrams_of(stream: Counts, vocabulary: Vocabulary) -> Figures:
    """p(word) of a text, as an n-gram model of order 1 has it."""
    return np.exp(NgramLevel.learn(stream, 1, vocabulary).model.tables[0].log_probability)


def words_of_tags(tag_of_word: Figures, unigrams: Figures) -> Figures:
    """p(word | preterminal) by Bayes' rule, (words, preterminals); ends are no words."""
    joint = tag_of_word * unigrams[:, None]
    return np.asarray(joint / joint.sum(axis=0))


@torch.no_grad()
def own_sources(
    model: CompositeModel,
    text: DocumentStream,
    ready: Sequence[TokenBatch],
    shares: Tensor,
    words: Figures | None,
) -> dict[str, Figures]:
    """p(token | those before) by the composite model, by its grammar and by its topics alone.

    Tokens are all of the text, ends too; those of sentences in no batch have nan.  `words` is
    p(word | preterminal), None where the grammar alone is no source.
    """
    shape, size = model.shape, len(text.stream) - 1
    names = source_names(shape, 1 + (words is not None), cached=False)
    columns: dict[str, Figures] = {
        name: np.full(size, np.nan) for name in names if name in ("composite", "grammar", "topics")
    }
    prefix = None
    if shape.grammar is not None:
        prefix = Prefix.of(model.rules.double(), model.start.double(), shape.grammar)
    made = None if words is None else torch.from_numpy(words).to(shares.device)
    for batch in ready:
        tokens = batch.to(model)
        given, places = shares[tokens.document], text.places(batch.sentences, ends=True)
        scores = {"composite": explain(model, tokens, given).scores.double()}
        if made is not None and prefix is not None:
            scores["grammar"] = made[tokens.rows[0]]
        for name, score in scores.items():
            value = score[:, 0]
            if prefix is not None:
                value = prefix.next_words(model.potentials(score, tokens.lengths))
            columns[name][places] = value.cpu().numpy()
        if "topics" in columns:
            table = model.tables[shape.levels.index(TOPIC_LEVEL)]
            drawn = text.places(batch.sentences, ends=shape.ends)
            value = (table[tokens.rows[0], 0] * given).sum(dim=1).double()
            columns["topics"][places] = 0
            columns["topics"][drawn] = value.cpu().numpy()
    return columns

"""The E step of the composite model: how often everything is used, given the words.

[Wang 2005, section 3]: preterminal scores alpha_ii(A) for a whole batch, the chart, then the
expected counts of preterminals back to levels, entries of tables and topics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.chart import ChartPotentials
from mrflearn.inference.charts import inside_outside, log_partition
from mrflearn.models.composite_lm import (
    CompositeModel,
    Explained,
    HiddenTokens,
    Tables,
    expected_levels,
    explain,
)


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """Tokens of whole sentences; without `charted` they get no derivation, even with a grammar.

    Preterminals are then drawn one by one from their shares.  So are sentences too long for a chart
    in training: they teach words and topics, and nothing of the grammar.
    """

    tokens: HiddenTokens
    charted: bool


@final
@dataclass(frozen=True, eq=False)
class Expected:
    """Log-likelihood in nats and expected counts of everything; sums of them are sums of texts."""

    log_likelihood: float
    impossible: int  # sentences that the grammar cannot produce
    tables: Tables
    weights: Float[Tensor, "b a l"]
    tags: Float[Tensor, "w a"]  # each word with each preterminal
    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]
    documents: Float[Tensor, "d h"]

    def __add__(self, other: Expected) -> Expected:
        names = ("weights", "tags", "rules", "start", "documents")
        return Expected(
            self.log_likelihood + other.log_likelihood,
            self.impossible + other.impossible,
            tuple(a + b for a, b in zip(self.tables, other.tables, strict=True)),
            *(getattr(self, name) + getattr(other, name) for name in names),
        )

    def without(self, other: Expected) -> Expected:
        """The counts of the rest of a text, where `other` holds those of a part of it."""
        names = ("weights", "tags", "rules", "start", "documents")
        pairs = zip(self.tables, other.tables, strict=True)
        return Expected(
            self.log_likelihood - other.log_likelihood,
            self.impossible - other.impossible,
            tuple((a - b).clamp(min=0) for a, b in pairs),
            *((getattr(self, n) - getattr(other, n)).clamp(min=0) for n in names),
        )


@final
@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """A task for an executor: from a batch to its expected counts."""

    model: CompositeModel
    documents: Float[Tensor, "d h"]

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Expected:
        model, documents = self.model, self.documents
        tokens = batch.tokens.to(documents.device, documents.dtype)
        topics = documents[tokens.document]
        explained = explain_tokens(model, tokens, topics)
        own = torch.zeros_like
        if batch.charted and model.shape.grammar is not None:
            logs = explained.scores.log()
            found = inside_outside(
                ChartPotentials(model.shape.grammar, logs, tokens.lengths, model.rules, model.start)
            )
            possible = found.log_partition[found.log_partition > -torch.inf]
            value, impossible = float(possible.sum()), len(found.impossible)
            used, rules, start = found.words, found.rules, found.start
        else:
            joint = explained.scores * model.tags
            used = joint / joint.sum(dim=1, keepdim=True)
            value, impossible = float(joint.sum(dim=1).log().sum()), 0
            rules, start = own(model.rules), own(model.start)
        shape = model.shape
        counts = expected_levels(
            shape.levels, model.tables, tokens, topics, explained, used, shape.buckets
        )
        drawn = own(documents).index_add_(0, tokens.document, counts.topics)
        words = shape.index.states
        tags = used.new_zeros(words, shape.tags).index_add_(0, tokens.rows[0], used)
        return Expected(value, impossible, counts.tables, counts.weights, tags, rules, start, drawn)


def explain_tokens(
    model: CompositeModel, tokens: HiddenTokens, topics: Float[Tensor, "t h"]
) -> Explained:
    """What the levels of a model make of tokens."""
    shape = model.shape
    return explain(shape.levels, model.tables, model.weights, 1 / shape.symbols, tokens, topics)


@torch.no_grad()
def sentence_log_likelihoods(
    model: CompositeModel, batch: Batch, documents: Float[Tensor, "d h"]
) -> Float[Tensor, " s"]:
    """log p of each sentence of a batch, its end included, in nats."""
    tokens = batch.tokens.to(documents.device, documents.dtype)
    scores = explain_tokens(model, tokens, documents[tokens.document]).scores
    if batch.charted and model.shape.grammar is not None:
        return log_partition(
            ChartPotentials(
                model.shape.grammar, scores.log(), tokens.lengths, model.rules, model.start
            )
        )
    each = (scores @ model.tags).log()
    sentence = torch.repeat_interleave(tokens.lengths.to(each.device))
    return each.new_zeros(len(tokens.lengths)).index_add_(0, sentence, each)

"""EM of the composite model: expected counts given the words, and the model that they make.

[Wang 2005, section 3]: preterminal scores alpha_ii(A) for a batch, the chart, then the
expected counts of preterminals back to levels, entries of tables and topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.execution.held import Held
from mrflearn.inference.charts import inside_outside, log_partition
from mrflearn.models.composite_lm import (
    CompositeModel,
    CompositeShape,
    Tables,
    TokenBatch,
    expected_levels,
    explain,
    maximise_tables,
    shares_by_group,
)

Documents = Float[Tensor, "d h"]  # the topic shares of each
ShapedBatch: TypeAlias = tuple[CompositeShape, TokenBatch]


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
    documents: Documents

    def __add__(self, other: Expected) -> Expected:
        names = ("log_likelihood", "impossible", "weights", "tags", "rules", "start", "documents")
        return Expected(
            tables=tuple(a + b for a, b in zip(self.tables, other.tables, strict=True)),
            **{name: getattr(self, name) + getattr(other, name) for name in names},
        )


def counts_of_others(counts: Sequence[Expected], place: int) -> Expected:
    """The counts of all parts of a text but one, summed; zero where there is no other."""
    others = [found for k, found in enumerate(counts) if k != place]
    if others:
        return sum(others[1:], others[0])
    zero = {name: torch.zeros_like(x) for name, x in vars(counts[0]).items() if torch.is_tensor(x)}
    tables = tuple(map(torch.zeros_like, counts[0].tables))
    return replace(counts[0], log_likelihood=0.0, impossible=0, tables=tables, **zero)


@final
@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """The E step of a batch: a task for an executor."""

    model: CompositeModel
    documents: Documents

    @torch.no_grad()
    def __call__(self, batch: TokenBatch) -> Expected:
        model, documents = self.model, self.documents
        tokens = batch.to(model)
        topics = documents[tokens.document]
        explained = explain(model, tokens, topics)
        if batch.derived:
            found = inside_outside(model.potentials(explained.scores, tokens.lengths))
            possible = found.log_partition[found.log_partition > -torch.inf]
            value, impossible = float(possible.sum()), len(found.impossible)
            used, rules, start = found.words, found.rules, found.start
        else:
            joint = explained.scores * model.tags
            used = joint / joint.sum(dim=1, keepdim=True)
            value, impossible = float(joint.sum(dim=1).log().sum()), 0
            rules, start = torch.zeros_like(model.rules), torch.zeros_like(model.start)
        tables, weights, drawn = expected_levels(model, tokens, topics, explained, used)
        shares = torch.zeros_like(documents).index_add_(0, tokens.document, drawn)
        tags = used.new_zeros(model.shape.index.states, model.shape.tags)
        tags.index_add_(0, tokens.rows[0], used)
        return Expected(value, impossible, tables, weights, tags, rules, start, shares)


@final
@dataclass(frozen=True, eq=False)
class WithShape:
    """A batch and what never changes of the model beside it: n-grams and wiring of the grammar."""

    shape: CompositeShape

    def __call__(self, batch: TokenBatch) -> ShapedBatch:
        return self.shape, batch


@final
@dataclass(frozen=True, eq=False)
class _Expect:
    """The E step of a batch that an executor holds: only numbers are sent."""

    numbers: dict[str, Tensor]
    documents: Documents

    def __call__(self, part: ShapedBatch) -> Expected:
        shape, batch = part
        return ExpectedCounts(CompositeModel.of(shape, self.numbers), self.documents)(batch)


def expect(model: CompositeModel, documents: Documents, text: Held[ShapedBatch]) -> Expected:
    """The E step: expected counts over all batches; an error where a sentence is impossible."""
    found: Expected = text.total(_Expect(model.tensors(), documents))
    if found.impossible:
        raise TrainingError(
            f"{found.impossible} sentences cannot be produced by the grammar at all: no derivation "
            "has their length. Give it rules for them, or start from a latent grammar, which has "
            "every rule."
        )
    return found


def maximise(model: CompositeModel, found: Expected) -> CompositeModel:
    """The M step [Wang 2005, eq. 4]: normalised expected counts for words and rules."""
    shape = model.shape
    tables = maximise_tables(shape, found.tables, model.tables)
    rules, start = model.rules, model.start
    if shape.grammar is not None:
        parent, phrases = shape.grammar.parent, shape.grammar.phrases
        rules = shares_by_group(found.rules, parent, phrases, rules.exp()).log()
        total = found.start.sum()
        start = (found.start / total).log() if total > 0 else start
    return replace(model, tables=tables, rules=rules, start=start)


@final
@dataclass(frozen=True, eq=False)
class RulePrior:
    """Uses of rules and start symbols that a grammar is taken to have seen before the text.

    A Dirichlet prior: beside an n-gram model words say little of trees, and EM alone would forget
    what a treebank said of them.
    """

    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]

    @classmethod
    def around(cls, model: CompositeModel, uses: float) -> RulePrior:
        """So many uses of each phrase, and as many sentences, by the rules of a model."""
        return cls(uses * model.rules.exp(), uses * model.start.exp())

    def added(self, found: Expected) -> Expected:
        """The counts with these uses."""
        return replace(found, rules=found.rules + self.rules, start=found.start + self.start)

    def log_density(self, model: CompositeModel) -> float:
        """The logarithm of the prior of a model's rules, up to a constant."""
        pairs = ((self.rules, model.rules), (self.start, model.start))
        return sum(float((uses * logs)[uses > 0].sum()) for uses, logs in pairs)


@torch.no_grad()
def sentence_log_likelihoods(
    model: CompositeModel, batch: TokenBatch, documents: Documents
) -> Float[Tensor, " s"]:
    """log p of each sentence of a batch, its end included, in nats."""
    tokens = batch.to(model)
    scores = explain(model, tokens, documents[tokens.document]).scores
    if batch.derived:
        return log_partition(model.potentials(scores, tokens.lengths))
    each = (scores @ model.tags).log()
    sentence = torch.repeat_interleave(tokens.lengths.to(each.device))
    return each.new_zeros(len(tokens.lengths)).index_add_(0, sentence, each)

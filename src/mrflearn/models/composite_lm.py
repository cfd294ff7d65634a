"""Composite language models: n-gram, grammar and topics with hidden back-off.

theta(uvAh -> w) = sum_l lambda(b, A, l) theta_l(what level l sees of uvAh -> w)

A level sees the last words, the preterminal A and the topic h, or some of them; three more levels
are given, not learned: an n-gram model that is told A, the same one blind to A, and the uniform
distribution.  Which level a word came from is hidden, so that EM learns through the smoothing and
never falls.  The weights lambda depend
on A and on a bucket b of how well the words before are known.  Tables hold a row for
each n-gram that was seen and no other; see `NgramIndex` for the two rows at their end.

Letters in shapes: t: tokens; a: preterminals; h: topics; k: rows of a table; b: buckets;
l: levels, the given ones last.  A level that does not see A or h has 1 in that place.

A document draws nothing but its topic shares theta(d -> h).  A sentence is a derivation of the
grammar, theta(A -> B C), down to preterminals; each preterminal A then makes a word out of the
words before it, itself and a topic, theta(u v A h -> w); see `hidden_backoff`.

Sentence ends are counted alike whatever is switched off: every variant is a distribution over
sentences of any length that sums to 1.  With a grammar the derivation says where a sentence ends,
and words are given that it goes on; without one the end is the last word, made as the others are.

p(w | d) = sum_h theta(d -> h) theta(h -> w).  Only the non-zero counts are visited: with
r = n(d, w) / p(w | d) there, the expected counts are theta(d -> h) sum_w r theta(h -> w) and
theta(h -> w) sum_d r theta(d -> h), products of a sparse matrix with narrow dense ones.

Before each sentence the shares are those that the sentences *before* it make most probable, after
a Dirichlet prior around the shares of the training text.  So no sentence is scored with the help
of its own words, and the scores of a document's sentences multiply to a probability of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.features.ngrams import NgramIndex
from mrflearn.graph.chart import ChartPotentials
from mrflearn.kernels.rules import RuleShape

# theta(u v A h -> w) as a mixture over hidden back-off levels, for many words at once.


LETTERS = "qrstuv"
GIVEN = 3  # levels that are not learned
Tables: TypeAlias = tuple[Float[Tensor, "k a h"], ...]


@final
@dataclass(frozen=True)
class Level:
    """What a level sees: so many words before, the preterminal, the topic.  `str()`: "uvAh"."""

    words: int
    tag: bool
    topic: bool

    @classmethod
    def read(cls, name: str) -> Level:
        """The level called so: the last letters of "uv", then A, then h, each if it sees them."""
        found = re.fullmatch(f"([{LETTERS}]*)(A?)(h?)", name)
        if found is None or not LETTERS.endswith(found[1]):
            raise SettingsError(
                f"no level is called {name!r}; a name is v or uv for the words before, A for the "
                "preterminal and h for the topic, such as 'vAh', 'Ah', 'h' or ''."
            )
        return cls(len(found[1]), bool(found[2]), bool(found[3]))

    def __str__(self) -> str:
        words = LETTERS[len(LETTERS) - self.words :]
        return f"{words}{'A' if self.tag else ''}{'h' if self.topic else ''}"


@final
@dataclass(frozen=True, eq=False)
class HiddenTokens:
    """Words to be explained: their rows in the tables of each order, buckets, documents.

    `given` is what the n-gram model makes of each preterminal there, `blind` what it makes of the
    words before alone, and `lengths` says how many tokens each sentence has.
    """

    rows: Int[Tensor, "o t"]
    bucket: Int[Tensor, " t"]
    document: Int[Tensor, " t"]
    given: Float[Tensor, "t a"]
    blind: Float[Tensor, " t"]
    lengths: Int[Tensor, " s"]

    def __len__(self) -> int:
        return len(self.bucket)

    def to(self, device: torch.device, kind: torch.dtype) -> HiddenTokens:
        """The same on a device, probabilities as numbers of a kind."""
        rows, bucket, document = (x.to(device) for x in (self.rows, self.bucket, self.document))
        given, blind = (x.to(device, kind) for x in (self.given, self.blind))
        return HiddenTokens(rows, bucket, document, given, blind, self.lengths)


@final
@dataclass(frozen=True, eq=False)
class Explained:
    """What each level makes of each token: `values`, weighed; `scores`, their sum over levels."""

    values: tuple[Float[Tensor, "t a h"], ...]  # of the learned levels, before weighing
    means: Float[Tensor, "t a l"]  # of all levels, topics summed out
    weights: Float[Tensor, "t a l"]
    scores: Float[Tensor, "t a"]


def shares_by_group(
    counts: Float[Tensor, "n ..."], group: Int[Tensor, " n"], groups: int, before: Tensor
) -> Float[Tensor, "n ..."]:
    """Counts divided by the sums over their groups; in a group never used, what was before."""
    total = counts.new_zeros(groups, *counts.shape[1:]).index_add_(0, group, counts)[group]
    return torch.where(total > 0, counts / torch.where(total > 0, total, 1.0), before)


def normalised_weights(
    counts: Float[Tensor, "b a l"], centre: Float[Tensor, "b a l"], prior: float, tied: bool
) -> Float[Tensor, "b a l"]:
    """Counts of levels as weights, after a Dirichlet prior of this strength around `centre`.

    Tied, they are the same for all preterminals.  A level without weight in the centre has none.
    """
    raised = counts + prior * centre
    if tied:
        raised = raised.sum(dim=1, keepdim=True).expand_as(counts)
    return raised / raised.sum(dim=2, keepdim=True)


def common_weights(counts: Float[Tensor, "b a l"], prior: float) -> Float[Tensor, "b a l"]:
    """The weights of a bucket's levels, the same for all preterminals.

    Buckets lean on the weights over all of them, as preterminals are to lean on these.
    """
    everywhere, here = counts.sum(dim=(0, 1), keepdim=True), counts.sum(dim=1, keepdim=True)
    raised = here + prior * everywhere / everywhere.sum()
    return (raised / raised.sum(dim=2, keepdim=True)).expand_as(counts)


# The composite language model [Wang 2005]: n-gram, grammar and topics in one directed field.


RULE_COLUMNS = ("parent", "left", "right")


@final
@dataclass(frozen=True, eq=False)
class CompositeShape:
    """What training does not change: levels, the wiring of the grammar, sizes."""

    levels: tuple[Level, ...]
    index: NgramIndex
    grammar: RuleShape | None  # None: one preterminal, and no derivations
    topics: int
    buckets: int

    @property
    def tags(self) -> int:
        """The number of preterminals."""
        return 1 if self.grammar is None else self.grammar.preterminals

    @property
    def symbols(self) -> int:
        """How many words a preterminal can make: without a grammar the sentence end is one."""
        return self.index.states - (self.grammar is not None)

    def table_shape(self, level: Level) -> tuple[int, int, int]:
        """Rows (two more than n-grams), preterminals and topics of a level's table."""
        rows = self.index.size(level.words + 1) + 2
        return rows, self.tags if level.tag else 1, self.topics if level.topic else 1


@final
@dataclass(frozen=True, eq=False)
class CompositeModel:
    """A shape and its numbers: probabilities of words, weights of levels, logs of rules."""

    shape: CompositeShape
    tables: Tables
    weights: Float[Tensor, "b a l"]
    tags: Float[Tensor, " a"]  # shares of preterminals, for sentences that get no derivation
    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training moves, by name."""
        tables = {f"table.{level or '-'}": t for level, t in self._named_tables()}
        names = ("weights", "tags", "rules", "start")
        return tables | {name: getattr(self, name) for name in names}

    def with_tensors(self, tensors: dict[str, Tensor]) -> CompositeModel:
        """The same shape with other numbers."""
        tables = tuple(tensors[f"table.{level or '-'}"] for level, _ in self._named_tables())
        numbers = [tensors[name] for name in ("weights", "tags", "rules", "start")]
        return CompositeModel(self.shape, tables, *numbers)

    def to(self, device: torch.device) -> CompositeModel:
        """The same on a device."""
        moved = {name: value.to(device) for name, value in self.tensors().items()}
        wiring = self.shape.grammar
        wiring = None if wiring is None else wiring.to(device)
        return replace(self, shape=replace(self.shape, grammar=wiring)).with_tensors(moved)

    def potentials(
        self, scores: Float[Tensor, "t a"], lengths: Int[Tensor, " s"]
    ) -> ChartPotentials:
        """The grammar's scores with p(token | preterminal) of sentences end to end."""
        assert self.shape.grammar is not None  # noqa: S101 - without one there are no charts
        return ChartPotentials(self.shape.grammar, scores.log(), lengths, self.rules, self.start)

    def _named_tables(self) -> list[tuple[str, Tensor]]:
        return [(str(level), t) for level, t in zip(self.shape.levels, self.tables, strict=True)]


def explain(model: CompositeModel, tokens: HiddenTokens, topics: Float[Tensor, "t h"]) -> Explained:
    """p(token | preterminal), topics summed out [Wang 2005, section 3, alpha_ii], and its parts."""
    shape, values, means = model.shape, [], []
    for level, table in zip(shape.levels, model.tables, strict=True):
        value = table[tokens.rows[level.words]]
        mean = (value * topics.unsqueeze(1)).sum(dim=2) if level.topic else value[:, :, 0]
        values.append(value)
        means.append(mean.expand(-1, shape.tags))
    means += [tokens.given, tokens.blind.unsqueeze(1).expand(-1, shape.tags)]
    means.append(torch.full_like(tokens.given, 1 / shape.symbols))
    stacked, weighed = torch.stack(means, dim=2), model.weights[tokens.bucket]
    return Explained(tuple(values), stacked, weighed, (stacked * weighed).sum(dim=2))


def expected_levels(
    model: CompositeModel,
    tokens: HiddenTokens,
    topics: Float[Tensor, "t h"],
    explained: Explained,
    tags: Float[Tensor, "t a"],
) -> tuple[Tables, Float[Tensor, "b a l"], Float[Tensor, "t h"]]:
    """How often each entry, level (by bucket) and topic (by token) was used.

    `tags` are the expected preterminals.

    A topic is drawn only where the level looks at it, which changes no probability of words and
    leaves less hidden: EM is quicker than if every token drew one.
    """
    share = tags / torch.where(explained.scores > 0, explained.scores, 1.0)
    drawn = torch.zeros_like(topics)
    counts = []
    for place, (level, table) in enumerate(zip(model.shape.levels, model.tables, strict=True)):
        used = share * explained.weights[:, :, place]
        used = used if level.tag else used.sum(dim=1, keepdim=True)
        used = used.unsqueeze(2) * explained.values[place]
        if level.topic:
            used = used * topics.unsqueeze(1)
            drawn += used.sum(dim=1)
        counts.append(torch.zeros_like(table).index_add_(0, tokens.rows[level.words], used))
    each = share.unsqueeze(2) * explained.weights * explained.means
    weights = torch.zeros_like(model.weights).index_add_(0, tokens.bucket, each)
    return tuple(counts), weights, drawn


def maximise_tables(shape: CompositeShape, counts: Tables, before: Tables) -> Tables:
    """theta_l(context -> w) from expected counts [Wang 2005, eq. 4]; the rows at the end stay."""
    result = []
    for level, own, old in zip(shape.levels, counts, before, strict=True):
        context, contexts = shape.index.contexts(level.words + 1)
        where, size = torch.from_numpy(context).to(own.device), len(context)
        new = shares_by_group(own[:size], where, contexts, old[:size])
        result.append(torch.cat([new, old[size:]]))
    return tuple(result)


# Probabilistic latent semantic analysis [Hofmann 2001]: documents as mixtures of topics.


Figures: TypeAlias = NDArray[np.float64]
TINY = float(np.finfo(np.float64).tiny)


@final
@dataclass(frozen=True, eq=False)
class PLSA:
    """theta(h -> w), one row a word, and theta(d -> h), one row a document."""

    words: Figures  # (words, topics); every column sums to 1
    documents: Figures  # (documents, topics); every row sums to 1

    @classmethod
    def random(cls, documents: int, words: int, topics: int, seed: int) -> PLSA:
        """A start without symmetries: uniform numbers, normalised."""
        generator = np.random.default_rng(seed)
        # Far from zero, so that no topic is out of a word's reach from the beginning.
        drawn = generator.uniform(0.5, 1.5, (words, topics))
        shares = generator.uniform(0.5, 1.5, (documents, topics))
        return cls(drawn / drawn.sum(axis=0), shares / shares.sum(axis=1, keepdims=True))

    def step(self, counts: csr_array) -> tuple[float, PLSA]:
        """The log-likelihood, and the parameters after one EM step."""
        ratio, documents, value = _expect(self.documents, self.words, counts)
        words = self.words * (ratio.T @ self.documents)
        return value, PLSA(
            _normalised(words, 0, self.words), _normalised(documents, 1, self.documents)
        )


def document_counts(documents: list[NDArray[np.int64]], words: int) -> csr_array:
    """The sparse (documents, words) matrix of how often each word occurs in each document."""
    for number, ids in enumerate(documents, start=1):
        if len(ids) and not 0 <= ids.min() <= ids.max() < words:
            raise DataError(f"document {number} has a word number outside 0 to {words - 1}.")
    found = [np.unique(ids, return_counts=True) for ids in documents]
    indices = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in found)])
    data = np.concatenate([np.zeros(0), *(times for _, times in found)]).astype(np.float64)
    starts = np.cumsum([0, *(len(ids) for ids, _ in found)])
    return csr_array((data, indices, starts), shape=(len(documents), words))


def _expect(
    documents: Figures, words: Figures, counts: csr_array
) -> tuple[csr_array, Figures, float]:
    """(n(d, w) / p(w | d), expected counts of topics in documents, log-likelihood).

    One document at a time: its rows of `words`, gathered once, stay in the cache for both products.
    """
    ratio, topics, value = np.empty(counts.nnz), np.empty_like(documents), 0.0
    starts = counts.indptr.tolist()
    for d, (first, last) in enumerate(pairwise(starts)):
        seen, times = words[counts.indices[first:last]], counts.data[first:last]
        mixed = seen @ documents[d]
        with np.errstate(divide="ignore"):
            value += float(times @ np.log(mixed))
        share = times / np.maximum(mixed, TINY)
        topics[d] = documents[d] * (share @ seen)
        ratio[first:last] = share
    return csr_array((ratio, counts.indices, counts.indptr), shape=counts.shape), topics, value


def _normalised(values: Figures, axis: int, before: Figures) -> Figures:
    """Values that sum to 1 along an axis; where there are none, what was there before."""
    total = values.sum(axis=axis, keepdims=True)
    return np.where(total > 0, values / np.where(total > 0, total, 1), before)


# Topic shares of unseen documents: folding in, sentence by sentence.


GROWTH = 1 / 32  # of a text, after which all its expected draws are found again


def shares_before_each(
    by_topic: Figures,
    otherwise: Figures,
    ends: NDArray[np.int64],
    prior: Figures,
    strength: float,
    steps: int = 5,
) -> Iterator[Figures]:
    """The topic shares before each sentence of one document, and a last row after all of them.

    by_topic: (tokens, topics), what each topic gives a token; otherwise: what it has from levels
    that look at no topic; ends: where each sentence ends among the tokens.

    Incremental EM [Neal and Hinton 1998]: the expected draws of a sentence are kept once it is
    read, and found again when the text has grown by a 32nd part.  So a short document's steps are
    over all of it, and a long one's take time in proportion to its length.
    """
    shares, kept, begin, whole = prior, np.zeros_like(prior), 0, 0
    yield shares
    for end in ends.tolist():
        if end >= (1 + GROWTH) * whole:
            kept, begin, whole = np.zeros_like(prior), 0, end
        drawn = kept
        for _ in range(steps):
            drawn = kept + expected_draws(by_topic[begin:end], otherwise[begin:end], shares)
            raised = drawn + strength * prior
            total = raised.sum()
            shares = raised / total if total > 0 else prior
        kept, begin = drawn, end
        yield shares


def expected_draws(by_topic: Figures, otherwise: Figures, shares: Figures) -> Figures:
    """How often tokens are expected to have drawn each topic; one that nothing gives draws none."""
    total = otherwise + by_topic @ shares
    inverse = np.divide(1, total, out=np.zeros_like(total), where=total > 0)
    return np.asarray(shares * (inverse @ by_topic))

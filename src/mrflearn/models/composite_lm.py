"""Composite language models: n-gram, grammar and topics with hidden back-off.

theta(uvAh -> w) = sum_l lambda(b, A, l) theta_l(what level l sees of uvAh -> w)

A level sees the last words, the preterminal A and the topic h, or some of them; three more levels
are given, not learned: an n-gram model that knows A, the same one blind to A, and the uniform
distribution.  Which level a word came from is hidden, so that EM learns through the smoothing and
never falls.  The weights lambda depend on A and on a bucket b of how well the words before are
known.  Tables hold a row for each n-gram that was seen and no other; see `NgramIndex` for the two
rows at their end.

Letters in shapes: t: tokens; a: preterminals; h: topics; k: rows of a table; b: buckets;
l: levels, the given ones last.  A level that does not see A or h has 1 in that place.

A document draws nothing but its topic shares theta(d -> h).  A sentence is a derivation of the
grammar, theta(A -> B C), down to preterminals; each preterminal A then makes a word out of the
words before it, itself and a topic, theta(u v A h -> w).

Sentence ends are counted in the same way whatever is switched off: every variant is a distribution
over sentences of any length that sums to 1.  With a grammar the derivation says where a sentence
ends, and words are given that it goes on; without one the end is the last word, made as the others
are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.features.document_stream import DocumentStream
from mrflearn.features.ngrams import Counts, NgramIndex
from mrflearn.graph.chart import ChartPotentials
from mrflearn.io.corpus import Vocabulary
from mrflearn.kernels.rules import RuleShape
from mrflearn.models.ngram import NgramLevel, with_blind

# theta(u v A h -> w) as a mixture over hidden back-off levels, for many words at once.


LevelWeights = Float[Tensor, "b a l"]  # by bucket and preterminal
TopicShares = Float[Tensor, "t h"]  # by token
LETTERS = "qrstuv"
GIVEN = 3  # levels that are not learned
TOKENS_PER_BATCH = 8192
PLACES = ("rows", "bucket", "document")  # of tokens, in a batch
Figures: TypeAlias = NDArray[np.float64]
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
class TokenBatch:
    """Tokens of complete sentences: their rows in the tables of each order, buckets, documents.

    Sentences without a derivation, such as those too long for a chart in training, draw their
    preterminals one by one: they teach words and topics, and nothing of the grammar.
    """

    derived: bool
    sentences: Counts  # their numbers in the text
    lengths: Int[Tensor, " s"]  # how many tokens each has
    rows: Int[Tensor, "o t"]
    bucket: Int[Tensor, " t"]
    document: Int[Tensor, " t"]  # whose topic shares a token has
    given: Float[Tensor, "t a+1"]  # see `NgramScores`

    def to(self, model: CompositeModel) -> TokenBatch:
        """The same on the device of a model, probabilities in its numbers."""
        moved = {name: getattr(self, name).to(model.tags.device) for name in PLACES}
        return replace(self, given=self.given.to(model.weights), **moved)


class Explained(NamedTuple):
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
    counts: LevelWeights, centre: LevelWeights, prior: float, tied: bool
) -> LevelWeights:
    """Counts of levels as weights, after a Dirichlet prior of this strength around `centre`.

    Tied, they are the same for all preterminals.  A level without weight in the centre has none.
    """
    raised = counts + prior * centre
    if tied:
        raised = raised.sum(dim=1, keepdim=True).expand_as(counts)
    return raised / raised.sum(dim=2, keepdim=True)


def common_weights(counts: LevelWeights, prior: float) -> LevelWeights:
    """The weights of a bucket's levels, the same for all preterminals.

    Buckets lean on the weights over all of them, as preterminals are to lean on these.
    """
    everywhere, here = counts.sum(dim=(0, 1), keepdim=True), counts.sum(dim=1, keepdim=True)
    raised = here + prior * everywhere / everywhere.sum()
    return (raised / raised.sum(dim=2, keepdim=True)).expand_as(counts)


# The composite language model [Wang 2005]: n-gram, grammar and topics in one directed field.


NUMBERS = ("weights", "tags", "rules", "start")


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
    def ends(self) -> bool:
        """Whether the sentence end is a word, as it is without a grammar."""
        return self.grammar is None

    @property
    def symbols(self) -> int:
        """How many words a preterminal can make."""
        return self.index.states - 1 + self.ends

    @property
    def table_names(self) -> list[str]:
        """What the tables of the levels are called among a model's tensors."""
        return [f"table.{str(level) or '-'}" for level in self.levels]

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
    weights: LevelWeights
    tags: Float[Tensor, " a"]  # shares of preterminals, for sentences that get no derivation
    rules: Float[Tensor, " r"]
    start: Float[Tensor, " s"]

    @classmethod
    def of(cls, shape: CompositeShape, tensors: dict[str, Tensor]) -> CompositeModel:
        """The model of a shape with these numbers."""
        tables = tuple(tensors[name] for name in shape.table_names)
        return cls(shape, tables, *(tensors[name] for name in NUMBERS))

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training moves, by name."""
        tables = dict(zip(self.shape.table_names, self.tables, strict=True))
        return tables | {name: getattr(self, name) for name in NUMBERS}

    def to(self, device: torch.device, kind: torch.dtype) -> CompositeModel:
        """The same on a device, in numbers of a kind."""
        moved = {name: value.to(device, kind) for name, value in self.tensors().items()}
        wiring = None if self.shape.grammar is None else self.shape.grammar.to(device)
        return CompositeModel.of(replace(self.shape, grammar=wiring), moved)

    def potentials(
        self, scores: Float[Tensor, "t a"], lengths: Int[Tensor, " s"]
    ) -> ChartPotentials:
        """The grammar's scores with p(token | preterminal) of sentences end to end."""
        assert self.shape.grammar is not None  # noqa: S101 - without one there are no charts
        return ChartPotentials(self.shape.grammar, scores.log(), lengths, self.rules, self.start)


def explain(model: CompositeModel, tokens: TokenBatch, topics: TopicShares) -> Explained:
    """p(token | preterminal), topics summed out [Wang 2005, section 3, alpha_ii], and its parts."""
    shape, values, means = model.shape, [], []
    for level, table in zip(shape.levels, model.tables, strict=True):
        value = table[tokens.rows[level.words]]
        mean = (value * topics.unsqueeze(1)).sum(dim=2) if level.topic else value[:, :, 0]
        values.append(value)
        means.append(mean.expand(-1, shape.tags))
    given, blind = tokens.given[:, :-1], tokens.given[:, -1:].expand(-1, shape.tags)
    means += [given, blind, torch.full_like(given, 1 / shape.symbols)]
    stacked, weighed = torch.stack(means, dim=2), model.weights[tokens.bucket]
    return Explained(tuple(values), stacked, weighed, (stacked * weighed).sum(dim=2))


def expected_levels(
    model: CompositeModel,
    tokens: TokenBatch,
    topics: TopicShares,
    explained: Explained,
    tags: Float[Tensor, "t a"],
) -> tuple[Tables, LevelWeights, TopicShares]:
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


# Documents made ready for the composite model: batches of sentences of about one length.


def stream_of(
    documents: Sequence[Sequence[Sequence[str]]], vocabulary: Vocabulary
) -> DocumentStream:
    """Documents of sentences of words as one stream of numbers."""
    encoded = [[vocabulary.encode(words) for words in sentences] for sentences in documents]
    return DocumentStream.of(encoded, vocabulary.separator)


class NgramScores(NamedTuple):
    """What an n-gram model makes of each token of a text; zeros without one.

    `given` is p(token | words before, preterminal), and p(token | words before) in a last column;
    where a grammar makes the ends, among words.
    """

    given: Float[np.ndarray, "t a+1"]
    bucket: Counts


def ngram_scores(
    text: DocumentStream, level: NgramLevel | None, tag_of_word: Figures
) -> NgramScores:
    """What an n-gram model, if there is one, makes of each token of a text."""
    size, tags = len(text.stream) - 1, tag_of_word.shape[1]
    if level is None:
        return NgramScores(np.zeros((size, tags + 1)), np.zeros(size, np.int64))
    given = level.tagged(text.stream, with_blind(tag_of_word))
    return NgramScores(given, level.buckets(text.stream))


def batches(
    text: DocumentStream,
    scores: NgramScores,
    shape: CompositeShape,
    longest: int | None = None,
    *,
    by_sentence: bool = False,
) -> list[TokenBatch]:
    """All sentences, those with a derivation first, the short before the long.

    Sentences of more than `longest` words get no derivation.  Topic shares are those of a
    sentence's document, or its own.
    """
    owner = np.arange(len(text)) if by_sentence else text.document
    rows, order = shape.index.rows(text.stream), np.argsort(text.length, kind="stable")
    short = (text.length <= (np.inf if longest is None else longest)) & (shape.grammar is not None)
    found = []
    for derived in (True, False):
        mine = order[short[order] == derived]
        if not len(mine):
            continue
        cuts = np.flatnonzero(np.diff(np.cumsum(text.length[mine]) // TOKENS_PER_BATCH)) + 1
        for sentences in np.split(mine, cuts):
            places, sizes = text.places(sentences, ends=shape.ends), text.length[sentences]
            sizes = sizes + shape.ends
            columns = (
                sizes,
                rows[:, places],
                scores.bucket[places],
                np.repeat(owner[sentences], sizes),
                scores.given[places],
            )
            found.append(TokenBatch(derived, sentences, *map(torch.from_numpy, columns)))
    return found

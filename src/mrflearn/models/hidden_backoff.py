"""theta(u v A h -> w) as a mixture over hidden back-off levels, for many words at once.

theta(uvAh -> w) = sum_l lambda(b, A, l) theta_l(what level l sees of uvAh -> w)

A level sees the last words, the preterminal A and the topic h, or some of them; three more levels
are given, not learned: an n-gram model that is told A, the same one blind to A, and the uniform
distribution.  Which level a word came from is hidden, so that EM learns through the smoothing and
never falls.  The weights lambda depend
on A and on a bucket b of how well the words before are known.  Tables hold a row for
each n-gram that was seen and no other; see `NgramIndex` for the two rows at their end.

Letters in shapes: t: tokens; a: preterminals; h: topics; k: rows of a table; b: buckets;
l: levels, the given ones last.  A level that does not see A or h has 1 in that place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import SettingsError

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
class Tokens:
    """Words to be explained: their rows in the tables of each order, buckets, documents.

    `given` is what the n-gram model makes of each preterminal there, `blind` what it makes of the
    words before alone, and `lengths` says how many tokens each sentence has.
    """

    rows: Int[Tensor, "o t"]
    bucket: Int[Tensor, "t"]
    document: Int[Tensor, "t"]
    given: Float[Tensor, "t a"]
    blind: Float[Tensor, "t"]
    lengths: Int[Tensor, "s"]

    def __len__(self) -> int:
        return len(self.bucket)

    def to(self, device: torch.device, kind: torch.dtype) -> Tokens:
        """The same on a device, probabilities as numbers of a kind."""
        rows, bucket, document = (x.to(device) for x in (self.rows, self.bucket, self.document))
        given, blind = (x.to(device, kind) for x in (self.given, self.blind))
        return Tokens(rows, bucket, document, given, blind, self.lengths)


@final
@dataclass(frozen=True, eq=False)
class Explained:
    """What each level makes of each token: `values`, weighed; `scores`, their sum over levels."""

    values: tuple[Float[Tensor, "t a h"], ...]  # of the learned levels, before weighing
    means: Float[Tensor, "t a l"]  # of all levels, topics summed out
    weights: Float[Tensor, "t a l"]
    scores: Float[Tensor, "t a"]


def explain(
    levels: Sequence[Level],
    tables: Tables,
    weights: Float[Tensor, "b a l"],
    uniform: float,
    tokens: Tokens,
    topics: Float[Tensor, "t h"],
) -> Explained:
    """p(token | preterminal), topics summed out [Wang 2005, section 3, alpha_ii], and its parts."""
    values, means = [], []
    tags = weights.shape[1]
    for level, table in zip(levels, tables, strict=True):
        value = table[tokens.rows[level.words]]
        mean = (value * topics.unsqueeze(1)).sum(dim=2) if level.topic else value[:, :, 0]
        values.append(value)
        means.append(mean.expand(-1, tags))
    means += [tokens.given, tokens.blind.unsqueeze(1).expand(-1, tags)]
    means.append(torch.full_like(tokens.given, uniform))
    stacked, weighed = torch.stack(means, dim=2), weights[tokens.bucket]
    return Explained(tuple(values), stacked, weighed, (stacked * weighed).sum(dim=2))


@final
@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Expected counts of table entries, of levels in buckets, and of topics at tokens."""

    tables: Tables
    weights: Float[Tensor, "b a l"]
    topics: Float[Tensor, "t h"]


def expected_levels(
    levels: Sequence[Level],
    tables: Tables,
    tokens: Tokens,
    topics: Float[Tensor, "t h"],
    explained: Explained,
    tags: Float[Tensor, "t a"],
    buckets: int,
) -> LevelCounts:
    """How often each level, entry and topic was used, given the expected preterminals.

    A topic is drawn only where the level looks at it, which changes no probability of words and
    leaves less hidden: EM is quicker than if every token drew one.
    """
    share = tags / torch.where(explained.scores > 0, explained.scores, 1.0)
    drawn = torch.zeros_like(topics)
    counts = []
    for place, (level, table) in enumerate(zip(levels, tables, strict=True)):
        used = share * explained.weights[:, :, place]
        used = used if level.tag else used.sum(dim=1, keepdim=True)
        used = used.unsqueeze(2) * explained.values[place]
        if level.topic:
            used = used * topics.unsqueeze(1)
            drawn += used.sum(dim=1)
        counts.append(torch.zeros_like(table).index_add_(0, tokens.rows[level.words], used))
    each = share.unsqueeze(2) * explained.weights * explained.means
    weights = each.new_zeros(buckets, *each.shape[1:]).index_add_(0, tokens.bucket, each)
    return LevelCounts(tuple(counts), weights, drawn)


def normalised(
    counts: Float[Tensor, "k a h"],
    before: Float[Tensor, "k a h"],
    context: Int[Tensor, "n"],
    contexts: int,
) -> Float[Tensor, "k a h"]:
    """Counts as probabilities of the last word after each context; the rows at the end stay.

    After a context that was never used any probabilities are right, and those before stay.
    """
    inner, kept = counts[: len(context)], before[: len(context)]
    total = inner.new_zeros(contexts, *inner.shape[1:]).index_add_(0, context, inner)[context]
    new = torch.where(total > 0, inner / torch.where(total > 0, total, 1.0), kept)
    return torch.cat([new, before[len(context) :]])


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

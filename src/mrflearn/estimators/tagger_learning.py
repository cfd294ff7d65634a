"""Sentences in, a learned tagger out, whether all of their tags are known, some, or none."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import torch
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.estimators.tagger_file import SEPARATOR, LearnedTagger, numbers, spelling_tables
from mrflearn.estimators.tagger_training import TaggerFit, TaggerSettings, train_tagger
from mrflearn.features.joint_moments import JointMoments, count_joint
from mrflearn.features.spelling import SpellingTable
from mrflearn.features.tagged_sentences import (
    UNKNOWN,
    TaggedSentences,
    Tags,
    number_sentences,
)
from mrflearn.features.word_clusters import cluster_words
from mrflearn.graph.tag_scores import TagScores
from mrflearn.inference.expected_moments import expected_moments
from mrflearn.models.joint_tagger import NAMES, TRANSITIONS
from mrflearn.training.checkpoint import Stages

RARE_COUNT = 5  # a word that comes at most so often is rare
ROUND_ITERATIONS = 30  # of L-BFGS in a round, which begins where the one before it ended


@final
@dataclass(frozen=True)
class TaggerPlan:
    """What to learn, and how to go on where tags are unknown; see `JointTagger` for each."""

    distances: int
    places: tuple[int, ...]
    settings: TaggerSettings
    tags: int | None
    rounds: int
    weight: float
    seed: int
    saved: Stages | None = None


class Learning(NamedTuple):
    """A learned tagger, and how its last training went."""

    learned: LearnedTagger
    fit: TaggerFit


@final
@dataclass(frozen=True, eq=False)
class Corpus:
    """Sentences by number, with their words and tags, the separator first in both."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    read: TaggedSentences
    plan: TaggerPlan
    spelling: dict[int, SpellingTable]

    @classmethod
    def of(
        cls,
        sentences: Sequence[Sequence[str]],
        tags: Sequence[Tags],
        labels: tuple[str, ...],
        plan: TaggerPlan,
    ) -> Corpus:
        counts = Counter(word for sentence in sentences for word in sentence)
        words = (SEPARATOR, *sorted(counts, key=lambda word: (-counts[word], word)))
        read = number_sentences(sentences, tags, numbers(words), numbers(labels))
        rare_from = 1 + sum(count > RARE_COUNT for count in counts.values())
        return cls(words, labels, read, plan, spelling_tables(words, plan.places, rare_from))

    def moments(self, read: TaggedSentences) -> JointMoments:
        """The counts of some of the sentences."""
        shape = len(self.words), len(self.tags)
        return count_joint(read, shape, self.plan.distances, self.plan.places)

    def train(
        self,
        moments: JointMoments,
        settings: TaggerSettings,
        start: Mapping[str, Tensor] | None = None,
    ) -> Learning:
        """The tagger of these counts."""
        fit = train_tagger(moments, self.spelling, settings, start, self.plan.saved)
        learned = LearnedTagger(self.words, self.tags, fit.model, fit.ceiling, self.spelling)
        return Learning(learned, fit)


def learn(sentences: Sequence[Sequence[str]], tags: Sequence[Tags], plan: TaggerPlan) -> Learning:
    """The tagger of sentences whose tags are known, or are summed out by expectation-maximisation.

    Each round trains on the counts of what is known and on those expected of the rest by the
    tagger of the round before.
    """
    corpus = Corpus.of(sentences, tags, _labels(tags, plan.tags), plan)
    whole = corpus.read.known
    base = _of_whole_sentences(sentences, tags, corpus) if whole.any() else None
    if base is not None and (whole.all() or plan.weight == 0):
        return base
    known, open_ones = corpus.moments(corpus.read.part(whole)), corpus.read.part(~whole)
    if base is None:
        expected, start, weight = _first_guess(corpus), None, 1.0
    else:
        expected = expected_moments(_for_words(base.learned, corpus.words), open_ones)
        start, weight = _carried_over(base, corpus.spelling), plan.weight
    settings = replace(plan.settings, max_iterations=ROUND_ITERATIONS)
    for _ in range(plan.rounds):
        found = corpus.train(
            known + expected * weight, plan.settings if start is None else settings, start
        )
        expected, start = expected_moments(found.learned.scores, open_ones), found.fit.parameters
    return found


def _labels(tags: Sequence[Tags], count: int | None) -> tuple[str, ...]:
    seen = sorted({tag for some in tags for tag in some or () if tag is not None})
    if count is None and not seen:
        raise DataError("no word has a tag; say how many tags to look for, such as tags=12.")
    wanted = max(count or 0, len(seen)) - len(seen)
    free = (name for name in (f"tag{i}" for i in itertools.count(1)) if name not in seen)
    return (SEPARATOR, *seen, *itertools.islice(free, wanted))


def _of_whole_sentences(
    sentences: Sequence[Sequence[str]], tags: Sequence[Tags], corpus: Corpus
) -> Learning:
    """The tagger of the sentences all of whose tags are known.

    Words that only others have are new to it: were they in its vocabulary, it would have learned
    that they never come.
    """
    whole = corpus.read.known
    pairs = [(s, t) for s, t, k in zip(sentences, tags, whole, strict=True) if k]
    own = corpus
    if not whole.all():
        own = Corpus.of([s for s, _ in pairs], [t for _, t in pairs], corpus.tags, corpus.plan)
    return own.train(own.moments(own.read), own.plan.settings)


def _first_guess(corpus: Corpus) -> JointMoments:
    """The counts expected where no sentence is known: by the tags of some words, or by classes."""
    read = corpus.read
    if (read.tags != UNKNOWN).any():
        return expected_moments(_nothing(corpus), read)
    clusters = cluster_words(read, len(corpus.words), len(corpus.tags) - 1, corpus.plan.seed)
    return corpus.moments(replace(read, tags=clusters[read.words] + 1))


def _carried_over(base: Learning, spelling: dict[int, SpellingTable]) -> dict[str, Tensor]:
    """A tagger's parameters in the places that a larger vocabulary has for them."""
    start = {TRANSITIONS: base.learned.model.transitions}
    for place, own in base.learned.model.weights.items():
        number = spelling[place].number
        kept = [
            (row, number[name])
            for name, row in base.learned.spelling[place].number.items()
            if name in number
        ]
        old, new = torch.tensor(kept, device=own.device).unbind(dim=1)
        start[NAMES[place]] = own.new_zeros(len(number), own.shape[1]).index_copy(0, new, own[old])
    return start


def _for_words(base: LearnedTagger, words: tuple[str, ...]) -> TagScores:
    """A tagger's scores of other words, in their order."""
    scores, found = base.read([words[1:]])
    rows = torch.cat([found.new_zeros(1), found])
    return TagScores(scores.transitions, {p: own[rows] for p, own in scores.words.items()})


def _nothing(corpus: Corpus) -> TagScores:
    """Scores under which all tags are alike."""
    tags, plan = len(corpus.tags), corpus.plan
    words = {place: torch.zeros(len(corpus.words), tags) for place in plan.places}
    return TagScores(torch.zeros(plan.distances, tags, tags), words)

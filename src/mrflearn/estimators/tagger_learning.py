"""Sentences in, a learned tagger out, whether all of their tags are known, some, or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import torch
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.estimators.tagger_file import SEPARATOR, LearnedTagger, numbers, spelling_tables
from mrflearn.estimators.tagger_training import TaggerFit, TaggerSettings, train_tagger
from mrflearn.graph.tag_scores import TagScores
from mrflearn.inference.expected_moments import expected_moments
from mrflearn.models.joint_tagger import NAMES, TRANSITIONS
from mrflearn.statistics.joint_moments import JointMoments, count_joint
from mrflearn.statistics.spelling import SpellingTable
from mrflearn.statistics.tagged_sentences import (
    UNKNOWN,
    TaggedSentences,
    Tags,
    number_sentences,
)
from mrflearn.statistics.word_clusters import cluster_words

RARE_COUNT = 5  # a word that comes at most so often is rare
ROUND_EVALUATIONS = 30  # of the bound in a round, which begins where the one before it ended


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
        fit = train_tagger(moments, self.spelling, settings, start)
        learned = LearnedTagger(self.words, self.tags, fit.model, fit.ceiling, self.spelling)
        return Learning(learned, fit)


def learn(sentences: Sequence[Sequence[str]], tags: Sequence[Tags], plan: TaggerPlan) -> Learning:
    """The tagger of sentences whose tags are known, or are summed out by expectation-maximisation.

    Each round trains on the counts of what is known and on those expected of the rest by the
    tagger of the round before.
    """
    corpus = Corpus.of(sentences, tags, _labels(tags, plan.tags), plan)
    whole = corpus.read.known
    if whole.all():
        return corpus.train(corpus.moments(corpus.read), plan.settings)
    known, open_ones = corpus.moments(corpus.read.part(whole)), corpus.read.part(~whole)
    expected, start = _first_guess(sentences, tags, corpus, open_ones)
    settings = plan.settings
    if start is not None:
        settings = replace(settings, max_evaluations=ROUND_EVALUATIONS)
    for _ in range(plan.rounds):
        found = corpus.train(known + expected * plan.weight, settings, start)
        expected, start = expected_moments(found.learned.scores, open_ones), found.fit.parameters
        settings = replace(settings, max_evaluations=ROUND_EVALUATIONS)
    return found


def _labels(tags: Sequence[Tags], count: int | None) -> tuple[str, ...]:
    seen = sorted({tag for some in tags for tag in some or () if tag is not None})
    if count is None and not seen:
        raise DataError("no word has a tag; say how many tags to look for, such as tags=12.")
    new = [f"tag{i}" for i in range(1, max((count or 0) - len(seen), 0) + 1)]
    return (SEPARATOR, *seen, *new)


def _first_guess(
    sentences: Sequence[Sequence[str]],
    tags: Sequence[Tags],
    corpus: Corpus,
    open_ones: TaggedSentences,
) -> tuple[JointMoments, dict[str, Tensor] | None]:
    """The counts expected of the open sentences at first, and parameters to begin with."""
    whole = corpus.read.known
    if whole.any():
        # Words that only the open sentences have are new to this tagger: were they in its
        # vocabulary, it would have learned that they never come.
        pairs = [(s, t) for s, t, k in zip(sentences, tags, whole, strict=True) if k]
        own = Corpus.of([s for s, _ in pairs], [t for _, t in pairs], corpus.tags, corpus.plan)
        base = own.train(own.moments(own.read), own.plan.settings)
        expected = expected_moments(_for_words(base.learned, corpus.words), open_ones)
        return expected, _carried_over(base, corpus.spelling)
    if (open_ones.tags != UNKNOWN).any():
        return expected_moments(_nothing(corpus), open_ones), None
    clusters = cluster_words(open_ones, len(corpus.words), len(corpus.tags) - 1, corpus.plan.seed)
    guessed = TaggedSentences(open_ones.words, clusters[open_ones.words] + 1, open_ones.lengths)
    return corpus.moments(guessed), None


def _carried_over(base: Learning, spelling: dict[int, SpellingTable]) -> dict[str, Tensor]:
    """A tagger's parameters in the places that a larger vocabulary has for them."""
    start = {TRANSITIONS: base.learned.model.transitions}
    for place, own in base.learned.model.weights.items():
        number = spelling[place].number
        rows = torch.tensor([number[name] for name in base.learned.spelling[place].number])
        start[NAMES[place]] = own.new_zeros(len(number), own.shape[1]).index_copy(
            0, rows.to(own.device), own
        )
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

"""Training of the joint tagger: bounds on labelled text, EM on unlabelled text."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import coo_array, hstack
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.estimators.lifted_training import lower_bound, train_bound
from mrflearn.execution.resources import choose_device
from mrflearn.features.spelling import SpellingTable
from mrflearn.features.tagged_sentences import (
    UNKNOWN,
    JointMoments,
    TaggedSentences,
    Tags,
    count_joint,
    number_sentences,
    with_separators,
)
from mrflearn.graph.lifted import CENTRE, PLACES, TagPotentials
from mrflearn.inference.lifted import LogPartitionBound, Stars, TagChains, star_spacing
from mrflearn.inference.sentence_tags import expected_moments
from mrflearn.kernels.low_rank import SparseMatrix
from mrflearn.models.lifted import NAMES, TRANSITIONS, JointTaggerModel
from mrflearn.models.storage import record, texts
from mrflearn.objectives.lifted import LiftedLikelihood, TagFrequencies, tag_scaling
from mrflearn.objectives.problem import Penalty
from mrflearn.training.checkpoint import Stages
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.outcome import Outcome

if TYPE_CHECKING:
    from mrflearn.estimators.tagger import JointTagger

# What a fitted tagger is, and the way there and back to what storage keeps.


SEPARATOR = "<S>"


@final
@dataclass(frozen=True, eq=False)
class LearnedTagger:
    """A tagger's words and tags, the separator first in both, its model and the bound on log Z."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    model: JointTaggerModel
    log_partition_bound: LogPartitionBound
    spelling: dict[int, SpellingTable]

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each word; a text's own `<S>` is a word like any other."""
        return numbers(self.words)

    @cached_property
    def potentials(self) -> TagPotentials:
        """Scores of the words that training saw."""
        with torch.no_grad():
            return self.model.potentials(feature_matrices(self.spelling, self.model.transitions))

    def read(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[TagPotentials, Int[np.ndarray, " n"]]:
        """Scores of all words that come in the sentences, new ones last, and their numbers."""
        known, new = self.number, dict[str, int]()
        found = np.fromiter(
            (
                known[word] if word in known else new.setdefault(word, len(self.words) + len(new))
                for sentence in sentences
                for word in sentence
            ),
            np.int64,
        )
        return (self._with_new(list(new)) if new else self.potentials), found

    def _with_new(self, words: list[str]) -> TagPotentials:
        transitions, known, *_ = self.potentials
        tables = {id(table): table for table in self.spelling.values()}
        rows = {
            key: SparseMatrix.of(table.rows(words), torch.float32, transitions.device)
            for key, table in tables.items()
        }
        added = {p: rows[id(self.spelling[p])] @ own for p, own in self.model.weights.items()}
        return TagPotentials(transitions, {p: torch.cat([known[p], added[p]]) for p in known})


def numbers(words: Sequence[str]) -> dict[str, int]:
    """The number of each word but the separator's, which comes first."""
    return {word: index for index, word in enumerate(words) if index}


def spelling_tables(
    words: Sequence[str], places: Sequence[int], rare_from: int
) -> dict[int, SpellingTable]:
    """The features of a vocabulary at each place; those beside a tag have one table."""
    beside = SpellingTable.of(words, None) if len(places) > 1 else None
    below = SpellingTable.of(words, rare_from)
    return {place: below if place == CENTRE or beside is None else beside for place in places}


def feature_matrices(
    spelling: Mapping[int, SpellingTable], like: Tensor
) -> dict[int, SparseMatrix]:
    """The features of the words at each place, in numbers like those of a tensor."""
    return {p: SparseMatrix.of(own.matrix, like.dtype, like.device) for p, own in spelling.items()}


def restore(kept: dict[str, Any], tensors: dict[str, Tensor]) -> LearnedTagger:
    """What came out of a model directory, checked to be complete."""
    words, tags = texts(kept, "words"), texts(kept, "tags")
    weights = {place: tensors[name] for place, name in NAMES.items() if name in tensors}
    model, size = JointTaggerModel(tensors[TRANSITIONS], weights), len(tags)
    spelling = spelling_tables(words, model.places, int(kept["rare_from"]))
    sound = (
        words[:1] == tags[:1] == (SEPARATOR,)
        and model.places in PLACES.values()
        and model.transitions.shape[1:] == (size, size)
        and all(w.shape == (len(spelling[p].number), size) for p, w in weights.items())
    )
    if not sound:
        raise DataError("words, tags and weights do not belong together")
    return LearnedTagger(
        words, tags, model, record(LogPartitionBound, kept["log_partition_bound"]), spelling
    )


# Sentences in, a learned tagger out, whether all of their tags are known, some, or none.


TaggerBoundName = Literal["exact", "chains", "stars"]
BOUNDS: dict[TaggerBoundName, Callable[[tuple[int, ...]], Stars | TagChains]] = {
    "exact": TagChains.exact,
    "chains": TagChains.mixed,
    "stars": lambda _: Stars(),
}
MILD = 0.1  # the penalty on transitions over that on features: there are few, all seen often
RARE_COUNT = 5  # a word that comes at most so often is rare
ROUND_ITERATIONS = 30  # of L-BFGS in a round, which begins where the one before it ended


class Learning(NamedTuple):
    """A learned tagger, how its last training went, and its bound on the text per position."""

    learned: LearnedTagger
    outcome: Outcome[JointTaggerModel]
    log_likelihood: float


@final
class Corpus:
    """Sentences by number, with their words and tags, the separator first in both."""

    def __init__(
        self,
        sentences: Sequence[Sequence[str]],
        tags: Sequence[Tags],
        labels: tuple[str, ...],
        settings: JointTagger,
        l2: float,
        saved: Stages,
    ) -> None:
        self.tags = labels
        self.settings, self.l2, self.saved = settings, l2, saved
        counts = Counter(word for sentence in sentences for word in sentence)
        self.words = (SEPARATOR, *sorted(counts, key=lambda word: (-counts[word], word)))
        self.read = number_sentences(sentences, tags, numbers(self.words), numbers(labels))
        rare_from = 1 + sum(count > RARE_COUNT for count in counts.values())
        self.spelling = spelling_tables(self.words, PLACES[settings.words], rare_from)

    def moments(self, read: TaggedSentences) -> JointMoments:
        """The counts of some of the sentences."""
        shape = len(self.words), len(self.tags)
        return count_joint(read, shape, self.settings.context, tuple(self.spelling))

    def train(self, moments: JointMoments, start: Mapping[str, Tensor] | None = None) -> Learning:
        """The tagger of these counts whose bound is best; `start` are parameters to begin with."""
        settings, places = self.settings, tuple(self.spelling)
        bound: Any = BOUNDS[settings.bound](places)
        if isinstance(bound, Stars):
            moments = moments.rounded_up(star_spacing(moments.distances, len(places)))
        device = choose_device(settings.device)
        sizes = {place: len(table.number) for place, table in self.spelling.items()}

        def objective_in(dtype: torch.dtype) -> LiftedLikelihood[JointTaggerModel]:
            like = torch.zeros(0, dtype=dtype, device=device)
            features = feature_matrices(self.spelling, like)
            model = JointTaggerModel.zeros(len(self.tags), moments.distances, sizes, like)
            with torch.no_grad():
                model = replace(model, duals=bound.duals(model.potentials(features)))
            begin = {name: value.to(like) for name, value in (start or {}).items()}
            model = model.with_parameters({**model.parameters(), **begin})
            return LiftedLikelihood(model, features, TagFrequencies.of(moments, like), bound)

        objective = objective_in(torch.float32)
        limit = settings.max_iterations if start is None else ROUND_ITERATIONS
        strength = self.l2 / moments.positions
        weights = dict.fromkeys((NAMES[place] for place in places), strength)
        checkpoint, resume = self.saved.next()
        outcome, proven = train_bound(
            objective,
            lambda: objective_in(torch.float64),
            bound,
            LBFGS(limit, tolerance=settings.tolerance),
            penalty=Penalty(l2={TRANSITIONS: MILD * strength, **weights}),
            scaling=tag_scaling(objective.model, moments, self.spelling),
            progress=settings.verbose,
            checkpoint=checkpoint,
            resume=resume,
        )
        model = outcome.model
        potentials, seen = model.potentials(objective.batch), objective.frequencies
        reached = lower_bound(potentials, seen, proven, moments.positions)
        bare = replace(model, duals={})
        learned = LearnedTagger(self.words, self.tags, bare, proven, self.spelling)
        return Learning(learned, outcome, reached)


def learn(
    sentences: Sequence[Sequence[str]],
    tags: Sequence[Tags],
    settings: JointTagger,
    l2: float,
    weight: float,
    saved: Stages,
) -> Learning:
    """The tagger of sentences whose tags are known, or are summed out by expectation-maximisation.

    Each round trains on the counts of what is known and on those expected of the rest by the
    tagger of the round before, these with a weight.
    """
    corpus = Corpus(sentences, tags, _labels(tags, settings.tags), settings, l2, saved)
    whole, seed = corpus.read.known, settings.random_state
    base = _of_whole_sentences(sentences, tags, corpus) if whole.any() else None
    if base is not None and (whole.all() or weight == 0):
        return base
    known, open_ones = corpus.moments(corpus.read.part(whole)), corpus.read.part(~whole)
    start: Mapping[str, Tensor] | None
    if base is None:
        expected, start, weight = _first_guess(corpus, seed), None, 1.0
    else:
        expected = expected_moments(_for_words(base.learned, corpus.words), open_ones)
        start = _carried_over(base.learned, corpus.spelling)
    for _ in range(settings.rounds):
        learning = corpus.train(known + expected * weight, start)
        expected = expected_moments(learning.learned.potentials, open_ones)
        start = learning.outcome.model.parameters()
    return learning


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
    if not whole.all():
        sentences = list(itertools.compress(sentences, whole))
        tags = list(itertools.compress(tags, whole))
        corpus = Corpus(sentences, tags, corpus.tags, corpus.settings, corpus.l2, corpus.saved)
    return corpus.train(corpus.moments(corpus.read))


def _first_guess(corpus: Corpus, seed: int) -> JointMoments:
    """The counts expected where no sentence is known: by the tags of some words, or by classes."""
    read = corpus.read
    if (read.tags != UNKNOWN).any():
        shape = len(corpus.words), len(corpus.tags)
        words = {place: torch.zeros(shape) for place in corpus.spelling}
        level = torch.zeros(corpus.settings.context, shape[1], shape[1])
        return expected_moments(TagPotentials(level, words), read)
    clusters = cluster_words(read, len(corpus.words), len(corpus.tags) - 1, seed)
    return corpus.moments(replace(read, tags=clusters[read.words] + 1))


def _carried_over(base: LearnedTagger, spelling: dict[int, SpellingTable]) -> dict[str, Tensor]:
    """A tagger's parameters in the places that a larger vocabulary has for them."""
    start = {TRANSITIONS: base.model.transitions}
    for place, own in base.model.weights.items():
        number, before = spelling[place].number, base.spelling[place].number
        kept = [(row, number[name]) for name, row in before.items() if name in number]
        old, new = torch.tensor(kept, device=own.device).unbind(dim=1)
        start[NAMES[place]] = own.new_zeros(len(number), own.shape[1]).index_copy(0, new, own[old])
    return start


def _for_words(base: LearnedTagger, words: tuple[str, ...]) -> TagPotentials:
    """A tagger's scores of other words, in their order."""
    scores, found = base.read([words[1:]])
    rows = torch.from_numpy(np.append(0, found)).to(scores.transitions.device)
    return TagPotentials(scores.transitions, {p: own[rows] for p, own in scores.words.items()})


# Words sorted into classes by their neighbours, where nothing is known of their tags.


NEIGHBOURS = 500  # the most frequent words, which stand for the contexts of all
DIMENSIONS = 30


def cluster_words(
    sentences: TaggedSentences, vocabulary: int, clusters: int, seed: int
) -> Int[np.ndarray, " w"]:
    """A class from 0 on for each word, by how often frequent words stand beside it.

    Words must be numbered by falling frequency, the separator first.
    """
    if clusters > vocabulary:
        raise DataError(
            f"{clusters} tags were asked for, but there are only {vocabulary - 1} different words."
        )
    vectors, counts = context_vectors(sentences, vocabulary, seed)
    means = KMeans(clusters, n_init=3, random_state=seed)
    found = means.fit_predict(vectors, sample_weight=np.sqrt(counts + 1e-9))
    return np.asarray(found, dtype=np.int64)


def context_vectors(
    sentences: TaggedSentences, vocabulary: int, seed: int
) -> tuple[Float[np.ndarray, "w d"], Float[np.ndarray, " w"]]:
    """A vector of length 1 for each word, from the words to its left and right, and its count."""
    words = with_separators(sentences.words, sentences.lengths, 1)
    sides = []
    for step in (-1, 1):
        beside = np.roll(words, -step)
        kept = beside < NEIGHBOURS
        ones = np.ones(int(kept.sum()))
        sides.append(coo_array((ones, (words[kept], beside[kept])), (vocabulary, NEIGHBOURS)))
    table = np.sqrt(hstack(sides).tocsr())
    counts = np.bincount(words, minlength=vocabulary).astype(np.float64)
    size = min(DIMENSIONS, min(table.shape) - 1)
    vectors = TruncatedSVD(size, algorithm="arpack", random_state=seed).fit_transform(table)
    return normalize(vectors), counts

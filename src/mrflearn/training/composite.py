"""Training of composite language models: EM steps and smoothing by turns.

In one phase words, rules and topic shares are learned from the text, weights of levels held; in the
other the weights are learned from each part of the text under a model of the others, everything
else held.  Within a phase no step makes its text less probable.

A level that was learned from a word explains it better than it explains new ones.  So weights of
levels are fitted where tables, rules and the n-gram model come from other folds than the words.
Tables of the others cost no training: their expected counts are those of all, less the fold's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.execution.executor import Executor
from mrflearn.features.document_stream import DocumentStream, EncodedDocument
from mrflearn.features.ngrams import Counts
from mrflearn.io.corpus import Vocabulary
from mrflearn.models.composite_lm import (
    PLSA,
    CompositeModel,
    CompositeShape,
    common_weights,
    maximise_rules,
    maximise_tables,
    normalised_weights,
)
from mrflearn.models.ngram import NgramLevel
from mrflearn.objectives.expected_counts import Batch, Expected, ExpectedCounts
from mrflearn.training.checkpoint import Checkpoint, read_checkpoint
from mrflearn.training.composite_start import (
    Given,
    GrammarStart,
    Judged,
    batches,
    best_strength,
    part,
    start_model,
    start_topics,
    tag_shares_of_words,
)
from mrflearn.training.em import EM, Parameters
from mrflearn.training.loop import interruptible
from mrflearn.training.outcome import Row

# EM for the composite model: its two kinds of phases, and their alternation.


Figures: TypeAlias = NDArray[np.float64]


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


@final
@dataclass(frozen=True, eq=False)
class TextStep:
    """One EM step for words, rules and topic shares; the weights of levels stay as they are."""

    model: CompositeModel
    batches: Sequence[Batch]
    executor: Executor
    remembered: RulePrior

    def start(self, documents: Float[Tensor, "d h"]) -> Parameters:
        """The parameters to begin with."""
        return {**self.model.tensors(), "documents": documents}

    def __call__(self, parameters: Parameters) -> tuple[float, Parameters]:
        model, documents = self.model.with_tensors(parameters), parameters["documents"]
        found = checked(self.executor.total(ExpectedCounts(model, documents), self.batches))
        drawn = found.documents.sum(dim=1, keepdim=True)
        shares = found.documents / torch.where(drawn > 0, drawn, 1.0)
        new = {**parameters, **maximised(model, self.remembered.added(found)).tensors()}
        new["documents"] = torch.where(drawn > 0, shares, documents)
        return -found.log_likelihood - self.remembered.log_density(model), new


def maximised(model: CompositeModel, found: Expected) -> CompositeModel:
    """[Wang 2005, eq. 4] Normalised expected counts for words and rules."""
    shape = model.shape
    tables = maximise_tables(shape, found.tables, model.tables)
    rules, start = model.rules, model.start
    if shape.grammar is not None:
        rules = maximise_rules(shape.grammar, found.rules, rules)
        total = found.start.sum()
        start = (found.start / total).log() if total > 0 else start
    return replace(model, tables=tables, rules=rules, start=start)


@final
@dataclass(frozen=True, eq=False)
class StartTrial:
    """Text for which a model is to have the right weights, and its topic shares."""

    model: CompositeModel
    documents: Float[Tensor, "d h"]
    batches: Sequence[Batch]


class Seen(NamedTuple):
    """What a step for weights found: the log-likelihood, without the prior, and uses of levels."""

    value: float
    used: Float[Tensor, "b a l"]


@final
@dataclass(frozen=True, eq=False)
class WeightStep:
    """One EM step for weights that several models share, after a Dirichlet prior around `centre`.

    Tied, they are the same for all preterminals.
    """

    trials: Sequence[StartTrial]
    executor: Executor
    centre: Float[Tensor, "b a l"]
    prior: float
    tied: bool = False
    seen: list[Seen] = field(default_factory=list)

    def __call__(self, parameters: Parameters) -> tuple[float, Parameters]:
        weights, centre = parameters["weights"], self.centre
        value, used = self.total(weights)
        self.seen.append(Seen(value, used))
        kept = centre > 0
        penalty = self.prior * float((centre[kept] * weights[kept].log()).sum())
        new = normalised_weights(used, centre, self.prior, self.tied)
        return -value - penalty, {"weights": new}

    def total(self, weights: Float[Tensor, "b a l"]) -> tuple[float, Float[Tensor, "b a l"]]:
        """(log-likelihood, how often levels are used) over all trials."""
        value, used = 0.0, torch.zeros_like(weights)
        for trial in self.trials:
            task = ExpectedCounts(replace(trial.model, weights=weights), trial.documents)
            found = checked(self.executor.total(task, trial.batches))
            value, used = value + found.log_likelihood, used + found.weights
        return value, used


def checked(found: Expected) -> Expected:
    """The counts, or an error where a sentence cannot be produced."""
    if found.impossible:
        raise TrainingError(
            f"{found.impossible} sentences cannot be produced by the grammar at all: no derivation "
            "has their length. Give it rules for them, or start from a latent grammar, which has "
            "every rule."
        )
    return found


# Deleted estimation: each fold of a text judged by what the others taught [Jelinek & Mercer
# 1980].


FOLDS = 5
RARE = 1e-3  # uses that a rule has had at least
FEW_DOCUMENTS = 10  # below so many, sentences are divided instead


def fold_numbers(text: DocumentStream, documents: int) -> Counts:
    """The fold of each sentence; whole documents go together, unless there are few."""
    unit = text.document if documents >= FEW_DOCUMENTS else np.arange(len(text))
    return np.unique(unit % FOLDS, return_inverse=True)[1]


@final
@dataclass(frozen=True, eq=False)
class Folds:
    """A text, the fold of each sentence, and each fold with the n-gram model of the others.

    The n-gram model of a sentence itself would leave nothing for grammar and topics to explain.
    """

    text: DocumentStream
    number: Counts
    each: tuple[Given, ...]

    @classmethod
    def of(cls, text: DocumentStream, number: Counts, order: int, vocabulary: Vocabulary) -> Folds:
        """The folds of a text; `order` 0: without n-gram models.  A single fold judges itself."""
        each = []
        for k in range(int(number.max()) + 1):
            inside, outside = np.flatnonzero(number == k), np.flatnonzero(number != k)
            rest = part(text, outside if len(outside) else inside)
            level = NgramLevel.learn(rest.stream, order, vocabulary) if order else None
            each.append(Given(part(text, inside), level))
        return cls(text, number, tuple(each))

    def values(self, tag_of_word: Figures) -> Judged:
        """What the n-gram models make of each token of the whole text."""
        pieces = [given.values(tag_of_word) for given in self.each]
        mine = [np.flatnonzero(self.number == k) for k in range(len(self.each))]
        places = np.concatenate([self.text.places(sentences, ends=True) for sentences in mine])
        joined = Judged(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))
        return joined.at(np.argsort(places))


def deleted(
    model: CompositeModel, whole: Expected, own: Expected, remembered: RulePrior
) -> CompositeModel:
    """The model that the rest of a text would have taught.

    A rule that the fold alone has used is made improbable, not impossible: it is needed there.
    """
    rest = remembered.added(whole.without(own))
    rules, start = rest.rules.clamp(min=RARE), rest.start.clamp(min=RARE)
    return maximised(model, replace(rest, rules=rules, start=start))


def total(counts: Sequence[Expected]) -> Expected:
    """The counts of all folds together."""
    return sum(counts[1:], counts[0])


# One training of the composite model: words, rules and topics in turns with weights of levels.


TIED_PRIOR = 5.0  # uses of levels that weights are taken to have come from, the same for all tags
TAG_PRIOR = 20.0  # uses that a preterminal's own weights need to count as much as the common ones
CARRIED = ("tag_of_word", "common")  # what a checkpoint needs beside the model's own numbers
TREEBANK_USES = 30.0  # uses of each phrase that a treebank's rules count for beside the text
MOST_JUDGED = 60_000  # tokens enough to fit weights to: further folds are left aside


@final
@dataclass(frozen=True)
class CompositeSettings:
    """How long and where to train."""

    em: EM
    rounds: int
    weight_steps: int
    longest: int | None
    seed: int
    kind: torch.dtype
    device: torch.device
    progress: bool = False
    checkpoint: Checkpoint | None = None
    resume: bool = False


class BestRound(NamedTuple):
    """A model as it was when held-out text was most probable."""

    model: CompositeModel
    documents: Float[Tensor, "d h"]
    tag_of_word: Float[Tensor, "w a"]
    strength: float


@final
@dataclass(eq=False)
class Trainer:
    """One training under way: text in batches, the model so far, and what was seen."""

    settings: CompositeSettings
    executor: Executor
    folds: Folds
    model: CompositeModel
    documents: Float[Tensor, "d h"]
    tag_of_word: Float[Tensor, "w a"]
    strength: float = 10.0
    history: list[Row] = field(default_factory=list)
    held_values: list[float] = field(default_factory=list)
    reason: str = ""
    train: list[Batch] = field(default_factory=list)
    best: BestRound | None = None
    common: Float[Tensor, "b a l"] = field(init=False)  # weights as if preterminals were one
    remembered: RulePrior = field(init=False)

    def __post_init__(self) -> None:
        self.common = self.model.weights
        wiring = self.model.shape.grammar
        treebank = wiring is not None and not wiring.dense
        self.remembered = RulePrior.around(self.model, TREEBANK_USES if treebank else 0.0)

    def prepare(self) -> None:
        """Puts the text into batches, with what the n-gram models make of it by now."""
        values = self.folds.values(self.tag_of_word.double().cpu().numpy())
        found = batches(self.folds.text, values, self.model.shape, longest=self._longest)
        self.train = [batch for _, batch in found]

    @property
    def prior(self) -> Figures:
        """The shares of topics in the training text, no topic left out altogether."""
        shares = self.documents.double().mean(dim=0).cpu().numpy() + 1e-6
        return np.asarray(shares / shares.sum())

    @property
    def _longest(self) -> int | None:
        """The most words of a sentence with a derivation; without a grammar there are none."""
        return None if self.model.shape.grammar is None else self.settings.longest

    def judge(self) -> list[StartTrial]:
        """Folds of the text, each with the model of the others; notes which words have which tags.

        Topic shares are those that the sentences before in a document tell.
        """
        counts = [self._counts(number) for number in range(len(self.folds.each))]
        whole = total(counts)
        self.tag_of_word = self._tag_shares(whole)
        self.model = replace(self.model, tags=whole.tags.sum(dim=0) / whole.tags.sum())
        models, texts, ready = [], [], []
        for number in self._judged():
            rest = whole.without(counts[number])
            models.append(deleted(self.model, whole, counts[number], self.remembered))
            texts.append(self.folds.each[number].text)
            ready.append(self._batches(number, self._tag_shares(rest), own_rows=True))
        self.strength, shares = best_strength(models, texts, ready, self.prior)
        return [
            StartTrial(model, torch.from_numpy(own).to(self.documents), _derived(pairs))
            for model, own, pairs in zip(models, shares, ready, strict=True)
        ]

    def learn_weights(self, *, tied: bool) -> bool:
        """Fits weights of levels to the folds; True where the user asked to stop.

        Tied, they are first fitted as if all preterminals were one.
        """
        with interruptible(announce=self.settings.progress) as interrupt:
            trials = self.judge()
        if interrupt.asked:
            return True
        em = replace(self.settings.em, max_iterations=self.settings.weight_steps)
        weights = self.model.weights
        if tied:
            first = WeightStep(trials, self.executor, weights, TIED_PRIOR, tied=True)
            outcome = em.fit(first, {"weights": weights})
            weights = self.common = outcome.model["weights"]
            if outcome.ending == "interrupted":
                self.model = replace(self.model, weights=weights)
                return True
        step = WeightStep(trials, self.executor, self.common, TAG_PRIOR)
        outcome = em.fit(step, {"weights": weights})
        self.model = replace(self.model, weights=outcome.model["weights"])
        value, used = step.seen[-1]
        self.common = common_weights(used, TIED_PRIOR)
        if self.best is None or value >= max(self.held_values):
            self.best = BestRound(self.model, self.documents, self.tag_of_word, self.strength)
        self.held_values.append(value)
        return outcome.ending == "interrupted"

    def learn_text(self, number: int, *, resume: bool) -> bool:
        """Fits words, rules and topic shares to the training text; True where asked to stop."""
        settings = self.settings
        step = TextStep(self.model, self.train, self.executor, self.remembered)
        each = -(-settings.em.max_iterations // settings.rounds)
        em = replace(settings.em, max_iterations=each)
        outcome = em.fit(
            step,
            step.start(self.documents) | {name: getattr(self, name) for name in CARRIED},
            identity={"round": number, "seed": settings.seed},
            progress=settings.progress,
            checkpoint=settings.checkpoint,
            resume=resume,
        )
        parameters: Parameters = dict(outcome.model)
        self.documents = parameters.pop("documents")
        self.tag_of_word, self.common = (parameters.pop(name) for name in CARRIED)
        self.model = self.model.with_tensors(parameters)
        self.history += outcome.history
        self.reason = outcome.reason
        return outcome.ending == "interrupted"

    def run(self) -> None:
        """Alternates the two, from the first round or the one a checkpoint is in.

        Of the models between rounds the one under which the folds are most probable is kept.
        """
        settings, first = self.settings, 0
        if settings.resume and settings.checkpoint is not None:
            identity, tensors = read_checkpoint(settings.checkpoint.path)
            first = int(identity.get("round", 0))
            self.tag_of_word = tensors.get("now.tag_of_word", self.tag_of_word)
        for number in range(first, settings.rounds):
            resume = settings.resume and number == first
            if not resume and self.learn_weights(tied=number == 0):
                return
            self.prepare()
            if self.learn_text(number, resume=resume):
                return
        self.learn_weights(tied=False)
        if self.best is not None:
            self.model, self.documents, self.tag_of_word, self.strength = self.best

    def _counts(self, number: int) -> Expected:
        """The expected counts of one fold."""
        own = [batch for _, batch in self._batches(number, self.tag_of_word, own_rows=False)]
        return checked(self.executor.total(ExpectedCounts(self.model, self.documents), own))

    def _batches(
        self, number: int, tag_of_word: Float[Tensor, "w a"], *, own_rows: bool
    ) -> list[tuple[Counts, Batch]]:
        """One fold in batches; topic shares of each sentence, or else of each document."""
        given = self.folds.each[number]
        rows = np.arange(len(given.text)) if own_rows else None
        values = given.values(tag_of_word.double().cpu().numpy())
        found = batches(
            given.text, values, self.model.shape, longest=self._longest, row_of_sentence=rows
        )
        return list(found)

    def _tag_shares(self, counts: Expected) -> Float[Tensor, "w a"]:
        shape = self.model.shape
        ends = shape.grammar is None
        return tag_shares_of_words(counts.tags, None if ends else shape.index.separator)

    def _judged(self) -> range:
        """The first folds, as many as weights need."""
        sizes = np.cumsum([len(given.text.stream) for given in self.folds.each])
        return range(min(len(sizes), 1 + int(np.searchsorted(sizes, MOST_JUDGED))))


def _derived(pairs: list[tuple[Counts, Batch]]) -> list[Batch]:
    """The batches with derivations, or all where none has any.

    Without one, preterminals are known too badly to say what levels that see them are worth.
    """
    every = [batch for _, batch in pairs]
    return [batch for batch in every if batch.charted] or every


# Training of the composite model from documents: folds, a start, rounds of EM.


@final
@dataclass(frozen=True, eq=False)
class CompositeFit:
    """A trained model, the n-gram model of all documents, and how new documents begin."""

    model: CompositeModel
    ngrams: NgramLevel | None
    tag_of_word: Figures  # p(preterminal | word), which the n-gram model is told tags by
    prior: Figures  # shares of topics in the training text
    strength: float  # tokens that the prior is worth
    history: tuple[Row, ...]  # of the training text and a treebank's rules, round after round
    held_out: tuple[float, ...]  # log-likelihoods of folds judged by others, between rounds
    reason: str


def fit_composite(
    documents: Sequence[EncodedDocument],
    vocabulary: Vocabulary,
    shape: CompositeShape,
    order: int,
    starts: Sequence[GrammarStart],
    settings: CompositeSettings,
    executor: Executor,
) -> CompositeFit:
    """The model trained on documents, from the best of several starts.

    `order` 0: without an n-gram model.
    """
    text = DocumentStream.of(documents, vocabulary.separator, range(len(documents)))
    folds = Folds.of(text, fold_numbers(text, len(documents)), order, vocabulary)
    topics = start_topics(text, shape, len(documents), settings.seed)
    trainers = [_begin(settings, executor, shape, folds, topics, start) for start in starts]
    trainer = _best_start(trainers)
    trainer.run()
    ngrams = NgramLevel.learn(text.stream, order, vocabulary) if order else None
    return CompositeFit(
        trainer.model,
        ngrams,
        trainer.tag_of_word.double().cpu().numpy(),
        trainer.prior,
        trainer.strength,
        tuple(trainer.history),
        tuple(trainer.held_values),
        trainer.reason,
    )


def _begin(
    settings: CompositeSettings,
    executor: Executor,
    shape: CompositeShape,
    folds: Folds,
    topics: PLSA,
    start: GrammarStart,
) -> Trainer:
    """A training before its first step."""
    guess = start.tag_of_word.clone()
    if shape.grammar is not None:
        guess[shape.index.separator] = 0
    train = [batch for _, batch in batches(folds.text, folds.values(guess.numpy()), shape)]
    given = folds.each[0].level is not None
    model = start_model(shape, train, topics, start, given).to(settings.device)
    model = model.with_tensors({n: t.to(settings.kind) for n, t in model.tensors().items()})
    shares = torch.from_numpy(topics.documents).to(settings.device, settings.kind)
    trainer = Trainer(settings, executor, folds, model, shares, guess)
    trainer.prepare()
    return trainer


def _best_start(trainers: list[Trainer]) -> Trainer:
    """The start whose text is most probable after a few steps on some of it."""
    if len(trainers) == 1:
        return trainers[0]
    values = []
    for trainer in trainers:
        some = [batch for batch in trainer.train if batch.charted][:3]
        some = some or trainer.train[:3]
        step = TextStep(trainer.model, some, trainer.executor, trainer.remembered)
        em = replace(trainer.settings.em, max_iterations=5)
        values.append(em.fit(step, step.start(trainer.documents)).value)
    return trainers[int(np.argmin(values))]

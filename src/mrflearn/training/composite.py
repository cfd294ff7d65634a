"""Training of composite language models: EM on the text in turns with deleted estimation.

In one phase words, rules and topic shares are learned from the text, weights of levels held; in the
other the weights are learned from each part of the text under a model of the others, everything
else held.  Within a phase no step makes its text less probable.

A level that was learned from a word explains it better than it explains new ones.  So weights of
levels are fitted where tables, rules and the n-gram model come from other folds than the words
[Jelinek & Mercer 1980].  Tables of the others cost no training: their expected counts are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.execution.executor import Executor
from mrflearn.features.document_stream import DocumentStream, EncodedDocument
from mrflearn.features.ngrams import Counts
from mrflearn.io.corpus import Vocabulary
from mrflearn.models.composite_lm import (
    PLSA,
    CompositeModel,
    CompositeShape,
    Figures,
    common_weights,
    normalised_weights,
)
from mrflearn.models.ngram import NgramLevel
from mrflearn.objectives.expected_counts import (
    Batch,
    Expected,
    RulePrior,
    counts_of_others,
    expect,
    maximise,
)
from mrflearn.training.checkpoint import Checkpoint, under
from mrflearn.training.composite_start import (
    GrammarStart,
    NgramScores,
    batches,
    best_strength,
    ngram_scores,
    start_model,
    start_topics,
    tag_shares_of_words,
)
from mrflearn.training.em import EM, Parameters, StepFunction
from mrflearn.training.loop import interruptible
from mrflearn.training.outcome import Row

# One EM step of each phase.


def text_step(
    parameters: Parameters,
    model: CompositeModel,
    train: Sequence[Batch],
    executor: Executor,
    prior: RulePrior,
) -> tuple[float, Parameters]:
    """One EM step for words, rules and topic shares; the weights of levels stay as they are."""
    model, documents = model.with_tensors(parameters), parameters["documents"]
    found = expect(model, documents, train, executor)
    drawn = found.documents.sum(dim=1, keepdim=True)
    shares = found.documents / torch.where(drawn > 0, drawn, 1.0)
    new = {**parameters, **maximise(model, prior.added(found)).tensors()}
    new["documents"] = torch.where(drawn > 0, shares, documents)
    return -found.log_likelihood - prior.log_density(model), new


class FoldTrial(NamedTuple):
    """Text for which a model is to have the right weights, and its topic shares."""

    model: CompositeModel
    documents: Float[Tensor, "d h"]
    batches: Sequence[Batch]


def level_uses(
    weights: Float[Tensor, "b a l"], trials: Sequence[FoldTrial], executor: Executor
) -> tuple[float, Float[Tensor, "b a l"]]:
    """(log-likelihood, how often levels are used) over all trials with these weights."""
    value, used = 0.0, torch.zeros_like(weights)
    for model, documents, own in trials:
        found = expect(replace(model, weights=weights), documents, own, executor)
        value, used = value + found.log_likelihood, used + found.weights
    return value, used


def weight_step(
    trials: Sequence[FoldTrial],
    executor: Executor,
    centre: Float[Tensor, "b a l"],
    prior: float,
    *,
    tied: bool,
    seen: list[tuple[float, Tensor]],
) -> StepFunction:
    """EM steps for weights that several models share, after a Dirichlet prior around `centre`.

    Tied, they are the same for all preterminals.  `seen` is told what `level_uses` found.
    """
    kept = centre > 0

    def step(parameters: Parameters) -> tuple[float, Parameters]:
        weights = parameters["weights"]
        value, used = level_uses(weights, trials, executor)
        seen.append((value, used))
        penalty = prior * float((centre[kept] * weights[kept].log()).sum())
        return -value - penalty, {"weights": normalised_weights(used, centre, prior, tied)}

    return step


# Deleted estimation: each fold of a text under the model that the others teach.


FOLDS = 5
RARE = 1e-3  # uses that a rule has had at least
FEW_DOCUMENTS = 10  # below so many, sentences are divided instead


def fold_numbers(text: DocumentStream, documents: int) -> Counts:
    """The fold of each sentence; whole documents go together, unless there are few."""
    unit = text.document if documents >= FEW_DOCUMENTS else np.arange(len(text))
    return np.unique(unit % FOLDS, return_inverse=True)[1]


class Fold(NamedTuple):
    """A part of a text, and the n-gram model, if there is one, of the other parts.

    The n-gram model of a sentence itself would leave nothing for grammar and topics to explain.
    """

    text: DocumentStream
    level: NgramLevel | None

    def scores(self, tag_of_word: Tensor) -> NgramScores:
        """What the n-gram model makes of each token."""
        return ngram_scores(self.text, self.level, tag_of_word.double().cpu().numpy())


@final
@dataclass(frozen=True, eq=False)
class Folds:
    """A text, the fold of each sentence, and each fold."""

    text: DocumentStream
    number: Counts
    each: tuple[Fold, ...]

    @classmethod
    def of(cls, text: DocumentStream, number: Counts, order: int, vocabulary: Vocabulary) -> Folds:
        """The folds of a text; `order` 0: without n-gram models.  A single fold judges itself."""
        each = []
        for k in range(int(number.max()) + 1):
            inside, outside = np.flatnonzero(number == k), np.flatnonzero(number != k)
            rest = text.part(outside if len(outside) else inside)
            level = NgramLevel.learn(rest.stream, order, vocabulary) if order else None
            each.append(Fold(text.part(inside), level))
        return cls(text, number, tuple(each))

    def scores(self, tag_of_word: Tensor) -> NgramScores:
        """What the n-gram models make of each token of the whole text."""
        pieces = [fold.scores(tag_of_word) for fold in self.each]
        mine = [np.flatnonzero(self.number == k) for k in range(len(self.each))]
        places = np.concatenate([self.text.places(sentences, ends=True) for sentences in mine])
        joined = NgramScores(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))
        return joined.at(np.argsort(places))


def deleted_model(model: CompositeModel, rest: Expected, prior: RulePrior) -> CompositeModel:
    """The model that the rest of a text would have taught, by its expected counts.

    A rule that the fold alone has used is made improbable, not impossible: it is needed there.
    """
    rest = prior.added(rest)
    rules, start = rest.rules.clamp(min=RARE), rest.start.clamp(min=RARE)
    return maximise(model, replace(rest, rules=rules, start=start))


# What training has come to, and its two phases.


TIED_PRIOR = 5.0  # uses of levels that weights are taken to have come from, the same for all tags
TAG_PRIOR = 20.0  # uses that a preterminal's own weights need to count as much as the common ones
TREEBANK_USES = 30.0  # uses of each phrase that a treebank's rules count for beside the text
MOST_JUDGED = 60_000  # tokens enough to fit weights to: further folds are left aside
SOME_BATCHES, SOME_STEPS = 3, 5  # that starts are compared by


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


@final
@dataclass(frozen=True, eq=False)
class CompositeState:
    """Everything that training moves."""

    model: CompositeModel
    documents: Float[Tensor, "d h"]
    tag_of_word: Float[Tensor, "w a"]
    common: Float[Tensor, "b a l"]  # weights as if preterminals were one
    strength: float  # tokens that the prior of topic shares is worth

    def tensors(self) -> Parameters:
        """The numbers by name."""
        strength = torch.tensor(self.strength, dtype=torch.float64)
        own = {"documents": self.documents, "tag_of_word": self.tag_of_word, "common": self.common}
        return {**self.model.tensors(), **own, "strength": strength}

    def with_tensors(self, tensors: Parameters) -> CompositeState:
        """The same with other numbers."""
        own = {name: tensors[name] for name in ("documents", "tag_of_word", "common")}
        model, strength = self.model.with_tensors(tensors), float(tensors["strength"])
        return CompositeState(model, strength=strength, **own)

    @property
    def prior(self) -> Figures:
        """The shares of topics in the training text, no topic left out altogether."""
        shares = self.documents.double().mean(dim=0).cpu().numpy() + 1e-6
        return np.asarray(shares / shares.sum())


@final
@dataclass(frozen=True, eq=False)
class Progress:
    """What training has come to: the one record that a checkpoint holds."""

    state: CompositeState
    best: CompositeState  # as it was when the folds were most probable
    held: tuple[float, ...] = ()  # log-likelihoods of the folds after each fit of weights
    history: tuple[Row, ...] = ()
    reason: str = ""
    rounds: int = 0  # of the text that are over, or under way

    def tensors(self) -> Parameters:
        """The record as tensors."""
        rows = [[row.iteration, row.value, row.seconds] for row in self.history]
        return {
            **self.state.tensors(),
            **{f"best.{name}": value for name, value in self.best.tensors().items()},
            "held": torch.tensor(self.held, dtype=torch.float64),
            "rows": torch.tensor(rows, dtype=torch.float64).reshape(-1, 3),
            "rounds": torch.tensor(self.rounds, dtype=torch.float64),
        }

    def with_tensors(self, tensors: Parameters) -> Progress:
        """The record that tensors hold."""
        rows = (
            Row(int(i), value, float("nan"), 1.0, int(i), seconds)
            for i, value, seconds in tensors["rows"].tolist()
        )
        return Progress(
            self.state.with_tensors(tensors),
            self.best.with_tensors(under("best.", tensors)),
            tuple(tensors["held"].tolist()),
            tuple(rows),
            rounds=int(tensors["rounds"]),
        )


@final
@dataclass(frozen=True, eq=False)
class Trainer:
    """What the phases of one training share; each takes a record and gives the next one."""

    settings: CompositeSettings
    executor: Executor
    folds: Folds
    shape: CompositeShape
    prior: RulePrior

    def text_batches(self, tag_of_word: Float[Tensor, "w a"]) -> list[Batch]:
        """The text, with what the n-gram models of other folds make of it."""
        scores = self.folds.scores(tag_of_word)
        return [own for _, own in batches(self.folds.text, scores, self.shape, self._longest)]

    def deleted_models(self, state: CompositeState) -> tuple[CompositeState, list[FoldTrial]]:
        """Folds of the text, each with the model of the others, and which words have which tags.

        Topic shares are those that the sentences before in a document tell.
        """
        counts = [self._counts(state, fold) for fold in self.folds.each]
        tags = torch.stack([found.tags for found in counts]).sum(dim=0)
        model = replace(state.model, tags=tags.sum(dim=0) / tags.sum())
        models, texts, ready = [], [], []
        for number in self._judged():
            rest, fold = counts_of_others(counts, number), self.folds.each[number]
            models.append(deleted_model(model, rest, self.prior))
            texts.append(fold.text)
            own, rows = fold.scores(self._tag_shares(rest.tags)), np.arange(len(fold.text))
            ready.append(list(batches(fold.text, own, self.shape, self._longest, rows)))
        strength, shares = best_strength(models, texts, ready, state.prior)
        trials = [
            FoldTrial(model, torch.from_numpy(own).to(state.documents), _derived(pairs))
            for model, own, pairs in zip(models, shares, ready, strict=True)
        ]
        tag_of_word = self._tag_shares(tags)
        return replace(state, model=model, tag_of_word=tag_of_word, strength=strength), trials

    def learn_weights(self, progress: Progress, *, tied: bool) -> tuple[Progress, bool]:
        """Fits weights of levels to the folds; True where the user asked to stop.

        Tied, they are first fitted as if all preterminals were one.
        """
        settings, seen = self.settings, list[tuple[float, Tensor]]()
        with interruptible(announce=settings.progress) as interrupt:
            state, trials = self.deleted_models(progress.state)
        em = replace(settings.em, max_iterations=settings.weight_steps)
        weights, common, stopped = state.model.weights, state.common, interrupt.asked
        if tied and not stopped:
            step = weight_step(trials, self.executor, weights, TIED_PRIOR, tied=True, seen=seen)
            outcome = em.fit(step, {"weights": weights})
            weights = common = outcome.model["weights"]
            stopped = outcome.ending == "interrupted"
        if stopped:
            model = replace(state.model, weights=weights)
            return replace(progress, state=replace(state, model=model, common=common)), True
        step = weight_step(trials, self.executor, common, TAG_PRIOR, tied=False, seen=seen)
        outcome = em.fit(step, {"weights": weights})
        value, used = seen[-1]
        model = replace(state.model, weights=outcome.model["weights"])
        state = replace(state, model=model, common=common_weights(used, TIED_PRIOR))
        best = state if value >= max(progress.held, default=value) else progress.best
        progress = replace(progress, state=state, best=best, held=(*progress.held, value))
        return progress, outcome.ending == "interrupted"

    def learn_text(self, progress: Progress, *, resume: bool) -> tuple[Progress, bool]:
        """Fits words, rules and topic shares to the training text; True where asked to stop."""
        settings, train = self.settings, list[Batch]()

        def step(parameters: Parameters) -> tuple[float, Parameters]:
            if not train:  # a resumed training knows its tags only now
                train.extend(self.text_batches(parameters["tag_of_word"]))
            return text_step(parameters, progress.state.model, train, self.executor, self.prior)

        em = replace(settings.em, max_iterations=-(-settings.em.max_iterations // settings.rounds))
        outcome = em.fit(
            step,
            progress.tensors(),
            identity={"seed": settings.seed},
            progress=settings.progress,
            checkpoint=settings.checkpoint,
            resume=resume,
        )
        progress = progress.with_tensors(outcome.model)
        history = (*progress.history, *outcome.history)
        progress = replace(progress, history=history, reason=outcome.reason)
        return progress, outcome.ending == "interrupted"

    def run(self, progress: Progress) -> Progress:
        """Alternates the two, from the beginning or from a checkpoint.

        Of the models between rounds the one under which the folds are most probable is kept.
        """
        resume, stopped = self.settings.resume, False
        while resume or progress.rounds < self.settings.rounds:
            if not resume:
                progress, stopped = self.learn_weights(progress, tied=progress.rounds == 0)
                progress = replace(progress, rounds=progress.rounds + 1)
            if not stopped:
                progress, stopped = self.learn_text(progress, resume=resume)
            if stopped:
                return progress
            resume = False
        progress, _ = self.learn_weights(progress, tied=False)
        return replace(progress, state=progress.best)

    @property
    def _longest(self) -> int | None:
        """The most words of a sentence with a derivation; without a grammar there are none."""
        return None if self.shape.grammar is None else self.settings.longest

    def _counts(self, state: CompositeState, fold: Fold) -> Expected:
        """The expected counts of one fold, with topic shares of each document."""
        scores = fold.scores(state.tag_of_word)
        own = [batch for _, batch in batches(fold.text, scores, self.shape, self._longest)]
        return expect(state.model, state.documents, own, self.executor)

    def _tag_shares(self, tags: Float[Tensor, "w a"]) -> Float[Tensor, "w a"]:
        ends = self.shape.grammar is None
        return tag_shares_of_words(tags, None if ends else self.shape.index.separator)

    def _judged(self) -> range:
        """The first folds, as many as weights need."""
        sizes = np.cumsum([len(fold.text.stream) for fold in self.folds.each])
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
    begun = [_begin(settings, executor, shape, folds, topics, start) for start in starts]
    trainer, state = begun[0] if len(begun) == 1 else min(begun, key=lambda one: _promise(*one))
    progress = trainer.run(Progress(state, state))
    state = progress.state
    return CompositeFit(
        state.model,
        NgramLevel.learn(text.stream, order, vocabulary) if order else None,
        state.tag_of_word.double().cpu().numpy(),
        state.prior,
        state.strength,
        progress.history,
        progress.held,
        progress.reason,
    )


def _begin(
    settings: CompositeSettings,
    executor: Executor,
    shape: CompositeShape,
    folds: Folds,
    topics: PLSA,
    start: GrammarStart,
) -> tuple[Trainer, CompositeState]:
    """A training before its first step."""
    guess = start.tag_of_word.clone()
    if shape.grammar is not None:
        guess[shape.index.separator] = 0
    train = [batch for _, batch in batches(folds.text, folds.scores(guess), shape)]
    given = folds.each[0].level is not None
    model = start_model(shape, train, topics, start, given).to(settings.device)
    model = model.with_tensors({n: t.to(settings.kind) for n, t in model.tensors().items()})
    shares = torch.from_numpy(topics.documents).to(settings.device, settings.kind)
    treebank = shape.grammar is not None and not shape.grammar.dense
    prior = RulePrior.around(model, TREEBANK_USES if treebank else 0.0)
    trainer = Trainer(settings, executor, folds, model.shape, prior)
    return trainer, CompositeState(model, shares, guess, model.weights, 10.0)


def _promise(trainer: Trainer, state: CompositeState) -> float:
    """How improbable some of the text is after a few steps."""
    train = trainer.text_batches(state.tag_of_word)
    some = ([batch for batch in train if batch.charted] or train)[:SOME_BATCHES]

    def step(parameters: Parameters) -> tuple[float, Parameters]:
        return text_step(parameters, state.model, some, trainer.executor, trainer.prior)

    return replace(trainer.settings.em, max_iterations=SOME_STEPS).fit(step, state.tensors()).value

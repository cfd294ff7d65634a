"""One training of the composite model: words, rules and topics in turns with weights of levels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.execution.executor import Executor
from mrflearn.features.ngrams import Counts
from mrflearn.models.composite_lm import CompositeModel
from mrflearn.models.hidden_backoff import common_weights
from mrflearn.objectives.expected_counts import Batch, Expected, ExpectedCounts
from mrflearn.training.checkpoint import Checkpoint, read_checkpoint
from mrflearn.training.composite import RulePrior, TextStep, Trial, WeightStep, checked
from mrflearn.training.composite_batches import batches
from mrflearn.training.composite_folding import best_strength
from mrflearn.training.composite_folds import Folds, deleted, total
from mrflearn.training.composite_start import tag_shares_of_words
from mrflearn.training.em import EM, Parameters
from mrflearn.training.interrupt import interruptible
from mrflearn.training.outcome import Row

Figures: TypeAlias = NDArray[np.float64]
TIED_PRIOR = 5.0  # uses of levels that weights are taken to have come from, the same for all tags
TAG_PRIOR = 20.0  # uses that a preterminal's own weights need to count as much as the common ones
CARRIED = ("tag_of_word", "common")  # what a checkpoint needs beside the model's own numbers
TREEBANK_USES = 30.0  # uses of each phrase that a treebank's rules count for beside the text
MOST_JUDGED = 60_000  # tokens enough to fit weights to: further folds are left aside


@final
@dataclass(frozen=True)
class Settings:
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


class Best(NamedTuple):
    """A model as it was when held-out text was most probable."""

    model: CompositeModel
    documents: Float[Tensor, "d h"]
    tag_of_word: Float[Tensor, "w a"]
    strength: float


@final
@dataclass(eq=False)
class Trainer:
    """One training under way: text in batches, the model so far, and what was seen."""

    settings: Settings
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
    best: Best | None = None
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

    def judge(self) -> list[Trial]:
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
            Trial(model, torch.from_numpy(own).to(self.documents), _derived(pairs))
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
            self.best = Best(self.model, self.documents, self.tag_of_word, self.strength)
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

"""Training of the composite model from documents: division, start, rounds of EM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.data.vocabulary import Vocabulary
from mrflearn.execution.executor import Executor
from mrflearn.models.composite_lm import CompositeModel, CompositeShape
from mrflearn.models.ngram_level import NgramLevel
from mrflearn.models.plsa import PLSA
from mrflearn.objectives.expected_counts import Batch
from mrflearn.statistics.document_stream import DocumentStream, EncodedDocument
from mrflearn.statistics.ngrams import Counts
from mrflearn.training.checkpoint import Checkpoint, read_checkpoint
from mrflearn.training.composite import TextStep, WeightStep, tags_of_words
from mrflearn.training.composite_batches import Given, batches
from mrflearn.training.composite_folding import best_strength
from mrflearn.training.composite_start import (
    GrammarStart,
    start_model,
    start_topics,
    tag_shares_of_words,
)
from mrflearn.training.em import EM, Parameters
from mrflearn.training.outcome import Row

Figures: TypeAlias = NDArray[np.float64]
FOLDS = 5
HELD_OUT = 10  # every so many documents one is held out


@final
@dataclass(frozen=True, eq=False)
class Division:
    """Documents for training and held-out ones; `unit` numbers what is not divided further."""

    train: DocumentStream
    unit: Counts
    held: DocumentStream | None


def divide(documents: Sequence[EncodedDocument], separator: int) -> Division:
    """Every tenth document is held out, or every tenth sentence where documents are few.

    Texts of fewer than ten sentences hold out nothing.
    """
    names = list(range(len(documents)))
    if len(documents) >= HELD_OUT:
        kept = [n for n in names if n % HELD_OUT != HELD_OUT - 1]
        out = [n for n in names if n % HELD_OUT == HELD_OUT - 1]
        train = DocumentStream.of([documents[n] for n in kept], separator, range(len(kept)))
        held = DocumentStream.of([documents[n] for n in out], separator, range(len(out)))
        return Division(train, train.document, held if len(held) else None)
    spoken = [[words for words in sentences if len(words)] for sentences in documents]
    chosen = HELD_OUT - 1
    inner = [[w for i, w in enumerate(d) if i % HELD_OUT != chosen] for d in spoken]
    outer = [[w for i, w in enumerate(d) if i % HELD_OUT == chosen] for d in spoken]
    train, held = (DocumentStream.of(part, separator, names) for part in (inner, outer))
    return Division(train, np.arange(len(train)), held if len(held) else None)


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


@final
@dataclass(frozen=True, eq=False)
class CompositeFit:
    """A trained model, the n-gram model of all documents, and how new documents begin."""

    model: CompositeModel
    ngrams: NgramLevel | None
    tag_of_word: Figures  # p(preterminal | word), which the n-gram model is told tags by
    prior: Figures  # shares of topics in the training text
    strength: float  # tokens that the prior is worth
    history: tuple[Row, ...]  # of the training text, round after round
    held_out: tuple[float, ...]  # log-likelihoods of the held-out text between rounds, in nats
    reason: str


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
    given: Given
    held_given: Given | None
    model: CompositeModel
    documents: Float[Tensor, "d h"]
    tag_of_word: Float[Tensor, "w a"]
    strength: float = 10.0
    history: list[Row] = field(default_factory=list)
    held_values: list[float] = field(default_factory=list)
    reason: str = ""
    train: list[Batch] = field(default_factory=list)
    held: list[tuple[Counts, Batch]] = field(default_factory=list)
    best: Best | None = None

    def prepare(self) -> None:
        """Puts the texts into batches, with what the n-gram model makes of them by now."""
        shape, longest = self.model.shape, self.settings.longest
        shares = self.tag_of_word.double().cpu().numpy()
        values = self.given.values(shares)
        self.train = [b for _, b in batches(self.given.text, values, shape, longest=longest)]
        if self.held_given is not None:
            text = self.held_given.text
            rows = np.arange(len(text))
            values = self.held_given.values(shares)
            self.held = list(batches(text, values, shape, longest=longest, row_of_sentence=rows))

    @property
    def prior(self) -> Figures:
        """The shares of topics in the training text, no topic left out altogether."""
        shares = self.documents.double().mean(dim=0).cpu().numpy() + 1e-6
        return np.asarray(shares / shares.sum())

    def learn_weights(self, *, tied: bool) -> bool:
        """Fits weights of levels to held-out text, or else to the training text.

        True where the user asked to stop.
        """
        documents, batches_ = self.documents, self.train
        if self.held_given is not None:
            text = self.held_given.text
            self.strength, shares = best_strength(self.model, text, self.held, self.prior)
            documents = torch.from_numpy(shares).to(self.documents)
            batches_ = [batch for _, batch in self.held]
        step = WeightStep(self.model, documents, batches_, self.executor, tied=tied)
        em = replace(self.settings.em, max_iterations=self.settings.weight_steps)
        outcome = em.fit(step, {"weights": self.model.weights})
        self.model = replace(self.model, weights=outcome.model["weights"])
        if self.best is None or step.seen[-1] >= max(self.held_values):
            self.best = Best(self.model, self.documents, self.tag_of_word, self.strength)
        self.held_values.append(step.seen[-1])
        return outcome.ending == "interrupted"

    def learn_text(self, number: int, *, resume: bool) -> bool:
        """Fits words, rules and topic shares to the training text; True where asked to stop."""
        settings = self.settings
        step = TextStep(self.model, self.train, self.executor)
        each = -(-settings.em.max_iterations // settings.rounds)
        em = replace(settings.em, max_iterations=each)
        outcome = em.fit(
            step,
            step.start(self.documents),
            identity={"round": number, "seed": settings.seed},
            progress=settings.progress,
            checkpoint=settings.checkpoint,
            resume=resume,
        )
        parameters: Parameters = dict(outcome.model)
        self.documents = parameters.pop("documents")
        self.model = self.model.with_tensors(parameters)
        self.history += outcome.history
        self.reason = outcome.reason
        if outcome.ending == "interrupted":
            return True
        self.learn_tags()
        return False

    def learn_tags(self) -> None:
        """Takes over how words have preterminals by now, and tells the n-gram model."""
        counts = tags_of_words(self.model, self.documents, self.train, self.executor)
        separator = self.model.shape.index.separator
        ends = self.model.shape.grammar is None
        self.tag_of_word = tag_shares_of_words(counts, None if ends else separator)
        self.model = replace(self.model, tags=counts.sum(dim=0) / counts.sum())
        self.prepare()

    def run(self) -> None:
        """Alternates the two, from the first round or the one a checkpoint is in.

        Of the models between rounds the one that held-out text is most probable under is kept.
        """
        settings, first = self.settings, 0
        if settings.resume and settings.checkpoint is not None:
            first = int(read_checkpoint(settings.checkpoint.path)[0].get("round", 0))
        for number in range(first, settings.rounds):
            resume = settings.resume and number == first
            if not resume and self.learn_weights(tied=number == 0):
                return
            if self.learn_text(number, resume=resume):
                return
        self.learn_weights(tied=False)
        if self.held_given is not None and self.best is not None:
            self.model, self.documents, self.tag_of_word, self.strength = self.best


def fit_composite(
    documents: Sequence[EncodedDocument],
    vocabulary: Vocabulary,
    shape: CompositeShape,
    order: int,
    starts: Sequence[GrammarStart],
    settings: Settings,
    executor: Executor,
) -> CompositeFit:
    """The model trained on documents, from the best of several starts.

    `order` 0: without an n-gram model.
    """
    parts = divide(documents, vocabulary.separator)
    given, held = Given.whole(parts.train, None), None
    if order:
        given = Given.deleted(parts.train, parts.unit, order, vocabulary, FOLDS)
    if parts.held is not None:
        rest = NgramLevel.learn(parts.train.stream, order, vocabulary) if order else None
        held = Given.whole(parts.held, rest)
    topics = start_topics(parts.train, shape, len(documents), settings.seed)
    trainers = [
        _begin(settings, executor, shape, given, held, topics, start, vocabulary.separator)
        for start in starts
    ]
    trainer = _best_start(trainers)
    trainer.run()
    everything = DocumentStream.of(documents, vocabulary.separator, range(len(documents)))
    ngrams = NgramLevel.learn(everything.stream, order, vocabulary) if order else None
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
    settings: Settings,
    executor: Executor,
    shape: CompositeShape,
    given: Given,
    held: Given | None,
    topics: PLSA,
    start: GrammarStart,
    separator: int,
) -> Trainer:
    """A training before its first step."""
    guess = start.tag_of_word.clone()
    if shape.grammar is not None:
        guess[separator] = 0
    values = given.values(guess.numpy())
    train = [batch for _, batch in batches(given.text, values, shape)]
    model = start_model(shape, train, topics, start, bool(given.judges)).to(settings.device)
    model = model.with_tensors({n: t.to(settings.kind) for n, t in model.tensors().items()})
    shares = torch.from_numpy(topics.documents).to(settings.device, settings.kind)
    trainer = Trainer(settings, executor, given, held, model, shares, guess)
    trainer.prepare()
    return trainer


def _best_start(trainers: list[Trainer]) -> Trainer:
    """The start whose text is most probable after a few steps on some of it."""
    if len(trainers) == 1:
        return trainers[0]
    values = []
    for trainer in trainers:
        some = [batch for batch in trainer.train if batch.charted][:3]
        step = TextStep(trainer.model, some or trainer.train[:3], trainer.executor)
        em = replace(trainer.settings.em, max_iterations=5)
        values.append(em.fit(step, step.start(trainer.documents)).value)
    return trainers[int(np.argmin(values))]

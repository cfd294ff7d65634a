"""Training of the composite model from documents: folds, a start, rounds of EM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray

from mrflearn.execution.executor import Executor
from mrflearn.features.document_stream import DocumentStream, EncodedDocument
from mrflearn.io.vocabulary import Vocabulary
from mrflearn.models.composite_lm import CompositeModel, CompositeShape
from mrflearn.models.ngram_level import NgramLevel
from mrflearn.models.plsa import PLSA
from mrflearn.training.composite import TextStep
from mrflearn.training.composite_batches import batches
from mrflearn.training.composite_folds import Folds, fold_numbers
from mrflearn.training.composite_start import GrammarStart, start_model, start_topics
from mrflearn.training.composite_trainer import Settings, Trainer
from mrflearn.training.outcome import Row

Figures: TypeAlias = NDArray[np.float64]


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
    settings: Settings,
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
    settings: Settings,
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

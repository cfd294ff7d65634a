"""Training of the trigram field: moments in, a fitted and certified model out."""

from __future__ import annotations

from dataclasses import replace

import torch

from mrflearn.errors import SettingsError
from mrflearn.estimators.lifted_training import LiftedFit, LiftedSettings
from mrflearn.execution.resources import choose_device, choose_dtype, require_memory
from mrflearn.features.moments import Moments
from mrflearn.graph.trigrams import OFFSETS
from mrflearn.inference.trigrams import certified
from mrflearn.models.trigrams import MOST_ORDER, TrigramModel
from mrflearn.objectives.trigrams import (
    FEW_WORDS,
    TrigramFrequencies,
    TrigramLikelihood,
    trigram_penalty,
    trigram_scaling,
)
from mrflearn.training.adam import Adam
from mrflearn.training.loop import minimise
from mrflearn.training.outcome import EarlyStopping

MOST_WORDS = {"cpu": 5_000, "cuda": 40_000}
LOOKS = 20  # at the validation text, each of which costs an evaluation
TABLES = 20  # of C^2 numbers of training that are held at once; its certificate's count twice


def train_trigrams(
    moments: Moments, settings: LiftedSettings, valid: Moments | None = None
) -> LiftedFit[TrigramModel]:
    """The trigram field of these moments; with validation moments, the best on them.

    Training goes its whole length: on the way to the best model held-out text is often worse for a
    while.
    """
    device = choose_device(settings.device)
    _check(moments, settings, device)
    usual = "float64" if moments.states <= FEW_WORDS else "float32"
    like = torch.zeros(1, dtype=choose_dtype(settings.dtype or usual), device=device)
    start = starting_point(moments, settings, like)
    scores = start.potentials()
    objective = TrigramLikelihood(start, TrigramFrequencies.of(moments, like, scores))
    callbacks = []
    if valid is not None:
        seen = TrigramFrequencies.of(valid, like, scores)
        look = EarlyStopping(
            lambda model: objective.validation_bound(model, seen),
            patience=settings.max_iterations + 1,
            every=max(1, settings.max_iterations // LOOKS),
        )
        callbacks = [look]
    steps = settings.max_iterations
    outcome = minimise(
        objective,
        Adam(0.012, steps, beta2=0.99, epsilon=1e-12, length=max(steps, 1), ramp=15),
        penalty=trigram_penalty(start, moments, settings.l1, settings.l2),
        scaling=trigram_scaling(start, moments),
        callbacks=callbacks,
        progress=settings.progress,
        checkpoint=settings.checkpoint,
        resume=settings.resume,
        data=(settings, moments, valid),
        seed=settings.seed,
    )
    model, reason = outcome.model.without_zeros(), outcome.reason
    if outcome.ending == "limit":
        reason = f"all {steps} steps are done: the learning rate has fallen to 0."
    # The same field before zeros are left out, whose states the vector is over.
    proven = certified(outcome.model.potentials(), objective.committed[1])
    return LiftedFit(replace(outcome, model=model, reason=reason), proven.bound)


def _check(moments: Moments, settings: LiftedSettings, device: torch.device) -> None:
    if settings.bound == "stars" or settings.weights is not None:
        raise SettingsError(
            "scores of three words in a row have the bound by windows, which has no weights: "
            "choose bound 'windows', and leave weights out."
        )
    if moments.context != 2:
        raise SettingsError(
            f"scores of three words in a row are for a context of 2, not of {moments.context}."
        )
    if not OFFSETS < settings.order <= MOST_ORDER:
        raise SettingsError(f"order={settings.order}: n-grams of 3 to {MOST_ORDER} words.")
    if moments.states > MOST_WORDS[device.type]:
        raise SettingsError(
            f"{moments.states:,} words are too many for scores of three in a row (at most "
            f"{MOST_WORDS[device.type]:,} here). Try a GPU (device cuda), or a smaller vocabulary "
            "(vocabulary_size)."
        )
    size = 8 if moments.states <= FEW_WORDS else 4
    require_memory(
        TABLES * size * moments.states**2,
        f"training scores of three words in a row of {moments.states:,} words",
        "Try a smaller vocabulary (vocabulary_size=...).",
        device,
    )


def starting_point(moments: Moments, settings: LiftedSettings, like: torch.Tensor) -> TrigramModel:
    """Where training begins: at an earlier model if one is given, else at independent words."""
    start = TrigramModel.start(moments, settings.dims, settings.seed, like, settings.order)
    earlier = settings.start
    if earlier is None:
        return start
    if not isinstance(earlier, TrigramModel) or earlier.states != start.states:
        raise SettingsError(
            "the earlier model has other words, or no sparse scores of three words in a row: "
            "training cannot go on from it. Set warm_start=False."
        )
    return start.with_scores_of(earlier.to(like.device, like.dtype))

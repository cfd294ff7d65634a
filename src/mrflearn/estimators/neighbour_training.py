"""A fitted neighbour model by pseudolikelihood or, for small vocabularies, maximum likelihood."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from mrflearn.estimators.lifted_choice import ChosenBound
from mrflearn.estimators.lifted_training import LiftedFit, LiftedSettings, starting_point
from mrflearn.execution.device import choose_device
from mrflearn.features.moments import Moments
from mrflearn.inference.transfer import check_windows
from mrflearn.models.neighbour_lm import NeighbourModel
from mrflearn.objectives.lifted_bound import Frequencies
from mrflearn.objectives.neighbour_pseudolikelihood import Gaps, NeighbourPseudolikelihood
from mrflearn.objectives.penalties import L2
from mrflearn.objectives.ring_likelihood import RingLikelihood
from mrflearn.training.adagrad import Adagrad
from mrflearn.training.fitting import fit
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.outcome import Outcome

Direct = Literal["pl", "pl-sgd", "ml"]
WORDS_A_BATCH = {"pl": 1024, "pl-sgd": 100}
EPOCHS, RATE = 5, 0.05
TOLERANCES = {"pl": 1e-6, "ml": 1e-8}  # of the relative norm of the gradient


def train_direct(
    estimator: Direct, moments: Moments, ids: NDArray[np.int32] | None, settings: LiftedSettings
) -> LiftedFit:
    """The model that is best by the likelihood itself (`ml`) or by each word given the others.

    `pl` is by L-BFGS over the whole text, `pl-sgd` by minibatches of 100 words with rates that
    fall by Adagrad.  The penalty is that of the bounds: `l2` times the number of positions.
    """
    chosen = ChosenBound.of(settings.bound, settings.weights, moments, triples=settings.triples)
    device = choose_device(settings.device)
    if estimator == "ml":
        instead = "Try estimator='bound' or 'pl', or a smaller vocabulary."
        check_windows(moments.states, len(moments.offsets), instead)
    start = starting_point(moments, settings, chosen.weights).model.to(
        torch.float64 if estimator == "ml" else torch.float32, device
    )
    outcome: Outcome[NeighbourModel]
    if estimator == "ml":
        outcome = fit(
            start,
            Frequencies.of(moments, start.unary),
            RingLikelihood(moments.positions),
            _lbfgs(estimator, settings),
            penalty=L2(settings.l2, exclude=("unary",)),
            progress=settings.progress,
        )
    else:
        assert ids is not None and moments.separator is not None  # noqa: S101, PT018
        gaps = Gaps.of(ids, moments.separator, start.offsets).to(device)
        by_epochs = Adagrad(rate=RATE, epochs=EPOCHS)
        outcome = fit(
            start,
            gaps.split(WORDS_A_BATCH[estimator]),
            NeighbourPseudolikelihood(moments.separator),
            by_epochs if estimator == "pl-sgd" else _lbfgs(estimator, settings),
            penalty=L2(settings.l2 * moments.positions, exclude=("unary",)),
            progress=settings.progress,
            seed=settings.seed,
        )
    model = outcome.model
    duals = model.unary.new_zeros(model.offsets, model.states)
    return LiftedFit(model, duals, chosen.ceiling(model, duals), outcome)


def _lbfgs(estimator: Direct, settings: LiftedSettings) -> LBFGS:
    tolerance = TOLERANCES[estimator] if settings.tolerance is None else settings.tolerance
    return LBFGS(settings.max_iterations, tolerance=tolerance)

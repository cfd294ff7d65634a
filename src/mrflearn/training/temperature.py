"""One number fitted after training: how much to believe a chain's scores.

[Guo et al. 2017, On calibration of modern neural networks, section 4.2], for whole sequences.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.kernels import chain_sums
from mrflearn.kernels.chain_sums import Steps

COLDEST, HOTTEST = 0.01, 100.0


def fit_temperature(
    unary: Float[Tensor, "r s"],
    transition: Float[Tensor, "*q s s"],
    steps: Steps,
    truth_score: Float[Tensor, " b"],
) -> float:
    """The temperature T at which exp(score / T) makes held-out sequences most probable.

    `truth_score` is the score of each sequence's true assignment.  Above 1: the model was too
    sure.  The best sequence stays the same at every temperature.
    """
    possible = truth_score > -torch.inf  # no temperature makes the impossible probable
    if not bool(possible.any()):
        raise TrainingError(
            "no held-out sequence is possible under the model, so no temperature fits. Do the "
            "labels or the constraints contradict the data?"
        )
    total = float(truth_score[possible].double().sum())

    def surprise(log_cold: float) -> float:
        cold = float(np.exp(log_cold))
        value = chain_sums.log_partition(unary * cold, transition * cold, steps)
        return float(value[possible].double().sum()) - cold * total

    # Convex in 1 / T (log Z is convex in a scale of its scores), so unimodal in its logarithm.
    with torch.no_grad():
        best = minimize_scalar(
            surprise, bounds=(-np.log(HOTTEST), -np.log(COLDEST)), options={"xatol": 1e-4}
        )
    return float(np.exp(-best.x))

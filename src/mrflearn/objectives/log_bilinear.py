"""The log-bilinear model's negative log-likelihood, with its gradient written out.

One matrix of scores, turned into probabilities in place, serves value and gradient: about half the
time that automatic differentiation takes on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.models.log_bilinear import LogBilinearModel
from mrflearn.models.parameters import Layout


class Predictions(NamedTuple):
    """Contexts (the nearest symbol first) and the symbols that followed them."""

    contexts: Int[Tensor, "b k"]
    targets: Int[Tensor, "b"]


def value_and_gradient(
    layout: Layout, batch: Predictions, buffer: Float[Tensor, "p"]
) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """The function of one flat vector for `minimise`; its gradient lies in the shared buffer."""

    def function(vector: Float[Tensor, "p"]) -> tuple[Tensor, Tensor]:
        model = LogBilinearModel(**layout.unflatten(vector))
        gradient = LogBilinearModel(**layout.unflatten(buffer))
        return negative_log_likelihood(model, batch, gradient), buffer

    return function


def negative_log_likelihood(
    model: LogBilinearModel, batch: Predictions, gradient: LogBilinearModel
) -> Float[Tensor, ""]:
    """The value in nats, summed over the batch; its gradient is written into `gradient`."""
    contexts, targets = batch
    rows = torch.arange(len(targets), device=targets.device)
    near = model.vectors[contexts]
    expected = torch.einsum("bki,kij->bj", near, model.transitions)
    scores = torch.addmm(model.bias, expected, model.vectors.T)
    log_sums = scores.logsumexp(1)
    value = (log_sums - scores[rows, targets]).sum()
    error = scores.sub_(log_sums[:, None]).exp_()  # probabilities, less one at the truth
    error[rows, targets] -= 1
    torch.sum(error, 0, out=gradient.bias)
    torch.mm(error.T, expected, out=gradient.vectors)
    toward = error @ model.vectors
    gradient.transitions.copy_(torch.einsum("bki,bj->kij", near, toward))
    back = torch.einsum("bj,kij->bki", toward, model.transitions)
    gradient.vectors.index_add_(0, contexts.reshape(-1), back.reshape(-1, back.shape[-1]))
    return value

"""Minus the log-pseudolikelihood, from counts of each variable with its Markov blanket.

A variable given its neighbours is a local problem with that variable summed and the neighbours
given; the parameters are shared between the problems.  Once counted, the cost no longer depends
on the number of samples.  `Pseudolikelihood` is the same function of the rows themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.models.tabular import TabularModel
from mrflearn.objectives.local_auxiliary import LocalLikelihood


@dataclass(frozen=True, eq=False)
class BlanketCounts:
    """What was seen around some variables of one shape, and which parameters matter there."""

    problems: LocalLikelihood
    places: Int[Tensor, "p q"]  # of the terms, in the flat vector of all parameters


@dataclass(frozen=True)
class BlanketPseudolikelihood:
    """-sum over samples and variables of log p(variable | its neighbours)."""

    def __call__(self, model: TabularModel, batch: BlanketCounts) -> Float[Tensor, ""]:
        """Nats, summed over the weights of the batch."""
        flat = torch.cat([value.reshape(-1) for value in model.values])
        terms = flat[batch.places]
        value: Tensor = _Value.apply(terms, batch.problems)  # type: ignore[no-untyped-call]
        return value


class _Value(torch.autograd.Function):
    """The summed value of local problems; their gradient is known in closed form."""

    @staticmethod
    def forward(ctx: Any, terms: Float[Tensor, "p q"], problems: LocalLikelihood) -> Tensor:
        fit = problems.at(terms.detach())
        ctx.save_for_backward(problems.gradient(fit))
        return fit.value.sum()

    @staticmethod
    def backward(ctx: Any, upstream: Float[Tensor, ""]) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return upstream * gradient, None

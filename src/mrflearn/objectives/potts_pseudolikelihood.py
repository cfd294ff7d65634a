"""Minus the log-pseudolikelihood of a complete Potts field, by a kernel of its own.

[Ekeberg et al. 2013, eq. 17, with one coupling table a pair: the "symmetric" form, which CCMpred
(Seemayer et al. 2014) and plmc minimise.]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.coded_rows import CodedRows
from mrflearn.kernels.potts_pseudolikelihood import potts_pseudolikelihood
from mrflearn.models.potts import PottsModel, gather_pairs, spread


@dataclass(frozen=True, eq=False)
class CodedSamples:
    """Rows of states, indexed, each with its weight."""

    rows: CodedRows
    weights: Float[Tensor, "n"]


@dataclass(frozen=True)
class PottsPseudolikelihood:
    """-sum over samples and variables of log p(variable | all others)."""

    def __call__(self, model: PottsModel, batch: CodedSamples) -> Tensor:
        """Nats, summed over the weights of the batch."""
        value: Tensor = _Loss.apply(  # type: ignore[no-untyped-call]  # torch leaves it untyped
            model.full_fields(), model.couplings, batch
        )
        return value


class _Loss(torch.autograd.Function):
    """The kernel's value; its gradients come with it, so backward only hands them out."""

    @staticmethod
    def forward(ctx: Any, fields: Tensor, couplings: Tensor, batch: CodedSamples) -> Tensor:
        whole = spread(couplings, len(fields))
        found = potts_pseudolikelihood(fields, whole, batch.rows, batch.weights)
        ctx.save_for_backward(found.fields, gather_pairs(found.couplings))
        return found.value

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None]:
        fields, couplings = ctx.saved_tensors
        factor = outer.to(fields.dtype)
        return factor * fields, factor * couplings, None

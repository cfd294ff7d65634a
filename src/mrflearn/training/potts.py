"""Pseudolikelihood training of a complete Potts field from weighted rows of states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.execution.memory import require_memory
from mrflearn.io.files import PathLike
from mrflearn.kernels.coded_rows import CodedRows
from mrflearn.models.parameters import Layout
from mrflearn.models.potts import PottsModel
from mrflearn.objectives.base import Autograd
from mrflearn.objectives.penalty import Penalty
from mrflearn.objectives.pseudolikelihood import CodedSamples, PottsPseudolikelihood
from mrflearn.objectives.scaling import Diagonal
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import minimise
from mrflearn.training.outcome import Outcome

# Rows in one batch: keeps the block of scores of four positions in a processor's cache, or the
# one-hot matrix of a wide alignment in a GPU's memory.
BATCH = 8192
PSEUDOCOUNT = 0.2  # a state of each column that was never seen must not start at minus infinity


@final
@dataclass(frozen=True)
class PottsTraining:
    """L2 on fields and couplings (strength * sum of squares), and when to stop.

    `tolerance` is the relative fall of the objective over ten iterations that is not worth going
    on for.
    """

    l2_fields: float = 0.01
    l2_couplings: float = 0.2
    max_iterations: int = 200
    tolerance: float = 1e-4
    dtype: torch.dtype = torch.float32

    def __call__(
        self,
        rows: Int[Tensor, "n v"],
        weights: Float[Tensor, " n"],
        states: int,
        *,
        progress: bool = False,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Outcome[PottsModel]:
        """The field whose penalised pseudolikelihood is best, started without couplings."""
        variables = rows.shape[1]
        couplings = variables * (variables - 1) // 2 * states**2
        require_memory(
            self.dtype.itemsize * LBFGS().vectors_held * couplings,
            f"training the {couplings:,} couplings of {variables:,} columns",
            "Use fewer columns, or a device with more memory.",
            rows.device,
        )
        frequencies = _frequencies(rows, weights, states)
        start = _independent(frequencies, self.dtype)
        sizes = self._sizes(start, frequencies, float(weights.sum()))
        batches = [
            CodedSamples(CodedRows.of(part, states), weight.to(self.dtype))
            for part, weight in zip(rows.split(BATCH), weights.split(BATCH), strict=True)
        ]
        return minimise(
            Autograd(start, batches, PottsPseudolikelihood()),
            LBFGS(max_iterations=self.max_iterations, tolerance=None, delta=self.tolerance),
            penalty=Penalty(l2={"fields": self.l2_fields, "couplings": self.l2_couplings}),
            scaling=Diagonal(Layout.of(sizes).flatten(sizes)),
            progress=progress,
            checkpoint=checkpoint,
            resume=resume,
        )

    def _sizes(
        self, model: PottsModel, frequencies: Float[Tensor, "v s"], total: float
    ) -> dict[str, Tensor]:
        """One over the root of each parameter's curvature where variables are independent."""
        spread = frequencies * (1 - frequencies)
        fields = total * spread[:, 1:] + 2 * self.l2_fields
        first, second = model.pairs
        # Each coupling is read by the conditionals of both of its variables.
        couplings = total * (
            frequencies[first].unsqueeze(2) * spread[second].unsqueeze(1)
            + spread[first].unsqueeze(2) * frequencies[second].unsqueeze(1)
        )
        couplings += 2 * self.l2_couplings
        return {
            "fields": fields.rsqrt().to(self.dtype),
            "couplings": couplings.rsqrt().to(self.dtype),
        }


def _frequencies(
    rows: Int[Tensor, "n v"], weights: Float[Tensor, " n"], states: int
) -> Float[Tensor, "v s"]:
    variables = rows.shape[1]
    counts = torch.full((variables, states), PSEUDOCOUNT, dtype=torch.float64, device=rows.device)
    for chunk, weight in zip(rows.split(BATCH), weights.split(BATCH), strict=True):
        counts.scatter_add_(1, chunk.t(), weight.double().expand(variables, -1))
    return counts / counts.sum(dim=1, keepdim=True)


def _independent(frequencies: Float[Tensor, "v s"], dtype: torch.dtype) -> PottsModel:
    """The field without couplings that has these frequencies."""
    variables, states = frequencies.shape
    scores = frequencies.log()
    fields = (scores - scores[:, :1])[:, 1:].to(dtype)
    zeros = PottsModel.zeros(variables, states, dtype=dtype, device=frequencies.device)
    return replace(zeros, fields=fields)

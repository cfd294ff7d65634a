"""The published training loop: tighten the bound at every step, then move the parameters.

[Jernite, Rush, Sontag 2015, Algorithm 2]  The duals are found anew, by sub-gradient steps
(Algorithm 1) or L-BFGS, each time the parameters have moved; `LiftedBound` moves both together and
needs a small part of the work.  Kept as the reference.
"""

from __future__ import annotations

from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.inference.lifted import star_log_partition, tighten
from mrflearn.models.lifted import NeighbourModel
from mrflearn.objectives.base import Evaluation, Objective
from mrflearn.objectives.lifted_bound import Frequencies

Inner = Literal["subgradient", "lbfgs"]


@final
class AlternatingBound(Objective[NeighbourModel]):
    """A function to minimise: parameters -> (minus the tightened star bound, its gradient).

    `passes` counts rounds of belief propagation, the paper's unit of work.
    """

    def __init__(
        self,
        model: NeighbourModel,
        frequencies: Frequencies,
        *,
        inner: Inner = "subgradient",
        steps: int = 200,
        tolerance: float = 1e-6,
    ) -> None:
        self.model, self.frequencies = model, frequencies
        self.inner, self.steps, self.tolerance = inner, steps, tolerance
        self.duals = model.unary.new_zeros(model.offsets, model.states)
        self.passes = 0

    def __call__(self, vector: Float[Tensor, " p"]) -> Evaluation:
        leaf = vector.detach().requires_grad_(True)
        with torch.enable_grad():
            scores = self.at(leaf).scores()
            self._tighten(scores.unary, scores.left, scores.right)
            # [eq. 18] At tight duals the gradient of the minimum is that with the duals held.
            normaliser = star_log_partition(*scores.pairwise, self.duals)
            value = normaliser - self.frequencies.mean_score(scores)
        self.passes += 1
        return Evaluation(value.detach(), torch.autograd.grad(value, leaf)[0])

    def _tighten(self, unary: Tensor, left: Tensor, right: Tensor) -> None:
        held = unary.detach(), left.detach(), right.detach()
        if self.inner == "subgradient":
            self.duals, values = tighten(
                *held, self.duals, steps=self.steps, tolerance=self.tolerance
            )
            self.passes += len(values)
            return
        duals = self.duals.clone().requires_grad_(True)
        search = torch.optim.LBFGS(
            [duals], max_iter=self.steps, line_search_fn="strong_wolfe", tolerance_grad=1e-9
        )

        def evaluate() -> Tensor:
            search.zero_grad()
            value = star_log_partition(*held, duals)
            value.backward()
            self.passes += 1
            return value

        search.step(evaluate)
        self.duals = duals.detach()

"""The published training loop: tighten the bound at every step, then move the parameters.

[Jernite, Rush, Sontag 2015, Algorithm 2]  The duals are found anew, by sub-gradient steps
(Algorithm 1) or L-BFGS, each time the parameters have moved; `LiftedLikelihood` moves both together
and needs a small part of the work.
"""

from __future__ import annotations

from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.lifted import WordPotentials
from mrflearn.inference.lifted import star_log_partition
from mrflearn.models.lifted import NeighbourModel
from mrflearn.objectives.base import Evaluation, Objective
from mrflearn.objectives.lifted import WordFrequencies

Inner = Literal["subgradient", "lbfgs"]


@final
class AlternatingBound(Objective[NeighbourModel]):
    """A function to minimise: parameters -> (minus the tightened star bound, its gradient).

    `passes` counts rounds of belief propagation, the paper's unit of work.
    """

    def __init__(
        self,
        model: NeighbourModel,
        frequencies: WordFrequencies,
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
            potentials = self.at(leaf).potentials()
            self._tighten(potentials)
            # [eq. 18] At tight duals the gradient of the minimum is that with the duals held.
            normaliser = star_log_partition(potentials._replace(duals=self.duals))
            value = normaliser - self.frequencies.mean_score(potentials)
        self.passes += 1
        return Evaluation(value.detach(), torch.autograd.grad(value, leaf)[0])

    def _tighten(self, potentials: WordPotentials) -> None:
        held = WordPotentials(*(part.detach() for part in potentials[:3]))
        if self.inner == "subgradient":
            self.duals, values = tighten(
                held, self.duals, steps=self.steps, tolerance=self.tolerance
            )
            self.passes += len(values)
            return
        duals = self.duals.clone().requires_grad_(True)
        search = torch.optim.LBFGS(
            [duals], max_iter=self.steps, line_search_fn="strong_wolfe", tolerance_grad=1e-9
        )

        def evaluate() -> Tensor:
            search.zero_grad()
            value = star_log_partition(held._replace(duals=duals))
            value.backward()
            self.passes += 1
            return value

        search.step(evaluate)
        self.duals = duals.detach()


def tighten(
    potentials: WordPotentials,
    duals: Float[Tensor, "k c"],
    *,
    steps: int = 200,
    rate: float = 1e3,
    tolerance: float = 0.0,
) -> tuple[Float[Tensor, "k c"], list[float]]:
    """Duals after sub-gradient steps, and the bound on log Z / N before each [Algorithm 1].

    The rate is 10^3 / 2^t, t the number of steps so far after which the bound had not fallen
    [section 6]; steps end where copies of a word agree to within `tolerance` [eq. 13].  The duals
    that gave the lowest bound are handed back.
    """
    best, lowest = duals, float("inf")
    values: list[float] = []
    for _ in range(steps):
        value, disagreement = _value_and_disagreement(potentials, duals)
        if values and value >= values[-1]:
            rate /= 2
        values.append(value)
        if value < lowest:
            best, lowest = duals, value
        if float(disagreement.abs().amax()) <= tolerance:
            break
        duals = duals - rate * disagreement
    return best, values


def _value_and_disagreement(
    potentials: WordPotentials, duals: Tensor
) -> tuple[float, Float[Tensor, "k c"]]:
    """The bound, and by how much the copies' marginals differ from the centre's [eq. 16]."""
    leaf = duals.detach().requires_grad_(True)
    with torch.enable_grad():
        value = star_log_partition(potentials._replace(duals=leaf))
        (gradient,) = torch.autograd.grad(value, leaf)
    return float(value.detach()), gradient * (len(duals) + 1)

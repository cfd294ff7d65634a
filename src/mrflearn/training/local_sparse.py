"""Local problems with a price on every coupling: whole tables become exactly zero.

    minimise  likelihood + l2 * sum w^2 + l1 * sum over cliques of two or more |their parameters|

The norm of a clique's whole table is priced (the group lasso; for two states it is |w|).  Newton's
method again, with the price kept as it is: parameters without a price are eliminated from the
second-order model, and what is left, a few couplings, is minimised one table after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.local_shape import LocalShape
from mrflearn.objectives.local_auxiliary import LocalLikelihood
from mrflearn.training.local import LocalSolution

HALVINGS = 30
SWEEPS = 500


@dataclass(frozen=True)
class LocalProximal:
    """Minimises likelihood + L2 + group L1 for every problem."""

    l1: float
    l2: float = 0.0
    tolerance: float = 1e-7
    max_iterations: int = 100

    def __call__(self, problems: LocalLikelihood) -> LocalSolution:
        """The solution of every problem [Lee, Sun and Saunders 2014, proximal Newton]."""
        terms = torch.zeros_like(problems.observed)
        value = self._value(problems, terms)
        done = torch.zeros_like(value, dtype=torch.bool)
        stuck = done
        iterations = 0
        while iterations < self.max_iterations and not bool((done | stuck).all()):
            iterations += 1
            goal = self._model_minimum(problems, terms)
            length = torch.ones_like(value)
            for _ in range(HALVINGS):
                # A whole step lands on exact zeros.
                moved = torch.where(length < 1, terms + length * (goal - terms), goal)
                after = self._value(problems, moved)
                worse = ~(after <= value + 1e-13 * (value.abs() + problems.total))
                if not bool(worse.any()):
                    break
                length = torch.where(worse, length / 2, length)
            done = (goal - terms).abs().amax(dim=0) <= self.tolerance
            # Those that no half of the step made less stay where they are.
            stuck = worse & ~done
            terms, value = torch.where(worse, terms, moved), torch.where(worse, value, after)
        return LocalSolution(terms, value, iterations, done, stuck)

    def _model_minimum(
        self, problems: LocalLikelihood, centre: Float[Tensor, "p q"]
    ) -> Float[Tensor, "p q"]:
        """Where the second-order model of the smooth part, plus the price, is least."""
        fit = problems.at(centre)
        gradient = (problems.gradient(fit) + 2 * self.l2 * centre).T.unsqueeze(2)
        hessian = problems.hessian(fit)
        ridge = 2 * self.l2 + 1e-12 * problems.total.unsqueeze(1)
        hessian.diagonal(dim1=1, dim2=2).add_(ridge)
        spans = _priced(problems.shape)
        priced = torch.cat([torch.arange(span.start, span.stop) for span in spans])
        free = torch.tensor([p for p in range(len(centre)) if p not in set(priced.tolist())])
        here, there = priced.to(centre.device), free.to(centre.device, torch.int64)
        across = hessian[:, here][:, :, there]
        right = torch.cat([across.transpose(1, 2), gradient[:, there]], dim=2)
        solved = torch.linalg.solve(hessian[:, there][:, :, there], right)
        curvature = hessian[:, here][:, :, here] - across @ solved[:, :, :-1]
        slope = (gradient[:, here] - across @ solved[:, :, -1:]).squeeze(2)
        goal = centre.clone()
        goal[here] = self._in_turn(curvature, slope, centre[here].T, spans).T
        shift = (goal - centre)[here].T.unsqueeze(2)
        goal[there] -= (solved[:, :, -1:] + solved[:, :, :-1] @ shift).squeeze(2).T
        return goal

    def _in_turn(
        self,
        curvature: Float[Tensor, "q k k"],
        slope: Float[Tensor, "q k"],
        start: Float[Tensor, "q k"],
        spans: list[slice],
    ) -> Float[Tensor, "q k"]:
        """The least of a quadratic plus the price of each table, by descent table by table."""
        ends = torch.tensor([0, *(span.stop - span.start for span in spans)]).cumsum(0).tolist()
        tables = [slice(a, b) for a, b in pairwise(ends)]
        steepest = [torch.linalg.eigvalsh(curvature[:, t, t])[:, -1:] for t in tables]
        here, slope = start.clone(), slope.clone()
        for _ in range(SWEEPS):
            before = here.clone()
            for table, top in zip(tables, steepest, strict=True):
                goal = here[:, table] - slope[:, table] / top
                norm = goal.norm(dim=1, keepdim=True).clamp_min(1e-300)
                moved = goal * (1 - self.l1 / (top * norm)).clamp_min(0.0) - here[:, table]
                here[:, table] += moved
                slope += (curvature[:, :, table] @ moved.unsqueeze(2)).squeeze(2)
            if float((here - before).abs().max()) <= self.tolerance / 10:
                break
        return here

    def _value(self, problems: LocalLikelihood, terms: Float[Tensor, "p q"]) -> Float[Tensor, "q"]:
        norms = [terms[span].norm(dim=0) for span in _priced(problems.shape)]
        price = self.l1 * torch.stack([torch.zeros_like(problems.total), *norms]).sum(dim=0)
        return problems.at(terms).value + self.l2 * terms.square().sum(dim=0) + price


def _priced(shape: LocalShape) -> list[slice]:
    """Where the parameters of cliques of two or more stand."""
    pairs = zip(shape.spans, shape.touching, strict=True)
    return [span for span, places in pairs if len(places) > 1 and span.stop > span.start]

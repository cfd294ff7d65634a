"""Local problems with values missing: expectation and maximisation, a Newton step at a time.

A sample in which only some variables of a neighbourhood were seen counts with the probability of
what was seen, the rest summed out.  Right when what is missing does not depend on its own value.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.graph.local_shape import LocalShape
from mrflearn.kernels.reference_terms import with_missing, without_missing
from mrflearn.objectives.local_auxiliary import LocalLikelihood
from mrflearn.training.local import LocalNewton, LocalSolution


def solve_with_missing(
    shape: LocalShape, counts: Float[Tensor, "z q"], newton: LocalNewton
) -> LocalSolution:
    """The solution of every problem, from counts in which "not seen" is each variable's last state.

    A problem has converged where neither its terms nor what it expects to see move any more; one
    whose Newton step finds no better point is stuck.  At most `newton.max_iterations` rounds.
    The value is minus the log-likelihood of what was seen, as far as the auxiliary field says.
    """
    total = counts.sum(dim=0)
    expected = (total / shape.cells).expand(shape.cells, -1)
    terms = torch.zeros(len(shape.terms), counts.shape[1], dtype=counts.dtype, device=counts.device)
    rounds, done = 0, torch.zeros_like(total, dtype=torch.bool)
    stuck = done
    while rounds < newton.max_iterations and not bool((done | stuck).all()):
        rounds += 1
        completed = complete(shape, counts, expected)
        problems = LocalLikelihood.of(shape, completed)
        before = terms
        terms, fit, _, stuck = newton.step(problems, terms, problems.at(terms))
        shift = (fit.expected - expected).abs().amax(dim=0) / total
        expected = fit.expected
        moved = (terms - before).abs().amax(dim=0)
        done = (moved <= newton.tolerance) & (shift <= newton.tolerance) & ~stuck
    seen = with_missing(expected, shape.sizes) / total
    loss = -torch.where(counts > 0, counts * seen.log(), 0.0).sum(dim=0)
    loss = loss + newton.l2 * terms.square().sum(dim=0)
    return LocalSolution(terms, loss, rounds, done, stuck)


def complete(
    shape: LocalShape, counts: Float[Tensor, "z q"], expected: Float[Tensor, "x q"]
) -> Float[Tensor, "x q"]:
    """Counts of whole joint states: each partial one shared out as the current field would."""
    seen = with_missing(expected, shape.sizes)
    ratio = torch.where(counts > 0, counts / seen, 0.0)
    return expected * without_missing(ratio, shape.sizes)

"""Consensus: every variable learns alone, then neighbours agree [Liu and Ihler 2012].

Each variable given its neighbours is fitted by itself, so a coupling is learned once by each of its
variables.  The answers are averaged, each weighed by the inverse of its variance (their "linear
consensus" with diagonal weights): as parallel as LAP, and the competitor its paper names.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.features.neighbourhood_counts import Columns, neighbourhood_counts
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.models.tabular import TabularModel
from mrflearn.models.tabular_layout import ParameterLayout
from mrflearn.objectives.local_auxiliary import LocalLikelihood
from mrflearn.training.lap import Block, Mapper, insist_on_support, insist_on_untied, outcome_of
from mrflearn.training.local import LocalNewton, LocalSolution, cholesky_with_ridge
from mrflearn.training.outcome import Outcome


@dataclass(frozen=True, eq=False)
class Opinion:
    """What some variables have learned, and how sure each is of each parameter."""

    found: LocalSolution
    weight: Float[Tensor, "p q"]


@dataclass(frozen=True, eq=False)
class FormOpinion:
    """The task of one worker: each variable of a block given its neighbours."""

    newton: LocalNewton
    columns: Columns

    @torch.inference_mode()
    def __call__(self, block: Block) -> Opinion:
        problems, shape = block.problems, block.problems.shape
        counts = neighbourhood_counts(problems.scope, shape.sizes, self.columns)
        likelihood = LocalLikelihood.of(shape, counts)
        found = self.newton(likelihood)
        if not self.newton.l2:
            insist_on_support(problems, found.terms, counts)
        return Opinion(found, self._weight(likelihood, found))

    def _weight(self, likelihood: LocalLikelihood, found: LocalSolution) -> Float[Tensor, "p q"]:
        """The inverse variance of each parameter; about 0 where the samples say nothing of it.

        The ridge of Newton's method stands for what no sample says: its variance is then that of
        1 / ridge, some 1e13 times that of a parameter that is known.
        """
        hessian = likelihood.hessian(likelihood.at(found.terms))
        hessian.diagonal(dim1=1, dim2=2).add_(2 * self.newton.l2)
        factor, failed = cholesky_with_ridge(hessian, likelihood.total)
        variance = torch.cholesky_inverse(factor).diagonal(dim1=1, dim2=2).T
        known = ~failed & variance.isfinite() & (variance > 0)
        return torch.where(known, 1 / variance, 0.0)


def consensus(
    graph: FactorGraph, blocks: Iterable[Block], task: FormOpinion, mapper: Mapper = map
) -> Outcome[TabularModel]:
    """The field on which all variables agree, from blocks of `blankets`."""
    insist_on_untied(graph)
    started = time.perf_counter()
    layout = ParameterLayout.of(graph)
    total = torch.zeros(layout.size, dtype=torch.float64, device=graph.device)
    weight = torch.zeros_like(total)
    held, ended = list(blocks), []
    for block, opinion in zip(held, mapper(task, held), strict=True):
        places = layout.terms(block.problems).view(-1)
        total.index_add_(0, places, (opinion.weight * opinion.found.terms).to(total).reshape(-1))
        weight.index_add_(0, places, opinion.weight.to(total).reshape(-1))
        ended.append(opinion.found)
    # Where nobody has an opinion with any weight, the parameter stays at zero.
    model = layout.model(graph, torch.where(weight > 0, total / weight, 0.0))
    return outcome_of(model, ended, time.perf_counter() - started)

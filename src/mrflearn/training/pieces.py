"""Piecewise training of an untied field: each clique by itself, as if there were no other.

[Sutton and McCallum 2009, section 3]  A piece is one clique with a free table, fitted by maximum
likelihood to its own counts; the field is the product of all pieces.  Quick, and wrong by what the
pieces count twice; a baseline, and a start for others.
"""

from __future__ import annotations

import time
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.features.observations import CliqueCounts
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.gauges import reference_gauge
from mrflearn.graph.local_shape import LocalShape
from mrflearn.graph.neighbourhood import Neighbourhoods
from mrflearn.graph.potentials import DenseTable, Potentials
from mrflearn.kernels.reference_terms import scores_of_terms
from mrflearn.models.tabular import TabularModel
from mrflearn.objectives.local_auxiliary import LocalLikelihood
from mrflearn.training.lap import insist_on_support, insist_on_untied, outcome_of
from mrflearn.training.local import LocalNewton, LocalSolution
from mrflearn.training.outcome import Outcome


def pieces(graph: FactorGraph, counts: CliqueCounts, newton: LocalNewton) -> Outcome[TabularModel]:
    """The product of all cliques' own fields, from the counts of the cliques."""
    insist_on_untied(graph)
    started = time.perf_counter()
    tables, ended = [], []
    for group, seen in zip(graph.groups, counts.counts, strict=True):
        sizes = tuple(seen.shape[1:])
        flat = seen.reshape(len(group), -1).T.contiguous()
        shape = _saturated(sizes)
        found = newton(LocalLikelihood.of(shape, flat))
        if not newton.l2:
            hood = Neighbourhoods(shape, group.scope, group.table.unsqueeze(1))
            insist_on_support(hood, found.terms, flat)
        tables.append(DenseTable(_scores(shape, found).T.reshape(len(group), *sizes)))
        ended.append(found)
    model = TabularModel.from_potentials(reference_gauge(Potentials(graph, tuple(tables))))
    return outcome_of(model, ended, time.perf_counter() - started)


def _saturated(sizes: tuple[int, ...]) -> LocalShape:
    """One clique with all of its subsets: a free table."""
    whole = range(len(sizes))
    subsets = tuple(s for k in range(len(sizes), 0, -1) for s in combinations(whole, k))
    return LocalShape(sizes, len(sizes), subsets)


def _scores(shape: LocalShape, found: LocalSolution) -> Float[Tensor, "x q"]:
    terms = found.terms.new_zeros(shape.cells, found.terms.shape[1])
    terms[torch.from_numpy(shape.index).to(terms.device)] = found.terms
    return scores_of_terms(terms, shape.sizes)

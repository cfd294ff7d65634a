"""Likelihood and pseudolikelihood in coordinates in which their curvature is about one.

At the optimum the curvature of minus the log-likelihood is the covariance of the field's features,
and the data have nearly that covariance themselves (pseudolikelihood counts a pair up to twice, and
is of the same kind).  With C = L L' that curvature and

    w = start + L'^-1 u

the objective is nearly |u - u*|^2 / 2, and L-BFGS needs about ten evaluations where it needed
hundreds; each evaluation is a pass of exact inference, so nothing else matters.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.features.observations import Columns, neighbourhood_counts
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.models.tabular import ParameterLayout
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood
from mrflearn.training.lap import ProblemBlock

MOST_PARAMETERS = 3000  # the covariance is a square table
ROWS = 1 << 14


def feature_covariance(graph: FactorGraph, columns: Columns) -> Float[Tensor, "p p"]:
    """The covariance of the parameters' indicator features, summed over all samples."""
    layout = ParameterLayout.of(graph)
    size, total = layout.size, columns.total
    second = torch.zeros(size, size, dtype=torch.float64, device=graph.device)
    first = torch.zeros(size, dtype=torch.float64, device=graph.device)
    for begin in range(0, columns.states.shape[1], ROWS):
        states = columns.states[:, begin : begin + ROWS]
        features = _features(graph, layout, states)
        weighted = features
        if columns.weights is not None:
            weighted = features * columns.weights[begin : begin + ROWS]
        second += weighted @ features.T
        first += weighted.sum(dim=1)
    return second - torch.outer(first, first) / total


def conditional_curvature(
    graph: FactorGraph,
    blocks: Iterable[ProblemBlock],
    columns: Columns,
    weights: Float[Tensor, " p"],
) -> Float[Tensor, "p p"]:
    """The curvature of minus the log-pseudolikelihood at some weights, from blocks of blankets.

    It has full rank however few the samples, where their own covariance has not.
    """
    layout = ParameterLayout.of(graph)
    total = torch.zeros(layout.size**2, dtype=torch.float64, device=graph.device)
    for block in blocks:
        hood = block.problems
        counts = neighbourhood_counts(hood.scope, hood.shape.sizes, columns)
        problems = AuxiliaryLikelihood.of(hood.shape, counts)
        places = layout.terms(hood)
        hessian = problems.hessian(problems.at(weights[places]))
        where = places.T.unsqueeze(2) * layout.size + places.T.unsqueeze(1)
        total.index_add_(0, where.reshape(-1), hessian.reshape(-1))
    return total.view(layout.size, layout.size)


def _features(graph: FactorGraph, layout: ParameterLayout, states: Tensor) -> Float[Tensor, "p n"]:
    """Which parameters count in which sample."""
    found = torch.zeros(layout.size, states.shape[1], dtype=torch.float64, device=graph.device)
    begin = 0
    for group in graph.groups:
        free = [n - 1 for n in graph.shape(group)] if len(group) else []
        product = found.new_ones(len(group), 1, states.shape[1])
        for axis, size in enumerate(free):
            column = states.index_select(0, group.scope[:, axis])
            wanted = torch.arange(1, size + 1, device=graph.device, dtype=column.dtype)
            here = (column.unsqueeze(1) == wanted.view(1, -1, 1)).to(product)
            product = (product.unsqueeze(2) * here.unsqueeze(1)).flatten(1, 2)
        places = layout.start[begin : begin + len(group)]
        index = places.unsqueeze(1) + torch.arange(product.shape[1], device=graph.device)
        found.index_add_(0, index.view(-1), product.flatten(0, 1))
        begin += len(group)
    return found

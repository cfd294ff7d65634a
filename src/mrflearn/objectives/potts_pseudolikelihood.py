"""Minus the log-pseudolikelihood of Potts fields with most edges, by a kernel of its own.

[Ekeberg et al. 2013, eq. 17, with one coupling table a pair: the "symmetric" form, which CCMpred
(Seemayer et al. 2014) and plmc minimise.]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.features.observations import Samples
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.kernels.coded_rows import CodedRows
from mrflearn.kernels.potts_pseudolikelihood import potts_pseudolikelihood
from mrflearn.models.potts import PottsModel, gather_pairs, spread
from mrflearn.objectives.likelihood import FieldModel


@dataclass(frozen=True, eq=False)
class CodedSamples:
    """Rows of states, indexed, each with its weight."""

    rows: CodedRows
    weights: Float[Tensor, "n"]

    @classmethod
    def of(cls, samples: Samples, states: int) -> CodedSamples:
        """The same samples, indexed."""
        return cls(CodedRows.of(samples.states, states), samples.weights)


@dataclass(frozen=True)
class PottsPseudolikelihood:
    """-sum over samples and variables of log p(variable | all others)."""

    def __call__(self, model: PottsModel, batch: CodedSamples) -> Tensor:
        """Nats, summed over the weights of the batch."""
        return _loss(model.full_fields(), model.couplings, model.pairs, batch)


@dataclass(frozen=True)
class DensePseudolikelihood:
    """The same for any pairwise field that `suits` it; for graphs with most of their edges."""

    @staticmethod
    def suits(graph: FactorGraph) -> bool:
        """Whether all variables have as many states, and a quarter of the pairs one table each."""
        wide = [group for group in graph.groups if group.arity > 1]
        if any(group.arity > 2 for group in wide) or graph.is_lifted():
            return False
        pairs = [tuple(sorted(pair)) for group in wide for pair in group.scope.tolist()]
        once = len(set(pairs)) == len(pairs)
        enough = 8 * len(pairs) >= graph.variables * (graph.variables - 1)
        return once and enough and len(set(graph.states.tolist())) == 1

    def __call__(self, model: FieldModel, batch: CodedSamples) -> Tensor:
        """Nats, summed over the weights of the batch."""
        potentials = model.potentials()
        graph = potentials.graph
        fields = batch.weights.new_zeros(graph.variables, batch.rows.states)
        tables, pairs = [], []
        for index, group in enumerate(graph.groups):
            scores = potentials.factor_scores(index)
            if group.arity == 1:
                fields = fields.index_add(0, group.scope[:, 0], scores)
            elif len(group):
                tables.append(scores)
                pairs.append(group.scope.t())
        return _loss(fields, torch.cat(tables), torch.cat(pairs, dim=1), batch)


def _loss(fields: Tensor, couplings: Tensor, pairs: Tensor, batch: CodedSamples) -> Tensor:
    value: Tensor = _Loss.apply(  # type: ignore[no-untyped-call]  # torch leaves it untyped
        fields, couplings, pairs, batch
    )
    return value


class _Loss(torch.autograd.Function):
    """The kernel's value; its gradients come with it, so backward only hands them out."""

    @staticmethod
    def forward(
        ctx: Any, fields: Tensor, couplings: Tensor, pairs: Tensor, batch: CodedSamples
    ) -> Tensor:
        whole = spread(couplings, pairs, len(fields))
        found = potts_pseudolikelihood(fields, whole, batch.rows, batch.weights)
        ctx.save_for_backward(found.fields, gather_pairs(found.couplings, pairs))
        return found.value

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None, None]:
        fields, couplings = ctx.saved_tensors
        factor = outer.to(fields.dtype)
        return factor * fields, factor * couplings, None, None

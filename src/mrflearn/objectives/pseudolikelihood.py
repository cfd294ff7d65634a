"""Pseudolikelihood of fields: minus the sum of log p(variable | all others) [Besag 1975].

[Sutton and McCallum 2009, eq. 5]  No log Z is needed: only the states of one variable are summed.
The same function in three forms, by what is cheapest to evaluate:

- `Pseudolikelihood`, of rows of samples and any field;
- `BlanketPseudolikelihood`, of counts of each variable with its neighbours: a local problem with
  that variable summed and the neighbours given.  Once counted, the cost no longer depends on the
  number of samples;
- `dense_pseudolikelihood`, of rows and pairwise fields with most edges, by a kernel of its own
  (with one coupling table a pair: the "symmetric" form of Ekeberg et al. 2013, eq. 17, which
  CCMpred and plmc minimise).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.features.observations import Samples
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.kernels.potts_pseudolikelihood import CodedRows, potts_pseudolikelihood
from mrflearn.models.potts import gather_pairs, spread
from mrflearn.models.tabular import TabularModel
from mrflearn.objectives.base import Evaluation, Objective, Vector
from mrflearn.objectives.likelihood import FieldModel
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood

# Numbers gathered at once for conditional scores (factors x states a row); bounds memory only.
GATHERED = 1 << 25

# From rows of samples.


def conditional_scores(
    potentials: Potentials, states: Int[Tensor, "n v"]
) -> Float[Tensor, "n v s"]:
    """Scores of each state of each variable, the others as observed; -inf beyond its states."""
    graph = potentials.graph
    scores = torch.where(graph.legal(), 0.0, -torch.inf).to(states.device, potentials.dtype)
    scores = scores.expand(len(states), -1, -1)
    for index, group in enumerate(graph.groups):
        if not len(group):
            continue
        table = potentials.factor_scores(index)
        rows = torch.arange(len(group), device=states.device)
        seen = states[:, group.scope].unbind(dim=-1)  # a tensors (n, f)
        for axis in range(group.arity):
            others = seen[:axis] + seen[axis + 1 :]
            slices = table.movedim(axis + 1, -1)[(rows, *others)]  # (n, f, s), or (f, s) alone
            slices = slices.expand(len(states), -1, -1)
            slices = torch.nn.functional.pad(slices, (0, scores.shape[-1] - slices.shape[-1]))
            scores = scores.index_add(1, group.scope[:, axis], slices)
    return scores


def log_conditionals(potentials: Potentials, states: Int[Tensor, "n v"]) -> Float[Tensor, "n v"]:
    """log p(variable | all others) of every variable in every row."""
    graph = potentials.graph
    widest = max((len(group) for group in graph.groups), default=1)
    parts = []
    for rows in states.split(max(1, GATHERED // max(1, widest * graph.most_states))):
        scores = conditional_scores(potentials, rows)
        chosen = scores.gather(-1, rows.unsqueeze(-1)).squeeze(-1)
        parts.append(chosen - scores.logsumexp(dim=-1))
    return torch.cat(parts)


@dataclass(frozen=True)
class Pseudolikelihood:
    """-sum over samples and variables of log p(variable | all others)."""

    def __call__(self, model: FieldModel, batch: Samples) -> Tensor:
        """Nats, summed over the weights of the batch: one a row, or one for each of its terms."""
        values = log_conditionals(model.potentials(), batch.states)
        weights = batch.row_weights.to(values.dtype)
        return -(weights.reshape(len(weights), -1) * values).sum()


# From counts of each variable with its neighbours.


class Blankets(NamedTuple):
    """What was seen around some variables of one shape, and which parameters matter there."""

    problems: AuxiliaryLikelihood
    places: Int[Tensor, "p q"]  # of the terms, in the flat vector of all parameters


@final
class BlanketPseudolikelihood(Objective[TabularModel]):
    """-sum over samples and variables of log p(variable | its neighbours), from counts.

    `weight` is that of all samples that were counted.
    """

    def __init__(self, model: TabularModel, blankets: Sequence[Blankets], weight: float) -> None:
        self.model, self.blankets, self.weight = model, blankets, weight

    @property
    def parts(self) -> int:
        return len(self.blankets)

    def part(self, index: int, vector: Vector) -> Evaluation:
        problems, places = self.blankets[index]
        fit = problems.at(vector[places])
        gradient = problems.gradient(fit).view(-1)
        flat = torch.zeros_like(vector).index_add_(0, places.view(-1), gradient)
        return Evaluation(fit.value.sum() - (0.0 if index else self.origin), flat)

    def hessian(self, vector: Vector) -> Float[Tensor, "p p"]:
        """The curvature at a vector; it has full rank however few the samples."""
        size = len(vector)
        flat = vector.new_zeros(size * size)
        for problems, places in self.blankets:
            hessian = problems.hessian(problems.at(vector[places]))
            where = places.T.unsqueeze(2) * size + places.T.unsqueeze(1)
            flat.index_add_(0, where.reshape(-1), hessian.reshape(-1))
        return flat.view(size, size)


# From rows, of pairwise fields with most edges.


class CodedSamples(NamedTuple):
    """Rows of states, indexed, each with its weight."""

    rows: CodedRows
    weights: Float[Tensor, " n"]


def coded_samples(samples: Samples, states: int, rows: int) -> list[CodedSamples]:
    """The same samples, indexed, at most `rows` at a time."""
    return [
        CodedSamples(CodedRows.of(part.states, states), part.row_weights)
        for part in samples.chunks(rows)
    ]


def has_most_pairs(graph: FactorGraph) -> bool:
    """Whether a quarter of the pairs of variables have one table each."""
    wide = [group for group in graph.groups if group.arity > 1]
    if any(group.arity > 2 for group in wide):
        return False
    pairs = [tuple(sorted(pair)) for group in wide for pair in group.scope.tolist()]
    once = len(set(pairs)) == len(pairs)
    enough = 8 * len(pairs) >= graph.variables * (graph.variables - 1)
    return once and enough


def is_dense(graph: FactorGraph) -> bool:
    """The same, and all variables have as many states."""
    return has_most_pairs(graph) and len(set(graph.states.tolist())) == 1


def dense_pseudolikelihood(model: FieldModel, batch: CodedSamples) -> Tensor:
    """The same for any pairwise field whose graph `is_dense`."""
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
    value: Tensor = _Loss.apply(  # type: ignore[no-untyped-call]  # torch leaves it untyped
        fields, torch.cat(tables), torch.cat(pairs, dim=1), batch
    )
    return value


class _Loss(torch.autograd.Function):
    """The kernel's value; its gradients come with it, so backward only hands them out."""

    @staticmethod
    def forward(
        ctx: Any, fields: Tensor, couplings: Tensor, pairs: Tensor, batch: CodedSamples
    ) -> Tensor:
        whole = spread(couplings, pairs, len(fields))
        losses, by_fields, by_couplings = potts_pseudolikelihood(
            fields, whole, batch.rows, batch.weights
        )
        ctx.save_for_backward(by_fields, gather_pairs(by_couplings, pairs))
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None, None]:
        fields, couplings = ctx.saved_tensors
        factor = outer.to(fields.dtype)
        return factor * fields, factor * couplings, None, None


def one_hot_pseudolikelihood(model: FieldModel, batch: Samples) -> Tensor:
    """The same where a graph `has_most_pairs`, whatever its numbers of states: one product.

    A row is the vector of 0 and 1 over all states of all variables; its scores are that vector
    times the matrix of all couplings.
    """
    potentials = model.potentials()
    graph, sizes = potentials.graph, potentials.graph.states.tolist()
    total, begin = sum(sizes), graph.states.cumsum(0) - graph.states
    fields = begin.new_zeros(total, dtype=potentials.dtype)
    flat = fields.new_zeros(total * total)
    for index, group in enumerate(graph.groups):
        if not len(group):
            continue
        scores = potentials.factor_scores(index)
        axes = [torch.arange(size, device=begin.device) for size in scores.shape[1:]]
        places = [
            begin[own].unsqueeze(1) + axis for own, axis in zip(group.scope.T, axes, strict=True)
        ]
        if group.arity == 1:
            fields = fields.index_add(0, places[0].flatten(), scores.flatten())
        else:
            pairs = places[0].unsqueeze(2) * total + places[1].unsqueeze(1)
            flat = flat.index_add(0, pairs.flatten(), scores.flatten())
    couplings = flat.view(total, total)
    seen = batch.states + begin
    hot = fields.new_zeros(len(seen), total).scatter_(1, seen, 1.0)
    scores = hot @ (couplings + couplings.T) + fields
    norms = torch.stack([own.logsumexp(dim=1) for own in scores.split(sizes, dim=1)], dim=1)
    weights = batch.row_weights.to(scores.dtype)
    return (weights.reshape(len(weights), -1) * (norms - scores.gather(1, seen))).sum()

"""Pseudolikelihood of tabular fields, Potts models and incomplete samples.

[Sutton and McCallum 2009, eq. 5]  No log Z is needed: only the states of one variable are summed.

A variable given its neighbours is a local problem with that variable summed and the neighbours
given; the parameters are shared between the problems.  Once counted, the cost no longer depends
on the number of samples.  `Pseudolikelihood` is the same function of the rows themselves.

The term of a variable counts in the rows in which it and all its neighbours were observed
(available cases): unbiased where what is missing does not depend on the values.

[Ekeberg et al. 2013, eq. 17, with one coupling table a pair: the "symmetric" form, which CCMpred
(Seemayer et al. 2014) and plmc minimise.]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mrflearn.features.observations import Samples
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.potentials import Potentials
from mrflearn.kernels.coded_rows import CodedRows
from mrflearn.kernels.potts_pseudolikelihood import potts_pseudolikelihood
from mrflearn.models.potts import PottsModel, gather_pairs, spread
from mrflearn.models.tabular import TabularModel
from mrflearn.objectives.likelihood import FieldModel
from mrflearn.objectives.local_auxiliary import AuxiliaryLikelihood

# Minus the log-pseudolikelihood: each variable given all others (Besag 1975).


def conditional_scores(
    potentials: Potentials, states: Int[Tensor, "n v"]
) -> Float[Tensor, "n v s"]:
    """Scores of each state of each variable, the others as observed; -inf beyond its states."""
    graph = potentials.graph
    legal = graph.legal()
    scores = torch.zeros(
        len(states), *legal.shape, dtype=potentials.dtype, device=states.device
    ).masked_fill(~legal, -torch.inf)
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
            missing = scores.shape[-1] - slices.shape[-1]
            slices = torch.nn.functional.pad(slices, (0, missing))
            scores = scores.index_add(1, group.scope[:, axis], slices)
    return scores


def log_conditionals(potentials: Potentials, states: Int[Tensor, "n v"]) -> Float[Tensor, " n"]:
    """The sum over variables of log p(variable | all others), for each row."""
    scores = conditional_scores(potentials, states)
    chosen = scores.gather(-1, states.unsqueeze(-1)).squeeze(-1)
    return (chosen - scores.logsumexp(dim=-1)).sum(dim=-1)


@dataclass(frozen=True)
class Pseudolikelihood:
    """-sum over samples and variables of log p(variable | all others)."""

    def __call__(self, model: FieldModel, batch: Samples) -> Tensor:
        """Nats, summed over the weights of the batch."""
        values = log_conditionals(model.potentials(), batch.states)
        return -(batch.weights.to(values.dtype) * values).sum()


# Minus the log-pseudolikelihood, from counts of each variable with its Markov blanket.


@dataclass(frozen=True, eq=False)
class BlanketCounts:
    """What was seen around some variables of one shape, and which parameters matter there."""

    problems: AuxiliaryLikelihood
    places: Int[Tensor, "p q"]  # of the terms, in the flat vector of all parameters


@dataclass(frozen=True)
class BlanketPseudolikelihood:
    """-sum over samples and variables of log p(variable | its neighbours)."""

    def __call__(self, model: TabularModel, batch: BlanketCounts) -> Float[Tensor, ""]:
        """Nats, summed over the weights of the batch."""
        flat = torch.cat([value.reshape(-1) for value in model.values])
        terms = flat[batch.places]
        value: Tensor = _Value.apply(terms, batch.problems)  # type: ignore[no-untyped-call]
        return value


class _Value(torch.autograd.Function):
    """The summed value of local problems; their gradient is known in closed form."""

    @staticmethod
    def forward(ctx: Any, terms: Float[Tensor, "p q"], problems: AuxiliaryLikelihood) -> Tensor:
        fit = problems.at(terms.detach())
        ctx.save_for_backward(problems.gradient(fit))
        return fit.value.sum()

    @staticmethod
    def backward(ctx: Any, upstream: Float[Tensor, ""]) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return upstream * gradient, None


# Minus the log-pseudolikelihood of rows with missing values, as far as they were observed.


@dataclass(frozen=True, eq=False)
class AvailableCases:
    """Rows of states with their weights, and which variables' terms count in which row."""

    states: Int[Tensor, "n v"]  # any state where none was observed
    known: Bool[Tensor, "n v"]
    weights: Float[Tensor, " n"]

    def chunks(self, rows: int) -> list[AvailableCases]:
        """The same rows, at most so many at a time."""
        parts = zip(*(part.split(rows) for part in vars(self).values()), strict=True)
        return [AvailableCases(*part) for part in parts]


@dataclass(frozen=True)
class AvailablePseudolikelihood:
    """-sum over samples and variables of log p(variable | its neighbours), where all are known."""

    def __call__(self, model: FieldModel, batch: AvailableCases) -> Float[Tensor, ""]:
        """Nats, summed over the weights of the batch."""
        scores = conditional_scores(model.potentials(), batch.states)
        chosen = scores.gather(-1, batch.states.unsqueeze(-1)).squeeze(-1)
        terms = (chosen - scores.logsumexp(dim=-1)) * batch.known
        return -(batch.weights.to(terms.dtype) @ terms).sum()


def available_terms(graph: FactorGraph, observed: Bool[Tensor, "n v"]) -> Bool[Tensor, "n v"]:
    """Whether each variable was observed together with all its neighbours."""
    unknown = (~observed).to(torch.float32)
    total = unknown.clone()
    for group in graph.groups:
        for axis in range(group.arity if len(group) else 0):
            around = unknown[:, group.scope].amax(dim=2)
            total.index_add_(1, group.scope[:, axis], around)
    return total == 0


# Minus the log-pseudolikelihood of Potts fields with most edges, by a kernel of its own.


@dataclass(frozen=True, eq=False)
class CodedSamples:
    """Rows of states, indexed, each with its weight."""

    rows: CodedRows
    weights: Float[Tensor, " n"]

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
        if any(group.arity > 2 for group in wide):
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

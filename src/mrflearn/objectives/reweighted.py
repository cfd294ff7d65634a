"""Reweighted piecewise training: a convex combination of pieces bounds log Z from above.

    A(theta) <= sum_a mu_a [ log sum_ya exp(theta_a . f_a(ya) / mu_a) + log |Y without a| ]
                                                        [Sutton and McCallum 2009, eq. 34, 35]

The paper's eq. 35 leaves out the last term, the number of assignments of an example's variables
outside the piece; it does not depend on theta but it does on mu, and makes the value a bound.

Letters in shapes: n: pieces of one shape; c: examples; t: templates; p: all weights of a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.errors import TrainingError
from mrflearn.execution.resources import Threads
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField
from mrflearn.objectives.base import Evaluation, Objective, Vector
from mrflearn.objectives.local_likelihood import LocalBlock, LocalLikelihood, known_labels
from mrflearn.objectives.local_problems import find_problems

ByTemplate = Float[Tensor, "c t"]  # for each example and template
Shares = Literal["uniform", "optimised"] | Mapping[str, float]


class ReweightedPieces(NamedTuple):
    """Pieces of one shape: their template, example and log-count of assignments elsewhere."""

    template: int
    example: Int64[Tensor, " n"]
    elsewhere: Float[Tensor, " n"]
    weight: Float[Tensor, " n"]


@final
@dataclass(frozen=True, eq=False)
class ReweightedLikelihood(Objective[LogLinearField]):
    """The bound on -log p(y | x) as a function of the flat vector of weights (and shares)."""

    model: LogLinearField
    local: LocalLikelihood
    pieces: list[ReweightedPieces]
    observed: Vector  # how often each weight counts in the scores of the labels
    count: ByTemplate  # pieces of each template in each example
    given: Float[Tensor, " t"]  # log-shares, where they are not learned

    @classmethod
    def of(cls, model: LogLinearField, batch: FieldBatch, shares: Shares) -> ReweightedLikelihood:
        """The bound of a batch; with `shares="optimised"` the model must have shares to learn."""
        if len(batch.uncertain):
            raise TrainingError(
                "estimator='pw-reweighted' needs every label; with partial labels take 'pw'."
            )
        problems = find_problems(batch, "pw")
        local = LocalLikelihood.of(model, batch, problems, Threads(1), merge=False)
        graph = batch.graph
        log_states = graph.states.double().log()
        total = torch.zeros(graph.components, dtype=torch.float64)
        total.index_add_(0, graph.component, log_states)
        count = torch.zeros(graph.components, len(graph.groups), dtype=torch.float64)
        pieces = []
        for own in problems:
            example = graph.component[own.scope[:, 0]]
            elsewhere = total[example] - log_states[own.scope].sum(dim=1)
            template = own.parts[0].group
            count[:, template] += torch.bincount(example, minlength=graph.components)
            pieces.append(ReweightedPieces(template, example, elsewhere, own.weight))
        observed = local.sums(torch.zeros_like(local.start), known_labels)[1]
        return cls(model, local, pieces, observed, count, _log_shares(model, shares))

    @torch.no_grad()
    def __call__(self, vector: Vector) -> Evaluation:
        """Nats, summed over the weights of the examples; and the gradient."""
        model, observed = self.at(vector), self.observed
        logs = (self.given if model.shares is None else model.shares).double()
        whole = self.count @ logs.exp()  # 0 of an example without any piece
        share = logs.exp() / torch.where(whole > 0, whole, 1.0).unsqueeze(1)  # mu: (c, t)
        pull = torch.zeros_like(share)  # of the value, by the share of each template and example
        value, gradient = self.local.sums(
            vector, lambda scores, block: self._bound(scores, block, share, pull)
        )
        value = value - torch.dot(observed, vector[: len(observed)].double())
        gradient = gradient - observed
        if model.shares is not None:
            # d mu_t / d log-share_u = mu_t ([t = u] - count_u mu_u), in every example.
            moved = pull * share
            own = moved.sum(dim=0) - (moved.sum(dim=1, keepdim=True) * self.count * share).sum(0)
            gradient = torch.cat([gradient, own])
        return Evaluation(value, gradient.to(vector.dtype))

    def _bound(
        self, scores: Tensor, block: LocalBlock, share: ByTemplate, pull: ByTemplate
    ) -> Float[Tensor, ""]:
        """The block's part of the bound; the scores become its gradient, in place."""
        number, inside = block.place
        template, *columns = self.pieces[number]
        example, elsewhere, weight = (own[inside] for own in columns)
        mu = share[example, template]
        scores /= mu.to(scores.dtype)[:, None]
        total = scores.logsumexp(dim=1, keepdim=True)
        chances = (scores - total).exp_()
        # d/dmu of mu log sum exp(s / mu) is the entropy of the piece.
        entropy = total.squeeze(1) - (chances * scores).sum(dim=1)
        pull[:, template].index_add_(0, example, weight * (entropy.double() + elsewhere))
        scores.copy_(chances).mul_(weight.to(scores.dtype)[:, None])
        return (weight * mu * (total.squeeze(1).double() + elsewhere)).sum()


def _log_shares(model: LogLinearField, shares: Shares) -> Float[Tensor, " t"]:
    names = [template.name for template in model.templates]
    if isinstance(shares, str):
        return torch.zeros(len(names), dtype=torch.float64)
    if sorted(shares) != sorted(names) or min(shares.values()) <= 0:
        raise TrainingError(f"shares must give each of the factors {names} a weight above 0.")
    return torch.tensor([shares[name] for name in names], dtype=torch.float64).log()


def with_shares(model: LogLinearField) -> LogLinearField:
    """The model as shares are learned with it: equal ones to start from."""
    return replace(model, shares=torch.zeros(len(model.templates), dtype=model.dtype))

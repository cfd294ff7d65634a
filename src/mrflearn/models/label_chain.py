"""Labels as the states of a chain: one label a state, or a pair of neighbouring labels a state.

A chain of the second order is one of the first over pairs: state (a, b) goes to (b, c) only, and
the first token has the state (start, b).

Letters in shapes: s: labels; p: states; e: weighted label pairs; g: weighted label triples;
r: rows laid out by `Steps`; q: rows that have a row before them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.features.support import Support
from mrflearn.kernels.chain_steps import Steps


class LabelChain(Protocol):
    """How scores of labels and weights of transitions become a chain, and counts come back."""

    @property
    def states(self) -> int: ...

    def table(self, weights: Float[Tensor, "e"]) -> Float[Tensor, "p p"]:
        """Scores of steps from state to state."""

    def unary(
        self, scores: Float[Tensor, "r s"], weights: Float[Tensor, "e"], steps: Steps
    ) -> Float[Tensor, "r p"]:
        """Scores of states."""

    def of_labels(self, single: Float[Tensor, "r p"]) -> Float[Tensor, "r s"]:
        """Sums over the states of each label."""

    def of_weights(
        self, single: Float[Tensor, "r p"], pair: Float[Tensor, "p p"], steps: Steps
    ) -> Float[Tensor, "e"]:
        """How often each transition weight counts, given sums over states and pairs of states."""

    def path(self, labels: Int64[Tensor, "r"], steps: Steps) -> Int64[Tensor, "r"]:
        """The states of labelled rows; -1 where the chain has no such state."""

    def label(self, states: Int64[Tensor, "*n"]) -> Int64[Tensor, "*n"]:
        """The labels of states."""

    def allowed(self, labels: Bool[Tensor, "r s"]) -> Bool[Tensor, "r p"]:
        """The states whose labels are allowed."""


@final
@dataclass(frozen=True, eq=False)
class FirstOrder:
    """A state is a label; a pair of labels without a weight scores 0."""

    states: int
    code: Int64[Tensor, "e"]  # first * states + second

    @classmethod
    def of(cls, support: Support) -> FirstOrder:
        states = len(support.labels)
        return cls(states, support.source * states + support.target)

    def table(self, weights: Float[Tensor, "e"]) -> Float[Tensor, "p p"]:
        flat = weights.new_zeros(self.states**2).index_copy(
            0, self.code.to(weights.device), weights
        )
        return flat.view(self.states, self.states)

    def unary(self, scores: Tensor, weights: Tensor, steps: Steps) -> Tensor:  # noqa: ARG002
        return scores

    def of_labels(self, single: Tensor) -> Tensor:
        return single

    def of_weights(self, single: Tensor, pair: Tensor, steps: Steps) -> Tensor:  # noqa: ARG002
        return pair.flatten()[self.code.to(pair.device)]

    def path(self, labels: Tensor, steps: Steps) -> Tensor:  # noqa: ARG002
        return labels

    def label(self, states: Tensor) -> Tensor:
        return states

    def allowed(self, labels: Tensor) -> Tensor:
        return labels


@final
@dataclass(frozen=True, eq=False)
class SecondOrder:
    """A state is (start, label) or a weighted pair of labels; other pairs are impossible.

    Weights are those of pairs, then those of triples; a triple without a weight scores 0.
    """

    labels: int
    states: int
    last: Int64[Tensor, "p"]  # the label of each state
    pair: Int64[Tensor, "s s"]  # the state of each pair, or -1
    legal: Int64[Tensor, "l"]  # first state * states + second state
    code: Int64[Tensor, "g"]  # the same for the weighted triples

    @classmethod
    def of(cls, support: Support, triples: Int64[Tensor, "g 3"]) -> SecondOrder:
        labels, pairs = len(support.labels), len(support.source)
        pair = torch.full((labels, labels), -1)
        pair[support.source, support.target] = torch.arange(pairs) + labels
        last = torch.cat([torch.arange(labels), support.target])
        begins = torch.cat([torch.full((labels,), -1), support.source])
        legal = (last[:, None] == begins[None, :]).flatten().nonzero().squeeze(1)
        states = labels + pairs
        first, middle, third = triples.unbind(dim=1)
        code = pair[first, middle] * states + pair[middle, third]
        return cls(labels, states, last, pair, legal, code)

    def table(self, weights: Float[Tensor, "e"]) -> Float[Tensor, "p p"]:
        device = weights.device
        flat = weights.new_full((self.states**2,), -torch.inf)
        flat = flat.index_fill(0, self.legal.to(device), 0.0)
        triples = weights[self.states - self.labels :]
        return flat.index_copy(0, self.code.to(device), triples).view(self.states, self.states)

    def unary(self, scores: Tensor, weights: Tensor, steps: Steps) -> Tensor:
        unary = scores[:, self.last.to(scores.device)]
        unary[:, self.labels :] += weights[: self.states - self.labels]
        unary[: steps.starting, self.labels :] = -torch.inf
        unary[steps.starting :, : self.labels] = -torch.inf
        return unary

    def of_labels(self, single: Tensor) -> Tensor:
        total = single.new_zeros(len(single), self.labels)
        return total.index_add_(1, self.last.to(single.device), single)

    def of_weights(self, single: Tensor, pair: Tensor, steps: Steps) -> Tensor:
        pairs = single[steps.starting :, self.labels :].sum(dim=0)
        return torch.cat([pairs, pair.flatten()[self.code.to(pair.device)]])

    def path(self, labels: Tensor, steps: Steps) -> Tensor:
        before, after = labels[steps.previous], labels[steps.starting :]
        return torch.cat([labels[: steps.starting], self.pair.to(labels.device)[before, after]])

    def label(self, states: Tensor) -> Tensor:
        return self.last.to(states.device)[states]

    def allowed(self, labels: Tensor) -> Tensor:
        return labels[:, self.last.to(labels.device)]


def label_chain(support: Support) -> LabelChain:
    """The chain of the support's order."""
    if support.triples is None:
        return FirstOrder.of(support)
    return SecondOrder.of(support, support.triples)

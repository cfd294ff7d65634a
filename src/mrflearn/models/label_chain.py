"""Labels as the states of a chain: one label a state, or a pair of neighbouring labels a state.

A chain of the second order is one of the first over pairs: state (a, b) goes to (b, c) only, and
the first token has the state (start, b).

Letters in shapes: s: labels; p: states; e: weights of transitions; g: weighted label triples;
b: sequences; r: rows packed by `Steps`; q: rows that have a row before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.features.index import FactorTemplate
from mrflearn.kernels.chain_sums import Steps


class LabelChain(Protocol):
    """How scores of labels and weights of transitions become a chain, and counts come back.

    Weights of transitions are those of pairs of labels, then (if any) those of triples.
    """

    @property
    def states(self) -> int: ...

    def table(self, weights: Float[Tensor, " e"]) -> Float[Tensor, "p p"]:
        """Scores of steps from state to state."""

    def unary(
        self, scores: Float[Tensor, "r s"], weights: Float[Tensor, " e"], steps: Steps
    ) -> Float[Tensor, "r p"]:
        """Scores of states."""

    def of_labels(self, single: Float[Tensor, "r p"]) -> Float[Tensor, "r s"]:
        """Sums over the states of each label."""

    def of_weights(
        self, single: Float[Tensor, "r p"], pair: Float[Tensor, "p p"], steps: Steps
    ) -> Float[Tensor, " e"]:
        """How often each transition weight counts, given sums over states and pairs of states."""

    def path(self, labels: Int64[Tensor, " r"], steps: Steps) -> Int64[Tensor, " r"]:
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
    code: Int64[Tensor, " e"]  # first * states + second

    def table(self, weights: Float[Tensor, " e"]) -> Float[Tensor, "p p"]:
        own, code = weights[: len(self.code)], self.code.to(weights.device)
        flat = own.new_zeros(self.states**2).index_copy(0, code, own)
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
    last: Int64[Tensor, " p"]  # the label of each state
    pair: Int64[Tensor, "s s"]  # the state of each pair, or -1
    legal: Int64[Tensor, " l"]  # first state * states + second state
    code: Int64[Tensor, " g"]  # the same for the weighted triples

    @classmethod
    def of(
        cls, labels: int, pairs: Int64[Tensor, " e"], triples: Int64[Tensor, " g"]
    ) -> SecondOrder:
        """The chain of these cells of pairs and triples."""
        source, target = pairs.div(labels, rounding_mode="floor"), pairs % labels
        pair = torch.full((labels, labels), -1)
        pair[source, target] = torch.arange(len(pairs)) + labels
        last = torch.cat([torch.arange(labels), target])
        begins = torch.cat([torch.full((labels,), -1), source])
        legal = (last[:, None] == begins[None, :]).flatten().nonzero().squeeze(1)
        states = labels + len(pairs)
        first, middle, third = torch.unravel_index(triples, (labels,) * 3)
        code = pair[first, middle] * states + pair[middle, third]
        return cls(labels, states, last, pair, legal, code)

    def table(self, weights: Float[Tensor, " e"]) -> Float[Tensor, "p p"]:
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


def label_chain(templates: Sequence[FactorTemplate]) -> LabelChain:
    """The chain of the templates "state", "transition" and, of the second order, "triple"."""
    state, transition, *others = templates
    pairs = transition.cell[transition.attribute == 0]  # the constant that every transition has
    if not others:
        return FirstOrder(state.cells, pairs)
    return SecondOrder.of(state.cells, pairs, others[0].cell)


@dataclass(frozen=True, eq=False)
class ChainPotentials:
    """Sequences ready for `chain_sums` and `chain_search`.

    Rows are packed by `steps`, whose `source` counts the tokens of all sequences end to end.
    `table` is shared, or one for each row that has a row before it.
    """

    unary: Float[Tensor, "r p"]
    table: Float[Tensor, "*q p p"]
    steps: Steps
    chain: LabelChain

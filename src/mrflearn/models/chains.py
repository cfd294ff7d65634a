"""Linear chains of labels: their states, their potentials, and labelled sequences in flat tensors.

A state is a label or, of the second order, a pair of neighbouring labels: a chain of the second
order is one of the first over pairs, where state (a, b) goes to (b, c) only, and the first token
has the state (start, b).

Letters in shapes: s: labels; p: states; e: weights of transitions; g: weighted label triples;
b: sequences; k: tokens; r: rows packed by `Steps`; q: rows that have a row before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from mrflearn.features.features import CompiledFeatures
from mrflearn.features.index import (
    FactorTemplate,
    constant,
    edge_numbers,
    neighbours,
    transition_features,
)
from mrflearn.features.labels import CompiledLabels
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.kernels.chain_sums import Steps
from mrflearn.models.field_batch import FieldBatch


@dataclass(frozen=True, eq=False)
class LabelChain:
    """How scores of labels and weights of transitions become a chain, and counts come back.

    Of the first order: a state is a label, and a pair of labels without a weight scores 0.  Weights
    of transitions are those of pairs of labels, then (if any) those of triples.
    """

    states: int
    code: Int64[Tensor, " e"]  # first state * states + second state of each weighted step

    def table(self, weights: Float[Tensor, " e"]) -> Float[Tensor, "p p"]:
        """Scores of steps from state to state."""
        own, code = weights[: len(self.code)], self.code.to(weights.device)
        flat = own.new_zeros(self.states**2).index_copy(0, code, own)
        return flat.view(self.states, self.states)

    def unary(
        self,
        scores: Float[Tensor, "r s"],
        weights: Float[Tensor, " e"],  # noqa: ARG002 - of pairs
        steps: Steps,  # noqa: ARG002
    ) -> Float[Tensor, "r p"]:
        """Scores of states."""
        return scores

    def of_labels(self, single: Float[Tensor, "r p"]) -> Float[Tensor, "r s"]:
        """Sums over the states of each label."""
        return single

    def of_weights(
        self,
        single: Float[Tensor, "r p"],  # noqa: ARG002 - of pairs
        pair: Float[Tensor, "p p"],
        steps: Steps,  # noqa: ARG002
    ) -> Float[Tensor, " e"]:
        """How often each transition weight counts, given sums over states and pairs of states."""
        return pair.flatten()[self.code.to(pair.device)]

    def path(self, labels: Int64[Tensor, " r"], steps: Steps) -> Int64[Tensor, " r"]:  # noqa: ARG002
        """The states of labelled rows; -1 where the chain has no such state."""
        return labels

    def label(self, states: Int64[Tensor, "*n"]) -> Int64[Tensor, "*n"]:
        """The labels of states."""
        return states

    def allowed(self, labels: Bool[Tensor, "r s"]) -> Bool[Tensor, "r p"]:
        """The states whose labels are allowed."""
        return labels


@final
@dataclass(frozen=True, eq=False)
class PairChain(LabelChain):
    """A state is (start, label) or a weighted pair of labels; other pairs are impossible.

    Weights are those of pairs, then those of triples; a triple without a weight scores 0.
    """

    labels: int
    last: Int64[Tensor, " p"]  # the label of each state
    pair: Int64[Tensor, "s s"]  # the state of each pair, or -1
    legal: Int64[Tensor, " l"]  # first state * states + second state

    @classmethod
    def of(cls, labels: int, pairs: Int64[Tensor, " e"], triples: Int64[Tensor, " g"]) -> PairChain:
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
        return cls(states, code, labels, last, pair, legal)

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
        return LabelChain(state.cells, pairs)
    return PairChain.of(state.cells, pairs, others[0].cell)


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


@dataclass(frozen=True, eq=False)
class ChainBatch:
    """Labelled sequences end to end, as linear-chain CRFs train on them.

    `joint` has for each further template the features of its factors: row i those of the factor
    that ends at token i, or one row for all.
    """

    features: CompiledFeatures
    joint: tuple[CompiledFeatures, ...]
    labels: CompiledLabels
    weight: Float[Tensor, " b"] | None = None

    @classmethod
    def of(
        cls,
        templates: Sequence[FactorTemplate],
        features: CompiledFeatures,
        labels: CompiledLabels,
        weight: Float[Tensor, " b"] | None = None,
    ) -> ChainBatch:
        """Sequences as factors of the templates of a linear chain."""
        state, transition, *others = templates
        number = edge_numbers(state.names, transition.names)
        joint = transition_features(features, number, transition.names)
        return cls(features, (joint, *(constant() for _ in others)), labels, weight)

    @property
    def sizes(self) -> Int64[Tensor, " b"]:
        """How many tokens each sequence has."""
        return self.features.lengths

    def examples(self, chosen: Int64[Tensor, " n"]) -> ChainBatch:
        """These sequences alone, in the order in which they are named."""
        own = self.sizes
        lengths, begins = own[chosen], (own.cumsum(0) - own)[chosen]
        shift = begins - (lengths.cumsum(0) - lengths)
        tokens = torch.arange(int(lengths.sum())) + shift.repeat_interleave(lengths)
        return ChainBatch(
            replace(self.features.taken(tokens), lengths=lengths),
            tuple(
                own if own.tokens < self.features.tokens else own.taken(tokens)
                for own in self.joint
            ),
            self.labels.taken(tokens),
            None if self.weight is None else self.weight[chosen],
        )

    def as_graph(self) -> FieldBatch:
        """The same sequences as one graph of paths: a token is a variable."""
        lengths, tokens, own = self.sizes, self.features.tokens, self.labels
        groups = [FactorGroup("state", neighbours(lengths, 1))]
        for count, name, joint in zip((2, 3), ("transition", "triple"), self.joint, strict=False):
            scope = neighbours(lengths, count)
            rows = scope[:, -1] if joint.tokens == tokens else torch.zeros_like(scope[:, -1])
            groups.append(FactorGroup(name, scope, rows))
        graph = FactorGraph(
            torch.full((tokens,), len(own.names)),
            tuple(groups),
            torch.arange(len(lengths)).repeat_interleave(lengths),
            components=len(lengths),
        )
        features = (self.features, *self.joint)
        return FieldBatch(graph, features, own.states, own.uncertain, own.allowed, self.weight)

"""What `FactorialCRF` and `SkipChainCRF` share: sequences in, labels of every layer out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.estimators.field_crf import FieldCRF
from mrflearn.estimators.labelling import marginal_dicts
from mrflearn.execution.executor import Executor
from mrflearn.features.features import (
    CompiledFeatures,
    CompiledLabels,
    Numbering,
    compile_features,
    compile_labels,
    sequence_weights,
    warn_of_single_label,
)
from mrflearn.features.index import FactorTemplate
from mrflearn.models.field_batch import FeaturesOn, FieldBatch, SequenceWiring, sequence_batch
from mrflearn.models.loglinear import LogLinearField
from mrflearn.models.storage import texts
from mrflearn.objectives.field_objectives import Pieces
from mrflearn.training.checkpoint import Stages

Layers = list[list[str]]  # the labels of each layer of one sequence
LayerMarginals = list[list[dict[str, float]]]  # of each layer and token of one sequence
LayerArrays = list[NDArray[np.float64]]  # of each layer, tokens x labels
Words = Iterable[Sequence[str]]


class Decoded(NamedTuple):
    """The best labels of each layer of a sequence, their score, and how they were found."""

    layers: Layers
    score: float
    kind: str  # "exact" or "approximation"
    converged: bool


@dataclass(kw_only=True, eq=False, repr=False)
class LayeredSequences(FieldCRF):
    """A CRF whose graphs are chains of labels over the tokens of sequences.

    An estimator derives from it, and says which layers are coupled and which tokens are joined.
    """

    features_on: FeaturesOn = "edges"
    pieces: Pieces | None = "factors"

    names_: tuple[Numbering, ...] = field(init=False)  # the labels of each layer
    wiring_: SequenceWiring = field(init=False)

    def _fit(
        self,
        features: CompiledFeatures,
        labels: Sequence[CompiledLabels],
        coupled: Sequence[tuple[int, int]],
        sample_weight: ArrayLike | None,
        saved: Stages,
        executor: Executor | None,
        skips: Int64[Tensor, "n 2"] | None = None,
        from_chain: bool = False,
    ) -> Self:
        """Learns from compiled sequences, where asked from the weights of the chains alone."""
        for own in labels:
            warn_of_single_label(own.names)
        sizes = tuple(len(own.names) for own in labels)
        wiring = SequenceWiring(sizes, tuple((i, j) for i, j in coupled), self.features_on)
        weight = None
        if sample_weight is not None:
            given = torch.from_numpy(np.asarray(sample_weight, dtype=np.float64))
            weight = sequence_weights(features.lengths, labels[0], None, given)

        def learn(
            model: Self, skips: Int64[Tensor, "n 2"] | None, start: LogLinearField | None
        ) -> LogLinearField:
            batch = sequence_batch(wiring, features, labels, skips=skips, weight=weight)
            checkpoint, resume = saved.next()
            how: dict[str, Any] = {"executor": executor, "checkpoint": checkpoint, "resume": resume}
            return model._train(batch, start, **how).model_

        start: LogLinearField | None = None
        if from_chain:
            # [Sutton and McCallum 2009, 5.1.3] From uniform weights loopy BP may not converge.
            self._tell("first without skip edges, by maximum likelihood:")
            start = learn(clone(self).set_params(estimator="ml"), None, None)
            self._tell(f"now with skip edges, by {self.estimator}:")
        learn(self, skips, start)
        for own in labels:
            own.names.closed = True
        self.names_, self.wiring_ = tuple(own.names for own in labels), wiring
        return self

    def _asked(
        self,
        X: Iterable[Any],
        layers: Iterable[Any] | None = None,
        joined: Sequence[Any] | None = None,
    ) -> FieldBatch:
        """Sequences to be labelled, and in `layers` the labels that are known.

        `joined` has the pairs of tokens of each sequence that skip edges join.
        """
        model = self._fitted()
        first = model.templates[0]
        features = compile_features(X, first.names, first.columns)
        skips = None if joined is None else joined_tokens(joined, features.lengths)
        only, labels = [template.name for template in model.templates], None
        if layers is not None:
            pairs = zip(split_layers(layers, len(self.names_)), self.names_, strict=True)
            labels = [compile_labels(own, features.lengths, names) for own, names in pairs]
        return sequence_batch(self.wiring_, features, labels, skips=skips, only=only)

    def _best(self, batch: FieldBatch) -> list[Decoded]:
        return [Decoded(self._named(states), *how) for states, *how in self._decoded(batch)]

    def _ranked(self, batch: FieldBatch, n: int) -> list[list[Decoded]]:
        """The n best labellings of each sequence, exactly and in order."""
        return [
            [Decoded(self._named(states), score, "exact", True) for states, score in own]
            for own in self._listed(batch, n)
        ]

    def _named(self, states: Int64[Tensor, " v"]) -> Layers:
        by_layer = states.reshape(-1, len(self.names_)).t().tolist()
        names = [list(own) for own in self.names_]
        return [[own[k] for k in layer] for own, layer in zip(names, by_layer, strict=True)]

    def _arrays(self, batch: FieldBatch) -> list[LayerArrays]:
        """For each sequence and layer the marginals, tokens x labels."""
        found, layers = self._marginals(batch).variables, len(self.names_)
        parts = found.reshape(-1, layers, found.shape[1]).split((batch.sizes // layers).tolist())
        sizes = [len(own) for own in self.names_]
        return [[part[:, k, :size].numpy() for k, size in enumerate(sizes)] for part in parts]

    def _dicts(self, batch: FieldBatch) -> list[LayerMarginals]:
        """For each sequence, layer and token the marginal of every label."""
        names = [list(own) for own in self.names_]
        return [
            [marginal_dicts([table], own)[0] for own, table in zip(names, tables, strict=True)]
            for tables in self._arrays(batch)
        ]

    def _axis_labels(self, template: FactorTemplate) -> list[list[str]]:
        """The labels along the axes of a group's factors; see `sequence_batches` for its name."""
        kind, _, numbers = template.name.partition(" ")
        layers = [int(number) for number in numbers.split(",")]
        layers = layers * 2 if kind in ("pairwise", "skip") else layers
        return [list(self.names_[layer]) for layer in layers]

    def _state(self) -> dict[str, Any]:
        return {
            "labels": [list(own) for own in self.names_],
            "coupled": [list(pair) for pair in self.wiring_.coupled],
        }

    def _restore_inputs(self, state: dict[str, Any]) -> None:
        self.names_ = tuple(
            Numbering(texts({"labels": own}, "labels"), closed=True) for own in state["labels"]
        )
        sizes = tuple(len(own) for own in self.names_)
        coupled = tuple((i, j) for i, j in state["coupled"])
        self.wiring_ = SequenceWiring(sizes, coupled, self.features_on)


def split_layers(y: Iterable[Any], layers: int | None = None) -> list[list[Any]]:
    """Labels by layer and then by sequence, from labels by sequence and then by layer."""
    rows = []
    for number, own in enumerate(y):
        if isinstance(own, str) or not isinstance(own, Sequence):
            raise DataError(
                f"the labels of sequence {number} are {own!r}: y has for each sequence a list of "
                "layers, each a list of labels."
            )
        layers = len(own) if layers is None else layers
        if len(own) != layers or not layers:
            raise DataError(
                f"sequence {number} has {len(own)} layers of labels, not {layers}. y[i][k] are the "
                "labels of layer k of sequence i, one a token."
            )
        lengths = {len(layer) for layer in own}
        if len(lengths) > 1:
            raise DataError(
                f"sequence {number}: its layers have {', '.join(str(len(k)) for k in own)} "
                "labels. Every layer needs one label for each token."
            )
        rows.append(own)
    return [list(layer) for layer in zip(*rows, strict=True)] or [[] for _ in range(layers or 0)]


def joined_tokens(joined: Sequence[Any], lengths: Int64[Tensor, " b"]) -> Int64[Tensor, "n 2"]:
    """Pairs of positions of each sequence as pairs of tokens of all sequences end to end."""
    starts = (lengths.cumsum(0) - lengths).tolist()
    if len(joined) != len(starts):
        raise DataError(f"there are {len(starts)} sequences of items and {len(joined)} of words.")
    pairs = [(u + at, v + at) for at, own in zip(starts, joined, strict=True) for u, v in own]
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)

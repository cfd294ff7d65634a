"""What all CRFs on graphs share: training, answers and storage of a log-linear field."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from mrflearn.errors import MrflearnError, StorageError
from mrflearn.estimators import field_crf_storage
from mrflearn.estimators.crf_choice import Choice, Wanted, choose_for_graphs
from mrflearn.estimators.crf_training import Settings
from mrflearn.estimators.field_crf_answers import (
    FieldMarginals,
    Labelling,
    Method,
    best_states,
    marginals,
)
from mrflearn.estimators.field_crf_training import FieldSettings, train_field
from mrflearn.estimators.front_door import FrontDoor
from mrflearn.execution.cores import count_cores
from mrflearn.execution.executor import Executor
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField, weights_of
from mrflearn.models.storage import StoredModel, write_model
from mrflearn.models.templates import Template, find_templates
from mrflearn.objectives.field_objectives import Estimator, Pieces, Principle, natural_pieces
from mrflearn.objectives.reweighted import Shares
from mrflearn.training.callbacks import Callback, Watcher
from mrflearn.training.outcome import Outcome

KINDS = {"float32": torch.float32, "float64": torch.float64}


class FieldCRF(FrontDoor):
    """The part of a CRF that does not depend on where its graphs come from.

    A front door derives from it, keeps these settings under these names, and turns what its users
    have into a `FieldBatch`.
    """

    estimator: Wanted
    pieces: Pieces | None  # None: as suits the estimator
    shares: Shares = "uniform"  # a front door may offer others
    c1: float
    c2: float
    min_freq: float
    all_possible_pairs: bool
    algorithm: str
    max_iterations: int | None
    num_memories: int
    epsilon: float
    period: int
    delta: float
    batch_size: int
    inference: Method
    callbacks: Sequence[Callback | Watcher]
    executor: Executor | None
    n_jobs: int | None
    dtype: str
    random_state: int
    verbose: bool
    model_: LogLinearField
    outcome_: Outcome[LogLinearField]
    choice_: Choice  # of estimator="auto": which it took, and why

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a model directory, whole or not at all."""
        model = self._fitted()
        settings = {**self.get_params(deep=False), "callbacks": [], "executor": None}
        own = settings | {"state": self._state()}
        write_model(path, field_crf_storage.to_stored(type(self).__name__, own, model))

    @classmethod
    def from_stored(cls, stored: StoredModel, *, device: str = "cpu") -> Self:  # noqa: ARG003
        """The CRF that a stored model holds; these CRFs work on the processor alone."""
        settings, model = field_crf_storage.from_stored(stored)
        state = settings.pop("state", {})
        try:
            self = cls(**{**settings, "callbacks": ()})
        except TypeError as error:
            raise StorageError(f"the stored CRF has a setting unknown here ({error}).") from error
        self.model_ = model
        self._restore(state)
        return self

    def feature_weights(self) -> dict[str, dict[tuple[str, ...], float]]:
        """For each kind of factor {(attribute, label, ...): weight} of all weights not 0."""
        model = self._fitted()
        return {
            template.name: weights_of(model, k, self._axis_labels(template))
            for k, template in enumerate(model.templates)
        }

    @abstractmethod
    def _axis_labels(self, template: Template) -> list[list[str]]:
        """The labels along each axis of a template's factors."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """What a front door learned beside the field, as plain lists, dicts and strings."""

    @abstractmethod
    def _restore(self, state: dict[str, Any]) -> None:
        """Takes back what `_state` gave."""

    def _learn(self, batch: FieldBatch, start: LogLinearField | None = None) -> Self:
        """Trains the field, from the weights of `start` where it has them."""
        templates = self._templates(batch)
        if self.dtype not in KINDS:
            raise MrflearnError(f"dtype {self.dtype!r} is not one of {', '.join(KINDS)}.")
        field = LogLinearField.zeros(templates, KINDS[self.dtype])
        if start is not None:
            field = start.on(templates)
        weights = sum(part.numel() for part in field.parameters().values())
        graph = batch.graph
        self._tell(
            f"{graph.components:,} examples, {graph.variables:,} variables, "
            f"{sum(map(len, graph.groups)):,} factors, {weights:,} weights."
        )
        self.outcome_ = train_field(field, batch, self._settings(templates, self._chosen(batch)))
        self.model_ = self.outcome_.model
        return self

    def _tell(self, remark: str) -> None:
        if self.verbose:
            sys.stderr.write(remark + "\n")

    def _decode(self, batch: FieldBatch, allowed: Bool[Tensor, "v s"] | None = None) -> Labelling:
        """The best labels of unlabelled examples, among the allowed ones."""
        return best_states(self._fitted(), _open(batch, allowed), self.inference)

    def _marginals(
        self, batch: FieldBatch, allowed: Bool[Tensor, "v s"] | None = None
    ) -> FieldMarginals:
        """The probabilities of all labels of unlabelled examples."""
        return marginals(self._fitted(), _open(batch, allowed), self.inference)

    def _templates(self, batch: FieldBatch) -> tuple[Template, ...]:
        """Which weights there are."""
        return find_templates(batch, min_freq=self.min_freq, everything=self.all_possible_pairs)

    def _tie(self, templates: tuple[Template, ...]) -> Int64[Tensor, "p"] | None:  # noqa: ARG002
        """Which weights are the same one; None: each is free."""
        return None

    def _chosen(self, batch: FieldBatch) -> Estimator:
        """The estimator asked for, or the one that suits the graphs."""
        if self.estimator != "auto":
            return self.estimator
        self.choice_ = choose_for_graphs(batch, self.pieces)
        return self.choice_.estimator

    def _settings(self, templates: tuple[Template, ...], estimator: Estimator) -> FieldSettings:
        own = Settings.__dataclass_fields__.keys() & self.get_params(deep=False).keys()
        optimisation = Settings(
            **{name: getattr(self, name) for name in own - {"estimator"}},
            estimator=estimator,
            cores=count_cores(self.n_jobs),
            seed=self.random_state,
            progress=self.verbose,
        )
        pieces = natural_pieces(estimator) if self.pieces is None else self.pieces
        principle = Principle(estimator, pieces, self.shares)
        return FieldSettings(principle, optimisation, self.executor, self._tie(templates))

    def _fitted(self) -> LogLinearField:
        model: LogLinearField = self._after_fit("model_")
        return model


def _open(batch: FieldBatch, allowed: Bool[Tensor, "v s"] | None) -> FieldBatch:
    batch = batch.unlabelled()
    return batch if allowed is None else replace(batch, allowed=batch.allowed & allowed)

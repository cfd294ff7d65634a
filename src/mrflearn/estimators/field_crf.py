"""What all CRFs on graphs share: training, answers and storage of a log-linear field."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Any, NamedTuple, Self

from jaxtyping import Bool
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.estimators import field_crf_storage
from mrflearn.estimators.base import Estimator, Parts
from mrflearn.estimators.crf_choice import (
    Choice,
    Wanted,
    choose_for_graphs,
    estimator_of,
    keep_choice,
)
from mrflearn.estimators.crf_outcome import restore_training, stored_training
from mrflearn.estimators.crf_training import Settings
from mrflearn.estimators.field_crf_answers import (
    FieldMarginals,
    Labelling,
    Method,
    best_states,
    marginals,
)
from mrflearn.estimators.field_crf_training import FieldSettings, train_field
from mrflearn.estimators.graph_inputs import mirrored_templates, mirrored_tie
from mrflearn.execution.cores import count_cores
from mrflearn.execution.device import choose_dtype
from mrflearn.execution.executor import Executor
from mrflearn.io.files import PathLike
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField, weights_of
from mrflearn.models.templates import Template, find_templates
from mrflearn.objectives.field_objectives import Criterion, Pieces, Principle, natural_pieces
from mrflearn.objectives.reweighted import Shares
from mrflearn.training.callbacks import Callback, Watcher
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.outcome import Outcome


class TopFeature(NamedTuple):
    """A weight: where it stands, what it looks at, and for which labels it speaks."""

    factors: str
    attribute: str
    labels: tuple[str, ...]
    weight: float


@dataclass(kw_only=True, eq=False, repr=False)  # scikit-learn compares and shows estimators
class FieldCRF(Estimator):
    """The part of a CRF that does not depend on where its graphs come from.

    An estimator derives from it, adds its own parameters to these (`GraphCRF` documents them), and
    turns what its users have into a `FieldBatch`.
    """

    estimator: Wanted = field(default="pw", kw_only=False)
    pieces: Pieces | None = None  # None: as suits the estimator
    shares: Shares = "uniform"
    c1: float = 0.0
    c2: float = 1.0
    min_freq: float = 0.0
    all_possible_pairs: bool = False
    algorithm: str = "lbfgs"
    max_iterations: int | None = None
    num_memories: int = 6
    epsilon: float = 1e-5
    period: int = 10
    delta: float = 1e-5
    batch_size: int = 32
    inference: Method = "auto"
    callbacks: Sequence[Callback | Watcher] = ()
    n_jobs: int | None = None
    dtype: str = "float32"
    random_state: int = 0
    verbose: bool = False

    model_: LogLinearField = field(init=False)
    outcome_: Outcome[LogLinearField] = field(init=False)
    choice_: Choice = field(init=False)  # of estimator="auto": which it took, and why

    def _learned_parts(self) -> Parts:
        learned, tensors = field_crf_storage.stored(self._fitted())
        return {**learned, **stored_training(self), **self._state()}, tensors

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.model_ = field_crf_storage.restored(learned, tensors)
        restore_training(self, learned)
        self._restore_inputs(learned)

    def _stored_settings(self) -> dict[str, Any]:
        own = super()._stored_settings()
        del own["callbacks"]
        return own

    def feature_weights(self) -> dict[str, dict[tuple[str, ...], float]]:
        """For each kind of factor {(attribute, label, ...): weight} of all weights not 0."""
        model = self._fitted()
        return {
            template.name: weights_of(model, k, self._axis_labels(template))
            for k, template in enumerate(model.templates)
        }

    @property
    def num_attributes_(self) -> int:
        """How many attributes have been seen."""
        # Kinds of factors may share their names.
        shared = {id(own.names): len(own.names) for own in self._fitted().templates}
        return sum(shared.values())

    def top_features(self, label: str | None = None, n: int = 20) -> list[TopFeature]:
        """The weights of largest absolute value.

        Parameters
        ----------
        label
            Weights that this label is part of; None: of all labels.
        n
            How many.

        Returns
        -------
        list of (factors, attribute, labels, weight)

        """
        self._check_label(label)
        found = [
            TopFeature(factors, attribute, tuple(labels), weight)
            for factors, weights in self.feature_weights().items()
            for (attribute, *labels), weight in weights.items()
            if label is None or label in labels
        ]
        return nlargest(n, found, key=lambda own: abs(own.weight))

    def _check_label(self, label: str | None) -> None:
        templates = self._fitted().templates
        known = {name for own in templates for axis in self._axis_labels(own) for name in axis}
        if label is not None and label not in known:
            raise SettingsError(
                f"there is no label '{label}'; there are {', '.join(sorted(known))}."
            )

    @abstractmethod
    def _axis_labels(self, template: Template) -> list[list[str]]:
        """The labels along each axis of a template's factors."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """What an estimator learned beside the field, as plain lists, dicts and strings."""

    @abstractmethod
    def _restore_inputs(self, state: dict[str, Any]) -> None:
        """Takes back what `_state` gave."""

    def _learn(
        self,
        batch: FieldBatch,
        start: LogLinearField | None = None,
        executor: Executor | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
        *,
        mirrored: bool = False,
    ) -> Self:
        """Trains the field, from the weights of `start` where it has them.

        With `mirrored`, weights of an edge do not depend on its direction.
        """
        templates = find_templates(
            batch, min_freq=self.min_freq, everything=self.all_possible_pairs
        )
        if mirrored:
            templates = mirrored_templates(templates)
        first = LogLinearField.zeros(templates, choose_dtype(self.dtype))
        if start is not None:
            first = start.on(templates)
        weights = sum(part.numel() for part in first.parameters().values())
        graph = batch.graph
        self._tell(
            f"{graph.components:,} examples, {graph.variables:,} variables, "
            f"{sum(map(len, graph.groups)):,} factors, {weights:,} weights."
        )
        choice = choose_for_graphs(batch, self.pieces) if self.estimator == "auto" else None
        optimisation = self._optimisation(choice)
        optimisation = replace(optimisation, checkpoint=checkpoint, resume=resume)
        tie = mirrored_tie(templates) if mirrored else None
        settings = FieldSettings(
            self._principle(optimisation.estimator), optimisation, executor, tie
        )
        self.outcome_ = train_field(first, batch, settings)
        self.model_ = self.outcome_.model
        keep_choice(self, choice)
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

    def _optimisation(self, choice: Choice | None) -> Settings:
        own = Settings.__dataclass_fields__.keys() & self.get_params(deep=False).keys()
        return Settings(
            **{name: getattr(self, name) for name in own - {"estimator"}},
            estimator=estimator_of(self, choice),
            cores=count_cores(self.n_jobs),
            seed=self.random_state,
            progress=self.verbose,
        )

    def _principle(self, estimator: Criterion) -> Principle:
        pieces = natural_pieces(estimator) if self.pieces is None else self.pieces
        return Principle(estimator, pieces, self.shares)

    def _fitted(self) -> LogLinearField:
        model: LogLinearField = self._after_fit("model_")
        return model


def _open(batch: FieldBatch, allowed: Bool[Tensor, "v s"] | None) -> FieldBatch:
    batch = batch.unlabelled()
    return batch if allowed is None else replace(batch, allowed=batch.allowed & allowed)

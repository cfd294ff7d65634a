"""`CRF`: a linear-chain conditional random field; takes the place of `sklearn_crfsuite.CRF`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators import crf_storage, crf_weights
from mrflearn.estimators.base import Parts
from mrflearn.estimators.chain_questions import ChainQuestions
from mrflearn.estimators.crf_choice import Choice, Wanted, choose_for_chains
from mrflearn.estimators.crf_inputs import compiled
from mrflearn.estimators.crf_training import Settings, estimate_memory, train
from mrflearn.estimators.crf_validation import Validation
from mrflearn.execution.cores import count_cores
from mrflearn.execution.device import choose_device, choose_dtype
from mrflearn.features.class_weights import sequence_weights
from mrflearn.features.compiled import CompiledFeatures
from mrflearn.features.labels import CompiledLabels, warn_of_single_label
from mrflearn.features.merging import merged
from mrflearn.features.recipes import Recipe
from mrflearn.features.support import Support, find_support
from mrflearn.io.files import PathLike
from mrflearn.models.chain_crf import ChainCRF
from mrflearn.models.storage import figure
from mrflearn.objectives.chain_blocks import ChainData
from mrflearn.objectives.field_objectives import Criterion
from mrflearn.training.callbacks import Callback, EarlyStopping, Watcher
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.outcome import Outcome

NOT_OFFERED = ("pa_type", "error_sensitive", "averaging", "variance", "gamma", "trainer_cls")
ClassWeight = Mapping[str, float] | Literal["balanced"] | None


class CRF(ChainQuestions):
    """A linear-chain conditional random field, by default trained by exact maximum likelihood.

    The first arguments are those of `sklearn_crfsuite.CRF`, with CRFsuite's meaning and defaults;
    the optimum is CRFsuite's: the sum of -log p(y | x) + c1 * sum |w| + c2 * sum w^2.

    algorithm: `"lbfgs"` (OWL-QN where c1 > 0), `"l2sgd"` or `"ap"` (averaged perceptron).
    min_freq: the least sum of values at which a feature is kept.
    all_possible_states, all_possible_transitions: also weights for pairs never seen together.
    max_iterations: None is CRFsuite's limit: none for lbfgs, 1000 for l2sgd, 100 for ap.
    num_memories, epsilon, period, delta: of L-BFGS; training stops when the gradient is small
        (epsilon), or when the value fell by less than delta, relative, over `period` iterations.
    calibration_*: how l2sgd finds its learning rate.
    linesearch, max_linesearch, calibration_max_trials, keep_tempfiles: taken, and without effect:
        the line search is always More and Thuente's, and there are no temporary files.
    pa_type, error_sensitive, averaging, variance, gamma: of `"pa"` and `"arow"`, which are not
        offered; they, and trainer_cls, must stay None.
    estimator: `"ml"` (exact), or quicker per step and approximate: `"pwpl"`, `"pw"` (a transition
        with its two tokens is a piece), `"pl"`, `"edge-pl"`, `"bp"` or `"pw-reweighted"`;
        `"auto"` takes the one that suits the data, and `choice_` says which and why.
    order: 2 gives weights to three labels in a row; attributes of transitions need order 1.
    class_weight: {label: weight} or `"balanced"`; the mean over its labels weighs a sequence.
    batch_size: sequences in a step of l2sgd and ap.
    patience: with a dev set, stop after so many iterations without a better score there.
    warm_start: `fit` begins with the weights of the last fit.
    n_jobs: cores to use; None or -1: all.
    """

    def __init__(
        self,
        algorithm: str = "lbfgs",
        min_freq: float = 0.0,
        all_possible_states: bool = False,
        all_possible_transitions: bool = False,
        c1: float = 0.0,
        c2: float = 1.0,
        max_iterations: int | None = None,
        num_memories: int = 6,
        epsilon: float = 1e-5,
        period: int = 10,
        delta: float = 1e-5,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float = 0.1,
        calibration_rate: float = 2.0,
        calibration_samples: int = 1000,
        calibration_candidates: int = 10,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | os.PathLike[str] | None = None,
        keep_tempfiles: bool | None = None,
        trainer_cls: None = None,
        *,
        estimator: Wanted = "ml",
        order: int = 1,
        class_weight: ClassWeight = None,
        batch_size: int = 32,
        patience: int = 10,
        warm_start: bool = False,
        callbacks: Sequence[Callback | Watcher] = (),
        dtype: str = "float32",
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.min_freq = min_freq
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.c1 = c1
        self.c2 = c2
        self.max_iterations = max_iterations
        self.num_memories = num_memories
        self.epsilon = epsilon
        self.period = period
        self.delta = delta
        self.linesearch = linesearch
        self.max_linesearch = max_linesearch
        self.calibration_eta = calibration_eta
        self.calibration_rate = calibration_rate
        self.calibration_samples = calibration_samples
        self.calibration_candidates = calibration_candidates
        self.calibration_max_trials = calibration_max_trials
        self.pa_type = pa_type
        self.error_sensitive = error_sensitive
        self.averaging = averaging
        self.variance = variance
        self.gamma = gamma
        self.verbose = verbose
        self.model_filename = model_filename
        self.keep_tempfiles = keep_tempfiles
        self.trainer_cls = trainer_cls
        self.estimator = estimator
        self.order = order
        self.class_weight = class_weight
        self.batch_size = batch_size
        self.patience = patience
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.dtype = dtype
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        X_dev: Iterable[Any] | None = None,
        y_dev: Iterable[Any] | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from sequences of items and their labels.

        X: lists (or a generator) of sequences of items, as `mrflearn.features.features` tells;
            what `compile_features` made of them; or, without y, what `read_crfsuite` reads.
            Names that `mrflearn.edge` made are attributes of the transition into their token.
        y: labels; None in place of one is unknown, a set is any of these.
        X_dev, y_dev: a held-out set; the weights that do best there are kept.
        checkpoint: a file that training is saved to every minute; with `resume` it goes on from
            there, to the same weights as if it had never stopped.
        """
        features, labels = compiled(X, y)
        warn_of_single_label(labels.names)
        support, features = self._support(features, labels)
        earlier: ChainCRF | None = getattr(self, "model_", None)
        if self.warm_start and earlier is not None:
            start = earlier.on(support)
        else:
            start = ChainCRF.zeros(support, choose_dtype(self.dtype), choose_device(self.device))
        data = ChainData(features, labels, self._weights(features, labels, sample_weight))
        validation = self._validation(X_dev, y_dev, support)
        return self._train(start, data, validation, False, checkpoint, resume)

    def partial_fit(
        self, X: Iterable[Any], y: Iterable[Any] | None = None, classes: Sequence[str] = ()
    ) -> Self:
        """Learns on from more data, which may have new labels and attributes.

        The weights learned so far are the centre of the penalty, so what the new data does not
        speak of stays as it is.
        """
        earlier: ChainCRF | None = getattr(self, "model_", None)
        known = [] if earlier is None else list(earlier.support.labels)
        features, labels = compiled(X, y, dict.fromkeys([*known, *classes]))
        support, features = self._support(features, labels)
        if earlier is None:
            start = ChainCRF.zeros(support, choose_dtype(self.dtype), choose_device(self.device))
        else:
            support = merged(earlier.support, support)
            start = earlier.on(support)
            number = [support.attributes[name] for name in features.names]
            features = features.renumbered(torch.tensor(number), support.attributes)
        data = ChainData(features, labels, self._weights(features, labels, None))
        return self._train(start, data, None, earlier is not None)

    def _learned_parts(self) -> Parts:
        learned, tensors = crf_storage.stored(self._fitted())
        recipe: Recipe | None = getattr(self, "recipe_", None)
        learned["temperature"] = getattr(self, "temperature_", 1.0)
        learned["recipe"] = None if recipe is None else recipe.settings()
        return learned, tensors

    def _restore(self, learned: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.model_ = crf_storage.restored(learned, tensors)
        self.temperature_ = figure(learned["temperature"])
        if learned["recipe"] is not None:
            self.recipe_ = Recipe.from_settings(learned["recipe"])

    def _stored_settings(self) -> dict[str, Any]:
        own = super()._stored_settings()
        for name in ("callbacks", "model_filename"):
            del own[name]
        if isinstance(self.class_weight, Mapping):
            own["class_weight"] = dict(self.class_weight)
        return own

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Writes all weights as text."""
        crf_weights.write_weights(path, self._fitted())

    @classmethod
    def from_dump(cls, path: str | os.PathLike[str], **settings: Any) -> Self:
        """The CRF whose weights stand in a text that `dump` wrote."""
        return cls._holding(crf_weights.read_weights(path), settings)

    @classmethod
    def from_weights(
        cls,
        labels: Sequence[str],
        state_features: Mapping[tuple[str, str], float],
        transition_features: Mapping[tuple[str, str], float],
        edge_features: Mapping[tuple[str, str, str], float] | None = None,
        **settings: Any,
    ) -> Self:
        """The CRF that has these weights, such as those python-crfsuite's `Tagger.info()` lists."""
        model = crf_weights.from_weights(
            list(labels), state_features, transition_features, edge=edge_features
        )
        return cls._holding(model, settings)

    @classmethod
    def _holding(cls, model: ChainCRF, settings: dict[str, Any]) -> Self:
        order = 1 if model.support.triples is None else 2
        self = cls(**{"order": order, **settings})
        device = choose_device(self.device)
        weights = {n: w.to(device, choose_dtype(self.dtype)) for n, w in model.parameters().items()}
        self.model_ = model.with_parameters(weights)
        return self

    def _train(
        self,
        start: ChainCRF,
        data: ChainData,
        validation: Validation | None,
        pull: bool,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        settings = self._settings(validation, self._chosen(start, data))
        settings = replace(settings, checkpoint=checkpoint, resume=resume)
        if self.verbose:
            sys.stderr.write(estimate_memory(start, data, settings) + "\n")
        self.outcome_: Outcome[ChainCRF] = train(start, data, settings, pull)
        self.model_, self.temperature_ = self.outcome_.model, 1.0
        if self.model_filename is not None:
            self.save(self.model_filename, overwrite=True)  # as sklearn-crfsuite does
        return self

    def _support(
        self, features: CompiledFeatures, labels: CompiledLabels
    ) -> tuple[Support, CompiledFeatures]:
        if self.order not in (1, 2):
            raise SettingsError(f"order={self.order}: chains of order 1 and 2 are offered.")
        return find_support(
            features,
            labels,
            order=self.order,
            min_freq=self.min_freq,
            all_states=self.all_possible_states,
            all_transitions=self.all_possible_transitions,
        )

    def _weights(
        self, features: CompiledFeatures, labels: CompiledLabels, sample_weight: ArrayLike | None
    ) -> Float[Tensor, "b"] | None:
        own = None
        if sample_weight is not None:
            own = torch.from_numpy(np.asarray(sample_weight, dtype=np.float64))
        return sequence_weights(features.lengths, labels, self.class_weight, own)

    def _validation(
        self, X: Iterable[Any] | None, y: Iterable[Any] | None, support: Support
    ) -> Validation | None:
        if (X is None) != (y is None):
            raise DataError("X_dev and y_dev go together: one of them is missing.")
        return None if X is None or y is None else Validation.of(X, y, support)

    def _chosen(self, start: ChainCRF, data: ChainData) -> Criterion:
        """The estimator asked for, or the one that suits the data."""
        if self.estimator != "auto":
            self.__dict__.pop("choice_", None)  # of an earlier fit
            return self.estimator
        self.choice_: Choice = choose_for_chains(
            start.support,
            data.features.tokens,
            algorithm=self.algorithm,
            device=start.state.device.type,
        )
        return self.choice_.estimator

    def _settings(self, validation: Validation | None, estimator: Criterion) -> Settings:
        for name in NOT_OFFERED:
            if getattr(self, name) is not None:
                raise SettingsError(f"{name} is an option of CRFsuite that this CRF has not.")
        callbacks = list(self.callbacks)
        if validation is not None:
            callbacks.append(EarlyStopping(validation, patience=self.patience))
        own = Settings.__dataclass_fields__.keys() & self.get_params().keys()
        return Settings(
            **{name: getattr(self, name) for name in own - {"callbacks", "estimator"}},
            estimator=estimator,
            cores=count_cores(self.n_jobs),
            seed=self.random_state,
            progress=self.verbose,
            callbacks=callbacks,
        )

"""Linear-chain CRFs, in place of sklearn_crfsuite."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import torch
from numpy.typing import ArrayLike

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators import crf_weights
from mrflearn.estimators.base import Choice
from mrflearn.estimators.crf_answers import held_out_score
from mrflearn.estimators.crf_training import Wanted, choose_for_chains, estimate_memory
from mrflearn.estimators.crfsuite import Tagger, TrainingLog
from mrflearn.estimators.labelling import HeldOut, pair_of
from mrflearn.execution.executor import Executor
from mrflearn.execution.held import Held
from mrflearn.execution.resources import choose_device, choose_dtype, count_cores
from mrflearn.features.features import (
    UNKNOWN,
    CompiledFeatures,
    CompiledLabels,
    Numbering,
    compile_features,
    compile_labels,
    sequence_weights,
    warn_of_single_label,
)
from mrflearn.features.index import FactorTemplate, chain_templates, merged
from mrflearn.io.crfsuite_text import AttributeSequence, read_crfsuite_model
from mrflearn.io.files import PathLike
from mrflearn.models.held_chains import HeldBatch, Outset, Read, Seen, ToBatch
from mrflearn.models.loglinear import ChainBatch, ChainPotentials, LogLinearField
from mrflearn.models.storage import check_target, figure, texts
from mrflearn.objectives.field_objectives import Criterion
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.outcome import EarlyStopping

# What users hand to a chain CRF, as features and labels by number.


def compiled(
    X: Any, y: Iterable[Any] | None, known: Iterable[str] = ()
) -> tuple[CompiledFeatures, CompiledLabels]:
    """Features and labels by number; without y, X yields sequences that hold their labels."""
    if y is None:
        y = []
        X = _split(X, y)
    features = X if isinstance(X, CompiledFeatures) else compile_features(X)
    labels = compile_labels(y, features.lengths, Numbering(known))
    if not len(labels.names):
        raise DataError("there is nothing to learn from: no sequence has a label.")
    return features, labels


def _split(sequences: Iterable[Any], labels: list[Any]) -> Iterator[Any]:
    for number, sequence in enumerate(sequences):
        if not isinstance(sequence, AttributeSequence):
            raise DataError(
                f"y is missing, and sequence {number} has no labels of its own "
                f"(it is a {type(sequence).__name__}). Give the labels: fit(X, y)."
            )
        labels.append(sequence.labels)
        yield sequence.features


# `CRF`: a linear-chain conditional random field; takes the place of `sklearn_crfsuite.CRF`.


ClassWeight = Mapping[str, float] | Literal["balanced"] | None


@dataclass(kw_only=True, eq=False, repr=False)
class CRF(crf_weights.ChainWeights):
    """A linear-chain conditional random field, by default trained by exact maximum likelihood.

    Takes the place of `sklearn_crfsuite.CRF`: arguments that CRFsuite has too have its names,
    meaning and defaults, and so has the optimum, that of the sum of
    -log p(y | x) + c1 * sum |w| + c2 * sum w^2.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}
        L-BFGS (OWL-QN where c1 > 0), stochastic gradient descent, the averaged perceptron, the
        passive-aggressive algorithm, or AROW (adaptive regularisation of weights).
    min_freq
        The least sum of values at which a feature is kept.
    all_possible_states
        Whether pairs of attribute and label never seen together have weights too.
    all_possible_transitions
        Whether pairs of labels never seen in a row have weights too.
    c1
        Strength of the L1 regularisation.
    c2
        Strength of the L2 regularisation.
    max_iterations
        Most iterations; None is CRFsuite's limit: no limit for lbfgs, 1000 for l2sgd, 100 for the
        others.
    num_memories
        How many steps L-BFGS remembers.
    epsilon
        Training stops when |gradient| max(1, |w|) <= epsilon max(1, |value|); with pa and arow,
        when the mean loss of a sequence is less.
    period
        The number of iterations over which `delta` is measured.
    delta
        Training stops when the value fell by less than this, relatively, over `period` iterations.
    calibration_eta
        The first learning rate that l2sgd tries.
    calibration_rate
        The factor between the learning rates that l2sgd tries.
    calibration_samples
        The number of sequences that l2sgd tries learning rates on.
    calibration_candidates
        The number of learning rates that l2sgd tries.
    pa_type : {0, 1, 2}
        Steps of pa: as long as the loss asks for (0), at most `c` (PA-I), or damped (PA-II).
    c
        Aggressiveness of PA-I and PA-II.
    error_sensitive
        Whether the loss of pa grows with the square root of the number of wrong labels.
    averaging
        Whether the weights of pa are the mean over all its steps.
    variance
        The variance of every weight that arow starts from.
    gamma
        How little a step of arow changes the weights.
    estimator
        `"ml"` (exact), or quicker per iteration and approximate: `"pwpl"`, `"pw"` (a transition
        with its two tokens is a piece), `"pl"`, `"edge-pl"`, `"bp"` or `"pw-reweighted"`;
        `"auto"` takes the one that suits the data and says why; in Python see `choice_`.
    order : {1, 2}
        2 gives weights to three labels in a row; attributes of transitions need order 1.
    features
        What makes features of a sentence of words, or of rows of cells: `"words"`, lines of a CRF++
        template, or a function by its name, as `"my_features:of_sentence"`; in Python also the
        function itself.  None: the features are given.
    class_weight
        `"balanced"` weighs labels against their frequency; in Python also {label: weight}.  A
        sequence has the mean weight of its labels.
    batch_size
        Sequences per step of l2sgd, ap, pa and arow; CRFsuite's is 1.
    patience
        With a validation set, stop after this many iterations without a better score on it.
    warm_start
        Whether `fit` begins with the weights of the last fit.
    callbacks
        Called after each iteration; see `mrflearn.training`.
    dtype : {"float32", "float64"}
        Type of numbers to compute with.
    device
        `"cpu"`, `"cuda"` or `"auto"`.
    n_jobs
        Cores to use; None is 1, -1 all.
    random_state
        The seed of batches and samples.
    verbose
        Whether to report progress on standard error.
    model_filename
        A directory that `fit` saves the model to.  Before `fit`, the model that is there answers;
        it may also be a file that CRFsuite wrote.
    linesearch, max_linesearch, calibration_max_trials, keep_tempfiles, trainer_cls
        Settings of `sklearn_crfsuite.CRF` without effect here: the line search is always More and
        Thuente's, there are no temporary files, and a custom trainer is refused.

    Attributes
    ----------
    classes_
        The labels, in the order of their first appearance; None before `fit`, as all that
        `sklearn_crfsuite.CRF` has.
    tagger_, training_log_
        The model and its training as python-crfsuite shows them.
    outcome_
        How training went.
    choice_
        With `estimator="auto"`: the estimator taken, and why.
    temperature_
        What scores are divided by; 1 before `calibrate`.

    """

    algorithm: str = field(default="lbfgs", kw_only=False)
    all_possible_states: bool = False
    all_possible_transitions: bool = False
    calibration_eta: float = 0.1
    calibration_rate: float = 2.0
    calibration_samples: int = 1000
    calibration_candidates: int = 10
    pa_type: int = 1
    c: float = 1.0
    error_sensitive: bool = True
    averaging: bool = True
    variance: float = 1.0
    gamma: float = 1.0
    estimator: Wanted = "ml"
    order: int = 1
    class_weight: ClassWeight = None
    patience: int = 20
    warm_start: bool = False
    device: str = "cpu"
    model_filename: str | os.PathLike[str] | None = None
    linesearch: str | None = None
    max_linesearch: int | None = None
    calibration_max_trials: int | None = None
    keep_tempfiles: bool = False
    trainer_cls: type | None = None

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        X_dev: Iterable[Any] | None = None,
        y_dev: Iterable[Any] | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        validation: HeldOut | None = None,
        executor: Executor | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
        resume: bool = False,
    ) -> Self:
        """Learns from sequences of items and their labels.

        Parameters
        ----------
        X
            Sequences of items, as `mrflearn.features.features` describes them (with `features`,
            what those are made of); the result of `compile_features`; without y, what
            `read_crfsuite` reads; or lists of (items, labels) or (items, labels, weight) that an
            executor holds, where they are compiled and summed.  Names that `mrflearn.edge` made
            are attributes of the transition into their token.
        y
            Their labels; None in place of a label is unknown, a set is any of these.
        X_dev, y_dev
            The same as `validation=(X_dev, y_dev)`, as sklearn_crfsuite has it.
        sample_weight
            The weight of each sequence.
        validation
            Held-out (X, y): the weights with the best chunk F1 (or accuracy) on it are kept.
        executor
            Where value and gradient are summed, with algorithm="lbfgs"; None: here, on `n_jobs`
            cores.  The sequences are sent there once.
        checkpoint
            A file that training is saved to every minute.
        resume
            Whether to continue from the checkpoint, to the same weights as without a stop.

        Returns
        -------
        the fitted CRF itself

        """
        held_out = _held_out(X_dev, y_dev, validation)
        if isinstance(X, Held):
            names, templates, held_batch = self._held_batch(X)
            batch: ChainBatch | HeldBatch = held_batch
        else:
            features, labels = compiled(self._extracted(X), y)
            names, weights = labels.names, (self.class_weight, sample_weight)
            templates, features = self._templates(features, labels)
            weight = sequence_weights(features.lengths, labels, *weights)
            batch = ChainBatch.of(templates, features, labels, weight)
        warn_of_single_label(names)
        earlier: LogLinearField | None = getattr(self, "model_", None)
        if self.warm_start and earlier is not None:
            number = [names.get(name, UNKNOWN) for name in self.labels_]
            start = earlier.on(templates, torch.tensor(number))
        else:
            start = self._zeros(templates)
        watchers = []
        if held_out is not None:
            state = templates[0]
            own = compile_features(self._items(held_out[0]), state.names, state.columns)
            gold = [list(tags) for tags in held_out[1]]  # filled while those are read
            checkpoint = Checkpoint.on(checkpoint, gold)
            rated = held_out_score(gold, own.lengths, names, _potentials_of(own))
            watchers.append(EarlyStopping(rated, patience=self.patience))
        how = {"watchers": watchers, "checkpoint": checkpoint, "resume": resume}
        return self._train(start, batch, names, executor=executor, **how)

    def partial_fit(
        self, X: Iterable[Any], y: Iterable[Any] | None = None, classes: Sequence[str] = ()
    ) -> Self:
        """Continues training on more data, which may have new labels and attributes.

        The weights learned so far are the centre of the penalty, so that those without evidence in
        the new data stay as they are.

        Parameters
        ----------
        X, y
            As in `fit`.
        classes
            Labels that later data will have.

        Returns
        -------
        the fitted CRF itself

        """
        earlier: LogLinearField | None = getattr(self, "model_", None)
        known = [] if earlier is None else list(self.labels_)
        items = self._extracted(X) if earlier is None else self._items(X)
        features, labels = compiled(items, y, dict.fromkeys([*known, *classes]))
        templates, features = self._templates(features, labels)
        if earlier is None:
            start = self._zeros(templates)
        else:
            templates = merged(earlier.templates, templates)
            start = earlier.on(templates)
            names = templates[0].names
            number = [names.get(name, UNKNOWN) for name in features.names]
            features = features.renumbered(torch.tensor(number), names)
        weight = sequence_weights(features.lengths, labels, self.class_weight, None)
        batch = ChainBatch.of(templates, features, labels, weight)
        return self._train(start, batch, labels.names, pull=earlier is not None)

    def _state(self) -> dict[str, Any]:
        return {"labels": list(self.labels_), "temperature": self.temperature_}

    def _restore_inputs(self, state: dict[str, Any]) -> None:
        self.labels_ = Numbering(texts(state, "labels"), closed=True)
        self.temperature_ = figure(state["temperature"])
        if len(self.labels_) != self.model_.templates[0].cells:
            raise DataError("weights and labels do not match")

    def _stored_settings(self) -> dict[str, Any]:
        own = super()._stored_settings()
        del own["model_filename"], own["trainer_cls"]
        if isinstance(self.class_weight, Mapping):
            own["class_weight"] = dict(self.class_weight)
        return own

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Writes all weights as text."""
        crf_weights.write_weights(path, self._fitted(), self.classes_)

    @classmethod
    def from_dump(cls, path: str | os.PathLike[str], **settings: Any) -> Self:
        """The CRF whose weights stand in a text that `dump` wrote."""
        return cls._holding(*crf_weights.read_weights(path), settings)

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
        found = crf_weights.from_weights(
            list(labels), state_features, transition_features, edge=edge_features
        )
        return cls._holding(*found, settings)

    @classmethod
    def _holding(cls, model: LogLinearField, labels: Numbering, settings: dict[str, Any]) -> Self:
        self = cls(**{"order": len(model.templates) - 1, **settings})
        device = choose_device(self.device)
        weights = {n: w.to(device, choose_dtype(self.dtype)) for n, w in model.parameters().items()}
        self.model_, self.labels_ = model.with_parameters(weights), labels
        self.temperature_ = 1.0
        return self

    @property
    def tagger_(self) -> Tagger:
        """The model as a `pycrfsuite.Tagger`; None before `fit`."""

        def tagger(_: LogLinearField) -> Tagger:
            if "_tagger" not in vars(self):
                self._tagger = Tagger(self)
            return self._tagger

        return self._learned(tagger)

    @property
    def training_log_(self) -> TrainingLog | None:
        """How training went, iteration by iteration; None before `fit`."""
        return TrainingLog.of(self.outcome_) if hasattr(self, "outcome_") else None

    def _fitted(self) -> LogLinearField:
        path = None if self.model_filename is None else Path(self.model_filename)
        if path is not None and not hasattr(self, "model_") and path.exists():
            if path.is_dir():
                found = type(self).load(path, device=self.device)
            else:
                settings: dict[str, Any] = {"dtype": self.dtype, "device": self.device}
                found = type(self).from_weights(*read_crfsuite_model(path), **settings)
            learned = {name: own for name, own in vars(found).items() if name.endswith("_")}
            self.__dict__.update(learned)
        return super()._fitted()

    def _train(
        self, start: LogLinearField, batch: ChainBatch | HeldBatch, labels: Numbering, **how: Any
    ) -> Self:
        if self.estimator != "auto":
            self._check_algorithm(self.estimator)  # before anything is reported
        if self.trainer_cls is not None:
            raise SettingsError("trainer_cls: training is mrflearn's own. See `callbacks`.")
        if self.model_filename is not None:
            check_target(self.model_filename, overwrite=True)
        memories = self.num_memories if self.algorithm == "lbfgs" else 0
        if isinstance(batch, ChainBatch):
            self._report(estimate_memory(start, batch, memories, count_cores(self.n_jobs)))
        self._learn(start, batch, **how)
        self.temperature_, self.labels_ = 1.0, Numbering(labels, closed=True)
        self.__dict__.pop("_tagger", None)  # it may hold a sequence for the earlier model
        if self.model_filename is not None:
            self.save(self.model_filename, overwrite=True)  # as sklearn-crfsuite does
        return self

    def _zeros(self, templates: tuple[FactorTemplate, ...]) -> LogLinearField:
        kind, device = choose_dtype(self.dtype), choose_device(self.device)
        return LogLinearField.zeros(templates, kind, device)

    def _held_batch(self, X: Held[Any]) -> tuple[Numbering, tuple[FactorTemplate, ...], HeldBatch]:
        """Labels, templates and batches of sequences that an executor holds."""
        extract, (first, names) = None, X.total(Outset.of)
        if self.features is not None and first is not None:
            list(self._extracted([first[0]]))
            extract = self.recipe_
        if not names:
            raise DataError("there is nothing to learn from: no sequence has a label.")
        blocks = X.then(Read(names, extract))
        self._check_order()
        seen = blocks.total(partial(Seen.of, self.order))
        templates = seen.templates(
            order=self.order,
            min_freq=self.min_freq,
            all_states=self.all_possible_states,
            all_transitions=self.all_possible_transitions,
        )
        make = ToBatch.by(templates, seen.class_weight(self.class_weight, names))
        known = (seen.sequences, seen.tokens, seen.pairs, torch.from_numpy(seen.state[2]))
        batch = HeldBatch(blocks.then(make), range(seen.sequences), seen.tokens, known)
        return Numbering(names, closed=True), templates, batch

    def _check_order(self) -> None:
        if self.order not in (1, 2):
            raise SettingsError(f"order={self.order}: chains of order 1 and 2 are offered.")

    def _templates(
        self, features: CompiledFeatures, labels: CompiledLabels
    ) -> tuple[tuple[FactorTemplate, ...], CompiledFeatures]:
        self._check_order()
        return chain_templates(
            features,
            labels,
            order=self.order,
            min_freq=self.min_freq,
            all_states=self.all_possible_states,
            all_transitions=self.all_possible_transitions,
        )

    def _choose(self, start: LogLinearField, batch: ChainBatch | HeldBatch) -> Choice[Criterion]:
        tokens = batch.tokens if isinstance(batch, HeldBatch) else batch.features.tokens
        device = start.device.type
        return choose_for_chains(start.plans, tokens, algorithm=self.algorithm, device=device)


def _held_out(
    X_dev: Iterable[Any] | None, y_dev: Iterable[Any] | None, validation: HeldOut | None
) -> HeldOut | None:
    if (X_dev is None) != (y_dev is None):
        raise SettingsError("X_dev and y_dev go together: one of them is missing.")
    if X_dev is None or y_dev is None:
        return None if validation is None else pair_of(validation)
    if validation is not None:
        raise SettingsError("validation=(X, y) and X_dev, y_dev are the same: give one of them.")
    return X_dev, y_dev


def _potentials_of(
    features: CompiledFeatures,
) -> Callable[[LogLinearField], Iterator[ChainPotentials]]:
    """What gives those of the same sequences under any weights; they are compiled once."""
    return lambda model: map(model.chains, model.parts(features))

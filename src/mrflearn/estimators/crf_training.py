"""How CRFs are trained: settings, choice of estimator, validation.

The rules follow measured trade-offs (docs/start/crf-estimators.md): exact likelihood is best where
graphs have no loops, and quick unless every transition has a large table of its own; pieces come
close to it, and are best on loops; their pseudolikelihood costs the states of one label at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Choice
from mrflearn.estimators.crf_answers import best_labels
from mrflearn.estimators.labelling import accuracy, chunk_f1
from mrflearn.execution.executor import Executor
from mrflearn.execution.threads import Threads
from mrflearn.features.features import CompiledFeatures, compile_features
from mrflearn.features.index import FactorTemplate
from mrflearn.inference.messages import is_forest
from mrflearn.io.files import PathLike
from mrflearn.io.spans import are_chunk_tags
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import NUMBERS_IN_TABLES, SHARES, FieldPlans, LogLinearField
from mrflearn.models.parameters import Layout
from mrflearn.models.sequence_batches import ChainBatch
from mrflearn.objectives.base import Objective, Reparametrised, Sum
from mrflearn.objectives.chain_likelihood import (
    NUMBERS_IN_BLOCK,
    ChainObjective,
    make_shards,
    perceptron,
)
from mrflearn.objectives.distributed import Distributed
from mrflearn.objectives.field_likelihood import FieldLikelihood
from mrflearn.objectives.field_objectives import (
    Criterion,
    Pieces,
    Principle,
    field_objective,
)
from mrflearn.objectives.penalty import Penalty
from mrflearn.objectives.reweighted import with_shares
from mrflearn.training.callbacks import Callback, Watcher
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import minimise
from mrflearn.training.outcome import Outcome
from mrflearn.training.owlqn import OWLQN
from mrflearn.training.problem import Optimiser
from mrflearn.training.sgd import SGD

# How CRFs are trained: CRFsuite's algorithms by their names and settings.


ALGORITHMS = ("lbfgs", "l2sgd", "ap")
# How long each runs where max_iterations is None: CRFsuite's own limits.
LIMITS = {"lbfgs": 1_000_000_000, "l2sgd": 1000, "ap": 100}
NOT_CONVERGED = "In the last evaluation belief propagation did not converge on every graph."
PARTITIONS = 8  # of the examples, where an executor adds them up


@dataclass(frozen=True)
class CRFSettings:
    """The settings of one training; names and meaning are CRFsuite's where it has them."""

    algorithm: str = "lbfgs"
    estimator: Criterion = "ml"
    c1: float = 0.0
    c2: float = 1.0
    max_iterations: int | None = None
    num_memories: int = 6
    epsilon: float = 1e-5
    period: int = 10
    delta: float = 1e-5
    calibration_eta: float = 0.1
    calibration_rate: float = 2.0
    calibration_samples: int = 1000
    calibration_candidates: int = 10
    batch_size: int = 32
    cores: int = 1
    seed: int = 0
    progress: bool = False
    callbacks: Sequence[Callback | Watcher] = ()
    checkpoint: PathLike | Checkpoint | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise SettingsError(
                f"algorithm {self.algorithm!r} is not one of {', '.join(ALGORITHMS)}. CRFsuite's "
                "'pa' and 'arow' are not offered: try 'ap', or 'lbfgs' for good probabilities."
            )
        if self.algorithm == "ap" and self.estimator != "ml":
            raise SettingsError(
                f"the perceptron (algorithm='ap') follows errors of whole sequences and takes no "
                f"estimator='{self.estimator}'; try algorithm='lbfgs'."
            )
        if self.algorithm != "lbfgs" and self.c1:
            raise SettingsError(f"c1={self.c1} (L1) needs algorithm='lbfgs'.")

    @property
    def limit(self) -> int:
        """The most iterations, or epochs."""
        given = self.max_iterations
        return LIMITS[self.algorithm] if given is None else given


@dataclass(frozen=True)
class Training:
    """What is made small (`principle`), by what (`settings`), and where (None: here).

    With `tie`, weight i of all is free weight `tie[i]`.  With `pull` the penalty is on the distance
    from the weights training starts from, not on the weights themselves: new data moves them only
    as far as it has evidence [Chelba & Acero 2006].
    """

    principle: Principle
    settings: CRFSettings
    executor: Executor | None = None
    tie: Int64[Tensor, " p"] | None = None
    pull: bool = False


def train(
    start: LogLinearField, batch: FieldBatch | ChainBatch, training: Training
) -> Outcome[LogLinearField]:
    """The trained field, starting from `start`."""
    settings, principle = training.settings, training.principle
    start = with_shares(start, principle.shares)
    with Threads(settings.cores) as threads:
        if settings.algorithm == "lbfgs":
            objective = _whole(start, batch, training, threads)

            def in_double() -> Objective[LogLinearField]:
                doubled = {name: own.double() for name, own in start.parameters().items()}
                return _whole(start.with_parameters(doubled), batch, training, threads)

            outcome = _run(objective, quasi_newton(settings), training, in_double)
            if isinstance(objective, FieldLikelihood | Distributed) and not objective.converged:
                return replace(outcome, reason=f"{outcome.reason} {NOT_CONVERGED}")
            return outcome
        if training.executor is not None:
            raise SettingsError("an executor needs algorithm='lbfgs': SGD goes step by step.")
        parts = _minibatches(batch, settings)
        if settings.algorithm == "ap":
            losses = Sum([_perceptron_loss(start, part, threads) for part in parts])
            return _run(losses, _perceptron(settings), training)
        losses = Sum([field_objective(start, part, principle, threads) for part in parts])
        return _run(losses, descent(settings, calibrate(losses, settings)), training)


def _perceptron_loss(
    start: LogLinearField, batch: FieldBatch | ChainBatch, threads: Threads
) -> Objective[LogLinearField]:
    if not isinstance(batch, ChainBatch):
        raise SettingsError("algorithm='ap' is for chains (`CRF`); try 'lbfgs' or 'l2sgd' here.")
    return ChainObjective(start, make_shards(start, batch, 1), threads, perceptron)


def _whole(
    start: LogLinearField, batch: FieldBatch | ChainBatch, training: Training, threads: Threads
) -> Objective[LogLinearField]:
    if training.executor is None:
        return field_objective(start, batch, training.principle, threads)
    assert isinstance(batch, FieldBatch)  # noqa: S101 - `CRF` has no executor
    parts = list(batch.parts(PARTITIONS))
    return Distributed(start, training.principle, parts, training.executor)


def _minibatches(
    batch: FieldBatch | ChainBatch, settings: CRFSettings
) -> Iterator[FieldBatch | ChainBatch]:
    """Examples in a random order, so many at a time; empty ones in none."""
    order = torch.from_numpy(np.random.default_rng(settings.seed).permutation(len(batch.sizes)))
    for chosen in order[batch.sizes[order] > 0].split(settings.batch_size):
        yield batch.examples(chosen)


def estimate_memory(model: LogLinearField, batch: ChainBatch, settings: CRFSettings) -> str:
    """In words, how large the problem is and how much memory training will take beside the data."""
    features, size, plans = batch.features, model.dtype.itemsize, model.plans
    labels, states = batch.labels, plans.chain.states
    weights = sum(part.numel() for part in model.parameters().values())
    vectors = 9 + (2 * settings.num_memories if settings.algorithm == "lbfgs" else 0)
    values = 0 if features.values is None else 2 * features.values.nbytes
    blocks = 8 * settings.cores * min(features.tokens * states, NUMBERS_IN_BLOCK)
    tables = (settings.cores + 1) * plans.whole[0].weights.rows * labels
    if not plans.shared_table:
        tables += (settings.cores + 1) * plans.whole[1].weights.rows * labels**2
        blocks += 4 * settings.cores * min(features.tokens * labels**2, NUMBERS_IN_TABLES)
    numbers = vectors * weights + features.tokens * labels + blocks + tables
    # Laying the data out takes some 36 bytes an attribute for a moment, of which 12 stay.
    total = features.nbytes + 36 * len(features.attributes) + values + size * numbers
    return (
        f"{len(features):,} sequences, {features.tokens:,} tokens, {labels} labels, "
        f"{weights:,} weights; training takes about {total / 2**20:,.0f} MB."
    )


def quasi_newton(settings: CRFSettings) -> Optimiser[Any]:
    """L-BFGS, or where there is L1 its orthant-wise kin."""
    kind = OWLQN if settings.c1 else LBFGS
    return kind(
        max_iterations=settings.limit,
        tolerance=settings.epsilon,
        history=settings.num_memories,
        period=settings.period,
        delta=settings.delta,
    )


def _perceptron(settings: CRFSettings) -> Optimiser[Any]:
    return SGD(rate=1.0, epochs=settings.limit, average_from=1, period=settings.period)


def descent(settings: CRFSettings, rate: float) -> Optimiser[Any]:
    """Stochastic gradient descent at a rate that falls from epoch to epoch."""
    # CRFsuite's schedule 1 / (lambda (t0 + t)), lambda = 2 c2 / N, written in epochs.
    return SGD(
        rate=rate,
        epochs=settings.limit,
        decay=2 * settings.c2 * rate,
        period=settings.period,
        delta=settings.delta,
    )


def calibrate(objective: Objective[Any], settings: CRFSettings) -> float:
    """The learning rate that lowers the loss of some batches most in one pass over them."""
    some = max(1, min(settings.calibration_samples // settings.batch_size, objective.parts))
    trials: dict[float, float] = {}
    rate, factor = settings.calibration_eta, settings.calibration_rate
    for _ in range(settings.calibration_candidates):
        trials[rate] = _trial(objective, some, rate)
        best = min(trials, key=lambda tried: trials[tried])
        # On past the best so far; when that gets worse, on the other side of the first.
        if trials[rate] > trials[best] and factor > 1:
            rate, factor = settings.calibration_eta, 1 / factor
        elif trials[rate] > trials[best]:
            break
        rate *= factor
    return min(trials, key=lambda tried: trials[tried])


def _trial(objective: Objective[Any], some: int, rate: float) -> float:
    vector = objective.start.clone()
    for k in range(some):
        vector.sub_(objective.part(k, vector).gradient, alpha=rate)
    loss = sum(float(objective.part(k, vector).value) for k in range(some))
    return loss if np.isfinite(loss) else np.inf


@dataclass(frozen=True, eq=False)
class _FreeWeights:
    """A field as its free weights: weight i of all is free weight `tie[i]`."""

    field: LogLinearField
    tie: Int64[Tensor, " p"]

    def parameters(self) -> dict[str, Tensor]:
        own = self.field.parameters()
        vector = Layout.of(own).flatten(own)
        free = vector.new_zeros(int(self.tie.max()) + 1)
        return {"weights": free.index_copy_(0, self.tie, vector)}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> LogLinearField:
        layout = Layout.of(self.field.parameters())
        return self.field.with_parameters(layout.unflatten(parameters["weights"][self.tie]))


def _run(
    objective: Objective[LogLinearField],
    optimiser: Optimiser[Any],
    training: Training,
    in_double: Callable[[], Objective[LogLinearField]] | None = None,
) -> Outcome[LogLinearField]:
    settings, tie = training.settings, training.tie
    if tie is not None and objective.model.shares is not None:
        raise SettingsError("shares='optimised' needs directed edges or factor graphs.")
    origin = objective.start if training.pull else None

    def freed(given: Objective[LogLinearField]) -> Objective[LogLinearField]:
        if tie is not None:
            return Reparametrised(given, _FreeWeights(given.model, tie), tie)
        return given if origin is None else Reparametrised(given, given.model, shift=origin)

    free, strengths = freed(objective), (settings.c1, settings.c2)
    if settings.algorithm == "ap":
        strengths = (0.0, 0.0)
    penalised = [name for name in free.layout.names if name != SHARES]
    return minimise(
        free,
        optimiser,
        penalty=Penalty(*(dict.fromkeys(penalised, own) for own in strengths)),
        callbacks=settings.callbacks,
        progress=settings.progress,
        checkpoint=settings.checkpoint,
        resume=settings.resume,
        seed=settings.seed,
        in_double=None if in_double is None else lambda: freed(in_double()),
    )


# Which estimator suits a CRF, and why: what `estimator="auto"` does.


Wanted = Criterion | Literal["auto"]
MANY_CELLS = 50_000_000  # of all tables: exact likelihood then takes over half a second at a time


def choose_for_chains(
    plans: FieldPlans, tokens: int, *, algorithm: str = "lbfgs", device: str = "cpu"
) -> Choice[Criterion]:
    """The estimator for so many tokens of chains."""
    if len(plans.templates) > 2:
        return Choice("ml", "chains of order 2 have no other")
    if algorithm == "ap" or device != "cpu":
        return Choice("ml", f"{'the perceptron' if algorithm == 'ap' else 'a GPU'} has no other")
    labels = plans.templates[0].cells
    if plans.shared_table:
        return Choice("ml", "exact likelihood is quick where all transitions share one table")
    if tokens * labels**2 < MANY_CELLS:
        return Choice("ml", f"with {labels} labels exact likelihood is quick enough")
    return Choice(
        "pwpl",
        f"{tokens:,} transitions have tables of {labels} x {labels} labels of their own, and it "
        "needs a row and a column of each",
    )


def choose_for_graphs(batch: FieldBatch, pieces: Pieces | None = None) -> Choice[Criterion]:
    """The estimator for labelled graphs, and for pieces where they are named."""
    if pieces not in (None, "factors"):
        return Choice("pw", "pieces are named")
    cells = cells_of_tables(batch)
    if cells >= MANY_CELLS:
        return Choice(
            "pwpl", f"the factors have {cells:,} joint states, and it needs few of them at a time"
        )
    if is_forest(batch.graph):
        return Choice("ml", "the graphs have no loops, so that exact likelihood is quick")
    return Choice("pw", "the graphs have loops, where pieces did best")


def estimator_of(model: Any, choice: Choice[Criterion] | None) -> Criterion:
    """The estimator that was chosen, or else the one that the model's user asked for."""
    estimator: Criterion = model.estimator if choice is None else choice.estimator
    return estimator


def cells_of_tables(batch: FieldBatch) -> int:
    """How many joint states the factors of several variables have, all together."""
    graph = batch.graph
    groups = [group for group in graph.groups if group.arity > 1]
    return sum(int(graph.states[group.scope].prod(dim=1).sum()) for group in groups)


# How good a chain CRF is on held-out sequences while it trains.


@final
@dataclass(frozen=True, eq=False)
class Validation:
    """Held-out sequences, compiled once; `chunks`: the score is F1 over chunks, not accuracy."""

    features: CompiledFeatures
    labels: Sequence[Sequence[str]]
    names: Sequence[str]
    chunks: bool

    @classmethod
    def of(
        cls,
        X: Iterable[Any],
        y: Iterable[Sequence[str]],
        template: FactorTemplate,
        names: Collection[str],
    ) -> Validation:
        features = compile_features(X, template.names, template.columns)
        labels = [list(own) for own in y]
        lengths = features.lengths.tolist()
        if [len(own) for own in labels] != lengths:
            raise DataError(
                "X and y of the validation set differ in their sequences' number or lengths."
            )
        return cls(features, labels, list(names), are_chunk_tags(names))

    @torch.no_grad()
    def __call__(self, model: LogLinearField) -> float:
        """The score of a model, between 0 and 1."""
        parts = model.parts(self.features)
        found = [own for part in parts for own in best_labels(model.chains(part), self.names)]
        if self.chunks:
            return chunk_f1(self.labels, found)
        return accuracy(self.labels, found)

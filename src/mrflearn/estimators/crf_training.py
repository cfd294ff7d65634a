"""How CRFs are trained: settings, choice of estimator, validation.

The rules follow measured trade-offs (docs/start/crf-estimators.md): exact likelihood is best where
graphs have no loops, and quick unless every transition has a large table of its own; pieces come
close to it, and are best on loops; their pseudolikelihood costs the states of one label at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import torch
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.base import Choice
from mrflearn.estimators.crf_answers import best_labels
from mrflearn.estimators.labelling import accuracy, chunk_f1
from mrflearn.execution.threads import Threads
from mrflearn.features.features import CompiledFeatures, compile_features
from mrflearn.features.support import Support
from mrflearn.inference.messages import is_forest
from mrflearn.io.files import PathLike
from mrflearn.io.spans import are_chunk_tags
from mrflearn.models.chain_crf import NUMBERS_IN_TABLES, ChainCRF
from mrflearn.models.field_batch import FieldBatch
from mrflearn.objectives.base import Objective, Reparametrised, Sum
from mrflearn.objectives.chain_estimators import chain_objective, chain_objectives
from mrflearn.objectives.chain_likelihood import (
    NUMBERS_IN_BLOCK,
    ChainData,
    ChainLikelihood,
    make_shard,
    make_shards,
)
from mrflearn.objectives.chain_perceptron import ChainPerceptron
from mrflearn.objectives.field_objectives import Criterion, Pieces
from mrflearn.objectives.penalty import Penalty
from mrflearn.training.callbacks import Callback, Watcher
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import minimise
from mrflearn.training.outcome import Outcome
from mrflearn.training.owlqn import OWLQN
from mrflearn.training.problem import Optimiser
from mrflearn.training.sgd import SGD

# How a chain CRF is trained: CRFsuite's algorithms by their names and settings.


ALGORITHMS = ("lbfgs", "l2sgd", "ap")
# How long each runs where max_iterations is None: CRFsuite's own limits.
LIMITS = {"lbfgs": 1_000_000_000, "l2sgd": 1000, "ap": 100}


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


def train(model: ChainCRF, data: ChainData, settings: CRFSettings, pull: bool) -> Outcome[ChainCRF]:
    """The trained model, starting from `model`.

    With `pull` the penalty is on the distance from its weights, not on the weights themselves:
    new data moves them only as far as it has evidence [Chelba & Acero 2006].
    """
    with Threads(settings.cores) as threads:
        if settings.algorithm == "lbfgs":
            objective = _whole(model, data, settings, threads)

            def in_double() -> Objective[ChainCRF]:
                return _whole(_double(model), data, settings, threads)

            return _run(objective, quasi_newton(settings), settings, pull, in_double)
        batches = _batches(data, settings)
        if settings.algorithm == "ap":
            shards = [make_shard(model, data, [batch]) for batch in batches]
            losses = Sum([ChainPerceptron(model, [shard], threads) for shard in shards])
            return _run(losses, _perceptron(settings), settings, pull)
        losses = Sum(_losses(model, data, settings, threads, batches))
        return _run(losses, descent(settings, calibrate(losses, settings)), settings, pull)


def _double(model: ChainCRF) -> ChainCRF:
    return model.with_parameters({name: own.double() for name, own in model.parameters().items()})


def _whole(
    model: ChainCRF, data: ChainData, settings: CRFSettings, threads: Threads
) -> Objective[ChainCRF]:
    if settings.estimator != "ml":
        return chain_objective(model, data, settings.estimator, threads)
    return ChainLikelihood(model, make_shards(model, data, settings.cores), threads)


def _losses(
    model: ChainCRF,
    data: ChainData,
    settings: CRFSettings,
    threads: Threads,
    batches: list[Tensor],
) -> Sequence[Objective[ChainCRF]]:
    if settings.estimator != "ml":
        return chain_objectives(model, data, settings.estimator, threads, batches)
    return [
        ChainLikelihood(model, [make_shard(model, data, [batch])], threads) for batch in batches
    ]


def estimate_memory(model: ChainCRF, data: ChainData, settings: CRFSettings) -> str:
    """In words, how large the problem is and how much memory training will take beside the data."""
    features, size = data.features, model.state.element_size()
    labels, states = len(model.support.labels), model.chain.states
    weights = sum(part.numel() for part in model.parameters().values())
    vectors = 9 + (2 * settings.num_memories if settings.algorithm == "lbfgs" else 0)
    values = 0 if features.values is None else 2 * features.values.nbytes
    blocks = 8 * settings.cores * min(features.tokens * states, NUMBERS_IN_BLOCK)
    tables = (settings.cores + 1) * model.plan.rows * labels
    if model.edge_plan is not None:
        tables += (settings.cores + 1) * model.edge_plan.rows * labels**2
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


def _batches(data: ChainData, settings: CRFSettings) -> list[Tensor]:
    """The sequences in a random order, so many at a time."""
    order = np.random.default_rng(settings.seed).permutation(len(data.features))
    chosen = torch.from_numpy(order)
    chosen = chosen[data.features.lengths[chosen] > 0]
    return list(chosen.split(settings.batch_size))


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


def _run(
    objective: Objective[ChainCRF],
    optimiser: Optimiser[Any],
    settings: CRFSettings,
    pull: bool,
    in_double: Callable[[], Objective[ChainCRF]] | None = None,
) -> Outcome[ChainCRF]:
    origin = objective.start if pull else None

    def pulled(own: Objective[ChainCRF]) -> Objective[ChainCRF]:
        return own if origin is None else Reparametrised(own, own.model, shift=origin)

    free = settings.algorithm == "ap"
    return minimise(
        pulled(objective),
        optimiser,
        penalty=Penalty() if free else Penalty(settings.c1, settings.c2),
        callbacks=settings.callbacks,
        progress=settings.progress,
        checkpoint=settings.checkpoint,
        resume=settings.resume,
        seed=settings.seed,
        in_double=None if in_double is None else lambda: pulled(in_double()),
    )


# Which estimator suits a CRF, and why: what `estimator="auto"` does.


Wanted = Criterion | Literal["auto"]
MANY_CELLS = 50_000_000  # of all tables: exact likelihood then takes over half a second at a time


def choose_for_chains(
    support: Support, tokens: int, *, algorithm: str = "lbfgs", device: str = "cpu"
) -> Choice[Criterion]:
    """The estimator for so many tokens of chains."""
    if support.triples is not None:
        return Choice("ml", "chains of order 2 have no other")
    if algorithm == "ap" or device != "cpu":
        return Choice("ml", f"{'the perceptron' if algorithm == 'ap' else 'a GPU'} has no other")
    labels = len(support.labels)
    if not len(support.edges):
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
    chunks: bool

    @classmethod
    def of(cls, X: Iterable[Any], y: Iterable[Sequence[str]], support: Support) -> Validation:
        features = compile_features(X, support.attributes, support.columns)
        labels = [list(own) for own in y]
        lengths = features.lengths.tolist()
        if [len(own) for own in labels] != lengths:
            raise DataError(
                "X and y of the validation set differ in their sequences' number or lengths."
            )
        return cls(features, labels, are_chunk_tags(support.labels))

    @torch.no_grad()
    def __call__(self, model: ChainCRF) -> float:
        """The score of a model, between 0 and 1."""
        labels, parts = list(model.support.labels), model.parts(self.features)
        found = [own for part in parts for own in best_labels(model.chains(part), labels)]
        if self.chunks:
            return chunk_f1(self.labels, found)
        return accuracy(self.labels, found)

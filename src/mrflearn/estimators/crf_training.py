"""How a chain CRF is trained: CRFsuite's algorithms by their names and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from mrflearn.data.files import PathLike
from mrflearn.errors import MrflearnError
from mrflearn.execution.threads import Threads
from mrflearn.models.chain_crf import ChainCRF
from mrflearn.models.parameters import Layout
from mrflearn.objectives.chain_blocks import ChainData, make_shards
from mrflearn.objectives.chain_likelihood import ChainLikelihood
from mrflearn.objectives.penalties import ElasticNet, NoPenalty
from mrflearn.training.callbacks import Callback, Watcher
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import run
from mrflearn.training.optimiser import Optimiser
from mrflearn.training.outcome import Outcome
from mrflearn.training.owlqn import OWLQN
from mrflearn.training.plan import Plan

ALGORITHMS = ("lbfgs", "l2sgd", "ap")
NO_LIMIT = 1_000_000


@dataclass(frozen=True)
class Settings:
    """The settings of one training; names and meaning are CRFsuite's where it has them."""

    algorithm: str
    c1: float
    c2: float
    max_iterations: int | None
    num_memories: int
    epsilon: float
    period: int
    delta: float
    batch_size: int
    cores: int
    seed: int
    progress: bool
    callbacks: Sequence[Callback | Watcher] = ()
    checkpoint: PathLike | Checkpoint | None = None
    resume: bool = False


def train(model: ChainCRF, data: ChainData, settings: Settings) -> Outcome[ChainCRF]:
    """The trained model; `model` is the starting point."""
    if settings.algorithm not in ALGORITHMS:
        raise MrflearnError(
            f"algorithm {settings.algorithm!r} is not one of {', '.join(ALGORITHMS)}. "
            "'pa' and 'arow' are not offered: try 'ap', or 'lbfgs' for probabilities."
        )
    with Threads(settings.cores) as threads:
        shards = make_shards(model, data, settings.cores)
        return _run(
            model, [ChainLikelihood(model, shards, threads)], _quasi_newton(settings), settings
        )


def _quasi_newton(settings: Settings) -> Optimiser[Any]:
    kind = OWLQN if settings.c1 else LBFGS
    return kind(
        max_iterations=NO_LIMIT if settings.max_iterations is None else settings.max_iterations,
        tolerance=settings.epsilon,
        history=settings.num_memories,
        period=settings.period,
        delta=settings.delta,
    )


def _run(
    model: ChainCRF, functions: Sequence[Any], optimiser: Optimiser[Any], settings: Settings
) -> Outcome[ChainCRF]:
    parameters = model.parameters()
    layout = Layout.of(parameters)

    def rebuild(vector: Tensor) -> ChainCRF:
        return model.with_parameters(layout.unflatten(vector))

    plan = Plan(
        functions,
        layout.flatten(parameters),
        layout,
        rebuild,
        "ChainCRF",
        optimiser,
        ElasticNet(settings.c1, settings.c2) if settings.c1 or settings.c2 else NoPenalty(),
        settings.seed,
    )
    return run(plan, settings.callbacks, settings.progress, settings.checkpoint, settings.resume)

"""How a CRF on any graphs is trained: the estimator, the optimiser and where the work runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.estimators.crf_training import Settings, calibrate, descent, quasi_newton
from mrflearn.execution.executor import Executor
from mrflearn.execution.threads import Threads
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import SHARES, LogLinearField
from mrflearn.models.parameters import Layout
from mrflearn.objectives.distributed import Distributed
from mrflearn.objectives.field_likelihood import FieldLikelihood
from mrflearn.objectives.field_objectives import Principle, field_objective
from mrflearn.objectives.objective import ValueAndGradient
from mrflearn.objectives.penalties import ElasticNet, NoPenalty
from mrflearn.objectives.reweighted import with_shares
from mrflearn.objectives.tied import tied
from mrflearn.training.loop import run
from mrflearn.training.optimiser import Optimiser
from mrflearn.training.outcome import Outcome
from mrflearn.training.plan import Plan

NOT_CONVERGED = "In the last evaluation belief propagation did not converge on every graph."
PARTITIONS = 8  # of the examples, where an executor adds them up


@dataclass(frozen=True)
class FieldSettings:
    """What is made small (`principle`), by what (as for chains), and where (None: here).

    With `tie`, weight i of all is free weight `tie[i]`.
    """

    principle: Principle
    optimisation: Settings
    executor: Executor | None = None
    tie: Int64[Tensor, "p"] | None = None


def train_field(
    start: LogLinearField, batch: FieldBatch, settings: FieldSettings
) -> Outcome[LogLinearField]:
    """The trained field, starting from `start`."""
    optimisation = settings.optimisation
    start = with_shares(start, settings.principle.shares)
    if optimisation.algorithm == "ap":
        raise SettingsError("algorithm='ap' is for chains (`CRF`); try 'lbfgs' or 'l2sgd' here.")
    with Threads(optimisation.cores) as threads:
        if optimisation.algorithm == "lbfgs":
            function = _whole(start, batch, settings, threads)

            def in_double() -> list[ValueAndGradient]:
                doubled = {name: own.double() for name, own in start.parameters().items()}
                return [_whole(start.with_parameters(doubled), batch, settings, threads)]

            outcome = _run(start, [function], quasi_newton(optimisation), settings, in_double)
            if isinstance(function, FieldLikelihood | Distributed) and not function.converged:
                return replace(outcome, reason=f"{outcome.reason} {NOT_CONVERGED}")
            return outcome
        if settings.executor is not None:
            raise SettingsError("an executor needs algorithm='lbfgs': SGD goes step by step.")
        functions = [
            field_objective(start, part, settings.principle, threads)
            for part in _minibatches(batch, optimisation)
        ]
        first = Layout.of(start.parameters()).flatten(start.parameters())
        rate = calibrate(functions, first, optimisation)
        return _run(start, functions, descent(optimisation, rate), settings)


def _whole(
    start: LogLinearField, batch: FieldBatch, settings: FieldSettings, threads: Threads
) -> ValueAndGradient:
    if settings.executor is None:
        return field_objective(start, batch, settings.principle, threads)
    parts = list(batch.parts(PARTITIONS))
    return Distributed(start, settings.principle, parts, settings.executor)


def _minibatches(batch: FieldBatch, settings: Settings) -> Iterator[FieldBatch]:
    """Examples in a random order, so many at a time."""
    order = np.random.default_rng(settings.seed).permutation(batch.graph.components)
    for chosen in torch.from_numpy(order).split(settings.batch_size):
        yield batch.examples(chosen).compact()


def _run(
    start: LogLinearField,
    functions: Sequence[ValueAndGradient],
    optimiser: Optimiser[Any],
    settings: FieldSettings,
    in_double: Callable[[], list[ValueAndGradient]] | None = None,
) -> Outcome[LogLinearField]:
    layout, tie = Layout.of(start.parameters()), settings.tie
    vector = layout.flatten(start.parameters())
    own, laid = settings.optimisation, layout
    if tie is not None:
        if start.shares is not None:
            raise SettingsError("shares='optimised' needs directed edges or factor graphs.")
        vector = vector.new_zeros(int(tie.max()) + 1).index_copy_(0, tie, vector)
        laid = Layout(("weights",), (vector.shape,))

    def freed(functions: Sequence[ValueAndGradient]) -> Sequence[ValueAndGradient]:
        return functions if tie is None else [tied(function, tie) for function in functions]

    def rebuild(free: Tensor) -> LogLinearField:
        return start.with_parameters(layout.unflatten(free if tie is None else free[tie]))

    priced = own.c1 or own.c2
    kept = () if start.shares is None else (SHARES,)
    plan = Plan(
        freed(functions),
        vector,
        laid,
        rebuild,
        type(start).__name__,
        optimiser,
        ElasticNet(own.c1, own.c2, kept) if priced else NoPenalty(),
        own.seed,
        in_double=None if in_double is None else lambda: freed(in_double()),
    )
    return run(plan, own.callbacks, own.progress, own.checkpoint, own.resume)

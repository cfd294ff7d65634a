"""Moments in, a fitted neighbour model out, by the lifted bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.estimators.lifted_choice import ChosenBound
from mrflearn.execution.device import choose_device
from mrflearn.execution.memory import require_memory
from mrflearn.features.moments import Moments
from mrflearn.inference.lifted import BoundName, Ceiling, default_weights
from mrflearn.io.files import PathLike
from mrflearn.models.neighbour_lm import BilinearPairs, ExplicitPairs, LowRankPairs, NeighbourModel
from mrflearn.models.neighbour_start import log_frequencies, spectral_start
from mrflearn.objectives.lifted_bound import Frequencies, LiftedBound, ScaledL2
from mrflearn.training.callbacks import EarlyStopping
from mrflearn.training.checkpoint import Checkpoint, Stages
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.minimising import minimise
from mrflearn.training.outcome import Outcome

Form = Literal["low-rank", "bilinear", "explicit"]
NumberType = Literal["float32", "float64"]
SMOOTHING = 1e-4  # of word frequencies in the scales of parameters
RATIOS = (0.2, 0.087, 0.03)  # of one offset's weight to that of the one before it
FEW_WORDS = 1000
TOLERANCE = 1e-7  # of the relative norm of the gradient
CHECK_EVERY = 5  # iterations between two looks at the validation bound


def number_type(name: NumberType | None, words: int) -> torch.dtype:
    """The type of that name; with None, float64 where there are few words.

    Few words, often in the same order, make matrices hard to follow in float32, and cost little.
    """
    if name not in (None, "float32", "float64"):
        raise SettingsError(f"dtype {name!r} is not one of 'float32', 'float64'.")
    double = name == "float64" or (name is None and words <= FEW_WORDS)
    return torch.float64 if double else torch.float32


class Start(NamedTuple):
    """A model, and the duals of its bound, that training goes on from."""

    model: NeighbourModel
    duals: Float[Tensor, "k c"]


@final
@dataclass(frozen=True)
class LiftedSettings:
    """What to learn and for how long; see `LanguageModel` for each of them.

    `max_evaluations` limits evaluations of the bound besides; None sets no such limit.
    """

    bound: BoundName = "chains"
    weights: Sequence[float] | None = None
    form: Form = "low-rank"
    triples: bool = False
    dims: int = 30
    l2: float = 3e-6
    max_iterations: int = 600
    max_evaluations: int | None = None
    tolerance: float | None = None
    patience: int = 20
    device: str = "cpu"
    dtype: NumberType | None = None
    seed: int = 0
    progress: bool = False
    checkpoint: PathLike | Checkpoint | None = None
    resume: bool = False
    start: Start | None = None


@final
@dataclass(frozen=True, eq=False)
class LiftedFit:
    """The model with the duals of its bound, log Z as certified, and how training went."""

    model: NeighbourModel
    duals: Float[Tensor, "k c"]
    ceiling: Ceiling
    outcome: Outcome[Any]


def train_lifted(
    moments: Moments,
    settings: LiftedSettings,
    valid: Moments | None = None,
) -> LiftedFit:
    """The model whose bound is best: on the validation moments if there are any."""
    chosen = ChosenBound.of(settings.bound, settings.weights, moments, triples=settings.triples)
    if chosen.name == "stars" and moments.separator is not None:
        moments = moments.rounded_up()
    device = choose_device(settings.device)
    start = starting_point(moments, settings, chosen.weights)

    def bound_in(dtype: torch.dtype) -> LiftedBound:
        model, duals = start.model.to(dtype, device), start.duals.to(device, dtype)
        frequencies = Frequencies.of(moments, duals)
        return LiftedBound(model, frequencies, chosen.normaliser(duals), duals, SMOOTHING)

    bound = bound_in(start.model.unary.dtype)
    outcome = minimise(
        bound,
        bound.start,
        LBFGS(
            max_iterations=settings.max_iterations,
            max_evaluations=settings.max_evaluations,
            tolerance=TOLERANCE if settings.tolerance is None else settings.tolerance,
        ),
        penalty=ScaledL2(settings.l2, start.model.penalised(), bound),
        callbacks=_watchers(bound, valid, settings),
        progress=settings.progress,
        checkpoint=settings.checkpoint,
        resume=settings.resume,
        seed=settings.seed,
        in_double=lambda: bound_in(torch.float64),
    )
    model, duals = bound.at(outcome.model)
    return LiftedFit(model, duals, chosen.ceiling(model, duals, bound.normaliser), outcome)


def train_on_best_weights(moments: Moments, settings: LiftedSettings, valid: Moments) -> LiftedFit:
    """The best of several fits, with weights of the chains that fall slowly or fast.

    The best is the one whose certified bound on the validation moments is highest.
    """
    offsets = len(moments.offsets)
    choices = [default_weights(offsets, ratio) for ratio in RATIOS]
    saved = Stages(settings.checkpoint, settings.resume)
    fits = []
    for rho in choices:
        checkpoint, resume = saved.next()
        own = replace(settings, weights=rho, checkpoint=checkpoint, resume=resume)
        fits.append(train_lifted(moments, own, valid))

    def validation_bound(fitted: LiftedFit) -> float:
        scores = fitted.model.scores()
        mean = Frequencies.of(valid, scores.unary).mean_score(scores)
        return float(mean) - fitted.ceiling.per_position(valid.positions, valid.states)

    return max(fits, key=validation_bound)


def starting_point(moments: Moments, settings: LiftedSettings, weights: tuple[float, ...]) -> Start:
    """Where training begins: at an earlier model if one is given, else near the best."""
    if settings.start is None:
        model = starting_model(moments, settings, weights)
        if settings.triples:
            model = replace(model, triples=model.unary.new_zeros((model.states,) * 3))
        return Start(model, model.unary.new_zeros(model.offsets, model.states))
    start = settings.start
    shape = len(moments.offsets), moments.states
    if tuple(start.duals.shape) != shape:
        raise SettingsError(
            f"the earlier model has {start.model.states:,} words and {start.model.offsets} "
            f"offsets, the text {shape[1]:,} and {shape[0]}: training cannot go on from it."
        )
    if (start.model.triples is not None) != settings.triples:
        raise SettingsError("the earlier model and this one differ in their scores of triples.")
    return start


def starting_model(
    moments: Moments, settings: LiftedSettings, weights: tuple[float, ...]
) -> NeighbourModel:
    """Where training begins: half the spectral scores, or none for free tables."""
    offsets, states = len(moments.offsets), moments.states
    like = torch.zeros(1, dtype=number_type(settings.dtype, states))
    if settings.form == "explicit":
        exact = torch.float64 if settings.dtype is None else like.dtype
        require_memory(
            exact.itemsize * states**2 * (offsets * LBFGS().vectors_held + 1),
            f"training a free score for every pair of {states:,} words at {offsets} offsets",
            "Try form='low-rank', or a smaller vocabulary (vocabulary_size=...).",
            choose_device(settings.device),
        )
        tables = ExplicitPairs.zeros(offsets, states, exact)
        return NeighbourModel(log_frequencies(moments, tables.table), tables)
    model = spectral_start(moments, settings.dims, torch.tensor(weights), settings.seed, like)
    pairs = model.pairs
    assert isinstance(pairs, LowRankPairs)  # noqa: S101 - what spectral_start makes
    half = 0.5**0.5
    pairs = replace(pairs, left=pairs.left * half, right=pairs.right * half)
    if settings.form == "low-rank":
        return replace(model, pairs=pairs)
    if settings.form != "bilinear":
        raise SettingsError(
            f"form {settings.form!r} is not one of 'low-rank', 'bilinear', 'explicit'."
        )
    # One right vector a word: the first offset's, and matrices that scale it for the others.
    rho = torch.tensor(weights) / weights[0]
    unit = torch.eye(settings.dims).to(like)
    return replace(
        model, pairs=BilinearPairs(pairs.left, rho.view(-1, 1, 1) * unit, pairs.right[0])
    )


def _watchers(
    bound: LiftedBound, valid: Moments | None, settings: LiftedSettings
) -> list[EarlyStopping]:
    if valid is None:
        return []
    seen = Frequencies.of(valid, bound.frequencies.unary)

    def validate(vector: Tensor) -> float:
        return bound.validation_bound(vector, seen)

    return [EarlyStopping(validate, patience=settings.patience, every=CHECK_EVERY)]

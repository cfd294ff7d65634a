"""Training of the lifted language model: bounds, pseudolikelihood, exact likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import SettingsError
from mrflearn.execution.device import choose_device
from mrflearn.execution.memory import require_memory
from mrflearn.features.moments import MOST_STATES, Moments
from mrflearn.inference.lifted import (
    BoundName,
    Ceiling,
    chain_ceiling,
    default_weights,
    star_ceiling,
    window_ceiling,
)
from mrflearn.inference.transfer import check_windows
from mrflearn.io.files import PathLike
from mrflearn.models.neighbour_lm import (
    BilinearPairs,
    ExplicitPairs,
    LowRankPairs,
    NeighbourModel,
    log_frequencies,
    spectral_start,
)
from mrflearn.objectives.base import Autograd
from mrflearn.objectives.lifted_bound import (
    Frequencies,
    LiftedBound,
    Normaliser,
    SpectralNormaliser,
    StarNormaliser,
    chain_normaliser,
    window_normaliser,
    word_scaling,
)
from mrflearn.objectives.neighbour_pseudolikelihood import Gaps, NeighbourPseudolikelihood
from mrflearn.objectives.penalty import Penalty
from mrflearn.objectives.ring_likelihood import RingLikelihood
from mrflearn.training.callbacks import EarlyStopping
from mrflearn.training.checkpoint import Checkpoint, Stages
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import minimise
from mrflearn.training.outcome import Outcome
from mrflearn.training.sgd import Adagrad

# Which bound a language model is learned by, and what that needs.


WINDOW_START = (0.7, 0.3)  # of the two offsets, where training by windows begins
# Work grows with the cube of the words: beyond these a step takes minutes, or fills the memory.
MOST_WORDS = {"cpu": 4_000, "cuda": 20_000}


@final
@dataclass(frozen=True)
class ChosenBound:
    """A bound by name, and the weight of each offset in it, or in its start."""

    name: BoundName
    weights: tuple[float, ...]

    @classmethod
    def of(
        cls,
        name: BoundName,
        weights: Sequence[float] | None,
        moments: Moments,
        *,
        triples: bool = False,
    ) -> ChosenBound:
        """The bound for these moments; weights not given are the default ones."""
        offsets = len(moments.offsets)
        if triples:
            _check_triples(name, moments)
        if name == "stars":
            return cls(name, (1 / (offsets + 1),) * offsets)
        if name == "chains":
            return cls(name, _sum_one(weights, offsets))
        if name != "windows":
            raise SettingsError(f"bound {name!r} is not one of 'chains', 'stars', 'windows'.")
        if moments.offsets != ((1,), (2,)):
            raise SettingsError(
                f"windows of two words are for a context of 2, not of {moments.context}. Try "
                "chains: for a context of 1 they are as exact."
            )
        return cls(name, WINDOW_START)

    def normaliser(self, duals: Float[Tensor, "k c"]) -> Normaliser:
        """What training evaluates."""
        if self.name == "stars":
            return StarNormaliser()
        if self.name == "windows":
            _check_size(duals)
            return window_normaliser(duals[0])
        rho = torch.tensor(self.weights).to(duals)
        return chain_normaliser(rho, duals, recorded=duals.is_cuda)

    def ceiling(
        self, model: NeighbourModel, duals: Float[Tensor, "k c"], after: Normaliser | None = None
    ) -> Ceiling:
        """log Z from above, proven; `after` a training, from where its vectors are."""
        scores = model.scores()
        if self.name == "stars":
            return star_ceiling(scores, duals)
        start = after.committed.right if isinstance(after, SpectralNormaliser) else None
        if self.name == "windows":
            _check_size(duals)
            return window_ceiling(scores, start)
        return chain_ceiling(scores, duals, self.weights, start)


def _check_size(duals: Float[Tensor, "k c"]) -> None:
    states, most = duals.shape[1], MOST_WORDS[duals.device.type]
    if states > most:
        raise SettingsError(
            f"{states:,} words are too many for windows of two (at most {most:,} here). Try a GPU "
            "(device cuda), a smaller vocabulary, or chains."
        )


def _check_triples(name: BoundName, moments: Moments) -> None:
    if name != "windows":
        raise SettingsError(
            f"scores of three words in a row are bounded by windows, not by {name}: choose "
            "bound windows (it needs a context of 2)."
        )
    if moments.states > MOST_STATES:
        raise SettingsError(
            f"{moments.states:,} words have {moments.states**3:,} triples; scores of triples are "
            f"for at most {MOST_STATES} words. Try a smaller vocabulary."
        )
    if moments.triples is None:
        raise SettingsError("these moments hold no counts of triples; count the text itself.")


def _sum_one(weights: Sequence[float] | None, offsets: int) -> tuple[float, ...]:
    if weights is None:
        return default_weights(offsets)
    given = [float(weight) for weight in weights]
    if len(given) != offsets or min(given) <= 0:
        raise SettingsError(
            f"weights={list(weights)}: {offsets} offsets need {offsets} numbers above 0."
        )
    return tuple(weight / sum(given) for weight in given)


# Moments in, a fitted neighbour model out, by the lifted bounds.


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
        return LiftedBound(model, frequencies, chosen.normaliser(duals), duals)

    bound = bound_in(start.model.unary.dtype)
    outcome = minimise(
        bound,
        LBFGS(
            max_iterations=settings.max_iterations,
            max_evaluations=settings.max_evaluations,
            tolerance=TOLERANCE if settings.tolerance is None else settings.tolerance,
        ),
        penalty=Penalty(l2=dict.fromkeys(start.model.penalised(), settings.l2)),
        scaling=word_scaling(bound, moments, SMOOTHING),
        callbacks=_watchers(bound, valid, settings),
        progress=settings.progress,
        checkpoint=settings.checkpoint,
        resume=settings.resume,
        seed=settings.seed,
        in_double=lambda: bound_in(torch.float64),
    )
    model, duals = bound.unpack(outcome.model)
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


# A fitted neighbour model by pseudolikelihood or, for small vocabularies, maximum likelihood.


Direct = Literal["pl", "pl-sgd", "ml"]
WORDS_A_BATCH = {"pl": 1024, "pl-sgd": 100}
EPOCHS, RATE = 5, 0.05
TOLERANCES = {"pl": 1e-6, "ml": 1e-8}  # of the relative norm of the gradient


def train_direct(
    estimator: Direct, moments: Moments, ids: NDArray[np.int32] | None, settings: LiftedSettings
) -> LiftedFit:
    """The model that is best by the likelihood itself (`ml`) or by each word given the others.

    `pl` is by L-BFGS over the whole text, `pl-sgd` by minibatches of 100 words with rates that
    fall by Adagrad.  The penalty is that of the bounds: `l2` times the number of positions.
    """
    chosen = ChosenBound.of(settings.bound, settings.weights, moments, triples=settings.triples)
    device = choose_device(settings.device)
    if estimator == "ml":
        instead = "Try estimator='bound' or 'pl', or a smaller vocabulary."
        check_windows(moments.states, len(moments.offsets), instead)
    usual = torch.float64 if estimator == "ml" else torch.float32
    kind = usual if settings.dtype is None else number_type(settings.dtype, moments.states)
    start = starting_point(moments, settings, chosen.weights).model.to(kind, device)
    outcome: Outcome[NeighbourModel]
    if estimator == "ml":
        seen, ring = Frequencies.of(moments, start.unary), RingLikelihood(moments.positions)
        outcome = minimise(
            Autograd(start, seen, ring),
            _lbfgs(estimator, settings),
            penalty=Penalty(l2=dict.fromkeys(start.penalised(), settings.l2)),
            progress=settings.progress,
        )
    else:
        assert ids is not None and moments.separator is not None  # noqa: S101, PT018
        gaps = Gaps.of(ids, moments.separator, start.offsets).to(device)
        by_epochs = Adagrad(rate=RATE, epochs=EPOCHS)
        batches = gaps.split(WORDS_A_BATCH[estimator])
        strength = settings.l2 * moments.positions
        outcome = minimise(
            Autograd(start, batches, NeighbourPseudolikelihood(moments.separator)),
            by_epochs if estimator == "pl-sgd" else _lbfgs(estimator, settings),
            penalty=Penalty(l2=dict.fromkeys(start.penalised(), strength)),
            progress=settings.progress,
            seed=settings.seed,
        )
    model = outcome.model
    duals = model.unary.new_zeros(model.offsets, model.states)
    return LiftedFit(model, duals, chosen.ceiling(model, duals), outcome)


def _lbfgs(estimator: Direct, settings: LiftedSettings) -> LBFGS:
    tolerance = TOLERANCES[estimator] if settings.tolerance is None else settings.tolerance
    return LBFGS(settings.max_iterations, tolerance=tolerance)

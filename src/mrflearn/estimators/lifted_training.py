"""Training of lifted models by a bound, and of the language model by its likelihoods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, final, get_args

import torch

from mrflearn.errors import DataError, InferenceError, SettingsError
from mrflearn.execution.resources import choose_device, choose_dtype, require_memory
from mrflearn.features.moments import MOST_STATES, Moments
from mrflearn.inference.lifted import (
    Chains,
    LogPartitionBound,
    Stars,
    TagChains,
    Windows,
    default_weights,
)
from mrflearn.inference.transfer import ExactRing, too_many_windows
from mrflearn.io.corpus import Text, encode_corpus, hold
from mrflearn.io.files import PathLike
from mrflearn.models.lifted import (
    FORMS,
    JointTaggerModel,
    NeighbourModel,
    log_frequencies,
    moved,
    spectral_start,
)
from mrflearn.models.trigrams import TrigramModel
from mrflearn.objectives.base import Autograd, Objective
from mrflearn.objectives.lifted import (
    Frequencies,
    Gaps,
    LiftedLikelihood,
    WordFrequencies,
    pseudolikelihood_loss,
    word_scaling,
)
from mrflearn.objectives.problem import Penalty
from mrflearn.training.checkpoint import Checkpoint, Stages
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import minimise
from mrflearn.training.outcome import EarlyStopping, Outcome
from mrflearn.training.sgd import Adagrad

# An objective in, a fitted model out: the entry of language model and joint tagger.


M = TypeVar("M", NeighbourModel, JointTaggerModel)
F = TypeVar("F", NeighbourModel, JointTaggerModel, TrigramModel)
Bound: TypeAlias = Stars | Chains | Windows | TagChains


class LiftedFit(NamedTuple, Generic[F]):
    """How training went, its model with the duals of the bound, and log Z as certified."""

    outcome: Outcome[F]
    log_partition_bound: LogPartitionBound

    @property
    def model(self) -> F:
        """What was trained."""
        return self.outcome.model


def train_bound(
    objective: LiftedLikelihood[M],
    in_double: Callable[[], LiftedLikelihood[M]],
    bound: Bound,
    optimiser: LBFGS,
    **options: Any,
) -> LiftedFit[M]:
    """The model whose bound is best; the options are those of `minimise`."""
    outcome = minimise(objective, optimiser, in_double=in_double, **options)
    potentials: Any = outcome.model.potentials(objective.batch)
    return LiftedFit(outcome, bound.bound(potentials, objective.committed))


def lower_bound(
    potentials: Any, frequencies: Frequencies, bound: LogPartitionBound, positions: float
) -> float:
    """A proven lower bound on the log-likelihood per position."""
    return float(frequencies.mean_score(potentials)) - bound.per_position(positions)


# Which bound a language model is learned by, and what that needs.


BoundName = Literal["stars", "chains", "windows"]
WINDOW_START = (0.7, 0.3)  # of the two offsets, where training by windows begins


def chosen_bound(
    settings: LiftedSettings, moments: Moments
) -> tuple[Stars | Chains | Windows, tuple[float, ...]]:
    """The bound for these moments, and the weight of each offset in it, or in its start."""
    name, offsets, device = settings.bound, len(moments.offsets), choose_device(settings.device)
    if settings.triples and name != "windows":
        raise SettingsError(
            f"scores of three words in a row are bounded by windows, not by {name}: choose bound "
            "'windows' (it needs a context of 2)."
        )
    if settings.triples and moments.states > MOST_STATES:
        raise SettingsError(
            f"free scores of three words in a row are for at most {MOST_STATES} words, not for "
            f"{moments.states:,}. Try form='low-rank' with estimator='bound', or a smaller "
            "vocabulary."
        )
    if name == "stars":
        return Stars(recorded=device.type == "cuda"), (1 / (offsets + 1),) * offsets
    if name == "chains":
        weights = _sum_one(settings.weights, offsets)
        rho = torch.tensor(weights, device=device)
        return Chains(rho, recorded=device.type == "cuda"), weights
    if name != "windows":
        raise SettingsError(f"bound {name!r} is not one of 'chains', 'stars', 'windows'.")
    reason = Windows.refuses_size(moments.context, moments.states, device)
    if reason is not None:
        raise SettingsError(reason)
    return Windows(), WINDOW_START


def _sum_one(weights: Sequence[float] | None, offsets: int) -> tuple[float, ...]:
    if weights is None:
        return default_weights(offsets)
    given = [float(weight) for weight in weights]
    if len(given) != offsets or min(given) <= 0:
        raise SettingsError(f"weights={given}: {offsets} offsets need {offsets} numbers above 0.")
    return tuple(weight / sum(given) for weight in given)


# Moments in, a fitted language model out, by the lifted bounds.


Form = Literal["low-rank", "bilinear", "explicit"]
NumberType = Literal["float32", "float64"]
RATIOS = (0.2, 0.087, 0.03)  # of one offset's weight to that of the one before it
FEW_WORDS = 1000
# The usual L2 regularisation strengths, in nats per text, of vectors and of scores in free tables:
# Gaussian priors that do not depend on its length.
PRIOR, FREE_PRIOR = 2.9, 0.3
TOLERANCE = 1e-7  # of the relative norm of the gradient
# Among many words the last hundredths of a nat take as long as all before them, and held-out text
# gains nothing by them: chains and stars stop where ten iterations gain less than this share.
FLAT = 5e-4
HISTORY = 20  # of L-BFGS there: an evaluation costs far more than what is remembered
CHECK_EVERY = 5  # iterations between two looks at the validation bound


@final
@dataclass(frozen=True)
class LiftedSettings:
    """What to learn and for how long; see `LanguageModel` for each of them.

    `max_evaluations` limits evaluations of the bound besides; None sets no such limit.  `start` is
    what training goes on from.
    """

    bound: BoundName = "chains"
    weights: Sequence[float] | None = None
    form: Form = "low-rank"
    triples: bool = False
    order: int = 3
    dims: int = 30
    l1: float | None = None
    l2: float | None = None
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
    start: NeighbourModel | TrigramModel | None = None

    def penalty(self, model: NeighbourModel, moments: Moments, scale: float = 1.0) -> Penalty:
        """L2 of all but scores of words, for an objective of `scale` times nats per position."""

        def strength(name: str) -> float:
            prior = FREE_PRIOR if name in ("table", "triples") else PRIOR
            return scale * (prior / moments.positions if self.l2 is None else self.l2)

        return Penalty(l2={name: strength(name) for name in model.penalised()})


def train_lifted(
    moments: Moments, settings: LiftedSettings, valid: Moments | None = None
) -> LiftedFit[NeighbourModel]:
    """The model whose bound is best: on the validation moments if there are any."""
    bound, weights = chosen_bound(settings, moments)
    if isinstance(bound, Stars) and moments.separator is not None:
        moments = moments.rounded_up()
    device = choose_device(settings.device)
    start = starting_point(moments, settings, weights)

    def objective_in(dtype: torch.dtype) -> LiftedLikelihood[NeighbourModel]:
        own = moved(start, dtype, device)
        return LiftedLikelihood(own, None, WordFrequencies.of(moments, own.unary), bound)

    objective = objective_in(start.unary.dtype)
    callbacks = []
    if valid is not None:
        seen = WordFrequencies.of(valid, objective.start)
        callbacks = [
            EarlyStopping(
                lambda model: objective.validation_bound(model, seen),
                patience=settings.patience,
                every=CHECK_EVERY,
            )
        ]
    search = LBFGS(
        max_iterations=settings.max_iterations,
        max_evaluations=settings.max_evaluations,
        tolerance=TOLERANCE if settings.tolerance is None else settings.tolerance,
    )
    many = moments.states > FEW_WORDS and settings.form != "explicit"
    if many and settings.tolerance is None and not isinstance(bound, Windows):
        search = replace(search, delta=FLAT, history=HISTORY)
    return train_bound(
        objective,
        lambda: objective_in(torch.float64),
        bound,
        search,
        penalty=settings.penalty(start, moments),
        scaling=word_scaling(objective.model, moments, bound.weights),
        callbacks=callbacks,
        progress=settings.progress,
        checkpoint=settings.checkpoint,
        resume=settings.resume,
        data=(settings, moments, valid),
        seed=settings.seed,
    )


def train_on_best_weights(
    moments: Moments, settings: LiftedSettings, valid: Moments
) -> LiftedFit[NeighbourModel]:
    """The best of several fits, with weights of the chains that fall slowly or fast.

    The best is the one whose certified bound on the validation moments is highest.
    """
    saved = Stages(settings.checkpoint, settings.resume)
    fits = []
    for ratio in RATIOS:
        rho = default_weights(len(moments.offsets), ratio)
        checkpoint, resume = saved.next()
        own = replace(settings, weights=rho, checkpoint=checkpoint, resume=resume)
        fits.append(train_lifted(moments, own, valid))

    def validation_bound(fitted: LiftedFit[NeighbourModel]) -> float:
        potentials = fitted.model.potentials()
        seen = WordFrequencies.of(valid, potentials.unary)
        return lower_bound(potentials, seen, fitted.log_partition_bound, valid.positions)

    return max(fits, key=validation_bound)


def starting_point(
    moments: Moments, settings: LiftedSettings, weights: tuple[float, ...]
) -> NeighbourModel:
    """Where training begins: at an earlier model if one is given, else near the best."""
    earlier, offsets, states = settings.start, len(moments.offsets), moments.states
    if isinstance(earlier, TrigramModel):
        raise SettingsError(
            "the earlier model has sparse scores of three words in a row: training cannot go on "
            "from it. Set warm_start=False."
        )
    if earlier is not None:
        if (earlier.offsets, earlier.states) != (offsets, states):
            raise SettingsError(
                f"the earlier model has {earlier.states:,} words and {earlier.offsets} offsets, "
                f"the text {states:,} and {offsets}: training cannot go on from it. Set "
                "warm_start=False."
            )
        if (earlier.triples is not None) != settings.triples:
            raise SettingsError(
                "the earlier model and this one differ in their scores of triples: training cannot "
                "go on from it. Set warm_start=False."
            )
        return earlier
    model = _starting_scores(moments, settings, weights)
    triples = model.unary.new_zeros((states,) * 3) if settings.triples else None
    return replace(model, triples=triples, duals=model.unary.new_zeros(offsets, states))


def _starting_scores(
    moments: Moments, settings: LiftedSettings, weights: tuple[float, ...]
) -> NeighbourModel:
    """Half the spectral scores, or none for free tables."""
    offsets, states = len(moments.offsets), moments.states
    # Few words, often in the same order, make matrices hard to follow in float32.
    double = states <= FEW_WORDS or settings.form == "explicit"
    usual = "float64" if double else "float32"
    like = torch.zeros(1, dtype=choose_dtype(settings.dtype or usual))
    if settings.form not in FORMS:
        raise SettingsError(f"form {settings.form!r} is not one of {', '.join(FORMS)}.")
    if settings.form == "explicit":
        require_memory(
            like.itemsize * states**2 * (offsets * LBFGS().vectors_held + 1),
            f"training a free score for every pair of {states:,} words at {offsets} offsets",
            "Try form='low-rank', or a smaller vocabulary (vocabulary_size=...).",
            choose_device(settings.device),
        )
        table = like.new_zeros(offsets, states, states)
        return NeighbourModel(log_frequencies(moments, like), {"table": table})
    model = spectral_start(moments, settings.dims, torch.tensor(weights), settings.seed, like)
    left, right = (0.5**0.5 * model.pairs[name] for name in ("left", "right"))
    if settings.form == "low-rank":
        return replace(model, pairs={"left": left, "right": right})
    # One right vector a word: the first offset's, and matrices that scale it for the others.
    rho = torch.tensor(weights) / weights[0]
    scales = rho.view(-1, 1, 1) * torch.eye(settings.dims).to(like)
    return replace(model, pairs={"left": left, "transitions": scales, "right": right[0]})


# A fitted neighbour model by pseudolikelihood or, for small vocabularies, maximum likelihood.


Direct = Literal["pl", "pl-sgd", "ml"]
WORDS_A_BATCH = {"pl": 1024, "pl-sgd": 100}
EPOCHS, RATE = 5, 0.05
TOLERANCES = {"pl": 1e-6, "ml": 1e-8}  # of the relative norm of the gradient


def train_direct(
    estimator: Direct, moments: Moments, text: Text | Moments, settings: LiftedSettings
) -> LiftedFit[NeighbourModel]:
    """The model that is best by the likelihood itself (`ml`) or by each word given the others.

    `pl` is by L-BFGS over the whole text, `pl-sgd` by minibatches of 100 words with rates that
    fall by Adagrad.  The penalty is that of the bounds: `l2` times the number of positions.
    """
    if estimator not in get_args(Direct):
        raise SettingsError(f"estimator {estimator!r} is not one of 'bound', 'pl', 'pl-sgd', 'ml'.")
    if estimator != "ml" and isinstance(text, Moments):
        raise DataError("pseudolikelihood reads the text itself, not only its moments.")
    bound, weights = chosen_bound(settings, moments)
    if estimator == "ml":
        instead = "Try estimator='bound' or 'pl', or a smaller vocabulary."
        reason = too_many_windows(moments.states, len(moments.offsets), instead)
        if reason is not None:
            raise InferenceError(reason)
    usual = "float64" if estimator == "ml" else "float32"
    start = replace(starting_point(moments, settings, weights), duals=None)
    kind, device = choose_dtype(settings.dtype or usual), choose_device(settings.device)
    start = moved(start, kind, device)
    scale = 1.0
    objective: Objective[NeighbourModel]
    if estimator == "pl-sgd":
        optimiser: LBFGS | Adagrad = Adagrad(rate=RATE, epochs=EPOCHS)
    else:
        tolerance = TOLERANCES[estimator] if settings.tolerance is None else settings.tolerance
        optimiser = LBFGS(settings.max_iterations, tolerance=tolerance)
    if estimator == "ml":
        frequencies = WordFrequencies.of(moments, start.unary)
        objective = LiftedLikelihood(start, None, frequencies, ExactRing(moments.positions))
    else:
        assert not isinstance(text, Moments)  # noqa: S101 - refused above
        assert moments.vocabulary is not None  # noqa: S101 - a text has words
        ids, separator = encode_corpus(hold(text), moments.vocabulary), moments.vocabulary.separator
        gaps = Gaps.of(ids, separator, start.offsets).to(start.unary.device)
        loss = pseudolikelihood_loss(separator)
        objective = Autograd(start, gaps.split(WORDS_A_BATCH[estimator]), loss)
        scale = moments.positions
    outcome = minimise(
        objective,
        optimiser,
        penalty=settings.penalty(start, moments, scale),
        progress=settings.progress,
        seed=settings.seed,
    )
    duals = start.unary.new_zeros(start.offsets, start.states)
    model = replace(outcome.model, duals=duals)
    return LiftedFit(replace(outcome, model=model), bound.bound(model.potentials()))

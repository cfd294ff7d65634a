"""Joint moments in, a fitted tagger out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from mrflearn.execution.device import choose_device
from mrflearn.features.joint_moments import JointMoments
from mrflearn.features.spelling import SpellingTable
from mrflearn.kernels.sparse_product import SparseMatrix
from mrflearn.models.joint_tagger import JointTaggerModel
from mrflearn.objectives.tagger_bound import FeatureFrequencies, TaggerBound, TaggerPenalty
from mrflearn.objectives.tagger_normaliser import TagCeiling, TaggerBoundName, normaliser
from mrflearn.training.checkpoint import Stages
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.minimising import minimise
from mrflearn.training.outcome import Outcome

MILD = 0.1  # the penalty on transitions over that on features: there are few, all seen often


@final
@dataclass(frozen=True)
class TaggerSettings:
    """What to make small and for how long; see `JointTagger` for each of them."""

    bound: TaggerBoundName = "chains"
    l2: float = 0.3
    max_iterations: int = 100
    tolerance: float = 1e-6
    device: str = "cpu"
    progress: bool = False


@final
@dataclass(frozen=True, eq=False)
class TaggerFit:
    """The model, the bound on its log Z as certified, the bound on the text, and how it went."""

    model: JointTaggerModel
    ceiling: TagCeiling
    log_likelihood: float  # per position, from below
    parameters: dict[str, Tensor]  # duals among them
    outcome: Outcome[Any]


def train_tagger(
    moments: JointMoments,
    spelling: Mapping[int, SpellingTable],
    settings: TaggerSettings,
    start: Mapping[str, Tensor] | None = None,
    saved: Stages | None = None,
) -> TaggerFit:
    """The model whose bound is best; `start` are parameters, and duals, to begin with."""
    places = tuple(moments.words)
    multiple = normaliser(settings.bound, moments.distances, places).multiple
    moments = moments.rounded_up(multiple)
    device = choose_device(settings.device)
    sizes = {place: len(spelling[place].number) for place in places}

    def bound_in(dtype: torch.dtype) -> TaggerBound:
        like = torch.zeros(0, dtype=dtype, device=device)
        features = {p: SparseMatrix.of(spelling[p].matrix, dtype, device) for p in places}
        shape = moments.transitions.shape[-1], moments.distances
        model = JointTaggerModel.zeros(*shape, sizes, like)
        frequencies = FeatureFrequencies.of(moments, spelling, like)
        upper = normaliser(settings.bound, moments.distances, places)
        return TaggerBound(model, features, frequencies, upper)

    bound = bound_in(torch.float32)
    checkpoint, resume = (None, False) if saved is None else saved.next()
    strength = settings.l2 / moments.positions
    outcome = minimise(
        bound,
        bound.start if start is None else bound.vector_of(start),
        LBFGS(max_iterations=settings.max_iterations, tolerance=settings.tolerance),
        penalty=TaggerPenalty(strength, MILD * strength, bound),
        progress=settings.progress,
        checkpoint=checkpoint,
        resume=resume,
        in_double=lambda: bound_in(torch.float64),
    )
    model, *duals = bound.at(outcome.model)
    ceiling = bound.normaliser.ceiling(model.scores(bound.features), *duals)
    mean = float(bound.mean_score(outcome.model))
    reached = mean - ceiling.per_position(moments.positions)
    return TaggerFit(model, ceiling, reached, bound.named(outcome.model), outcome)

"""Joint moments in, a fitted tagger out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from mrflearn.execution.device import choose_device
from mrflearn.kernels.sparse_product import SparseMatrix
from mrflearn.models.joint_tagger import JointTaggerModel
from mrflearn.objectives.tagger_bound import FeatureFrequencies, TaggerBound, TaggerPenalty
from mrflearn.objectives.tagger_normaliser import TagCeiling, TaggerBoundName, normaliser
from mrflearn.statistics.joint_moments import JointMoments
from mrflearn.statistics.spelling import SpellingTable
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.minimise import minimise
from mrflearn.training.outcome import Outcome

MILD = 0.1  # the price of transitions over that of features: there are few, and all are seen often


@final
@dataclass(frozen=True)
class TaggerSettings:
    """What to make small and for how long; see `JointTagger` for each of them."""

    bound: TaggerBoundName = "chains"
    l2: float = 0.3
    max_evaluations: int = 100
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
) -> TaggerFit:
    """The model whose bound is best; `start` are parameters, and duals, to begin with."""
    places = tuple(moments.words)
    own = normaliser(settings.bound, moments.distances, places)
    moments = moments.rounded_up(own.multiple)
    like = torch.zeros(0, dtype=torch.float32, device=choose_device(settings.device))
    features = {p: SparseMatrix.of(spelling[p].matrix, like.dtype, like.device) for p in places}
    sizes = {place: len(spelling[place].number) for place in places}
    model = JointTaggerModel.zeros(moments.transitions.shape[-1], moments.distances, sizes, like)
    bound = TaggerBound(model, features, FeatureFrequencies.of(moments, spelling, like), own)
    price = settings.l2 / moments.positions
    outcome = minimise(
        bound,
        bound.start if start is None else bound.vector_of(start),
        LBFGS(
            max_iterations=settings.max_evaluations,
            max_evaluations=settings.max_evaluations,
            tolerance=1e-6,
        ),
        penalty=TaggerPenalty(price, MILD * price, bound),
        progress=settings.progress,
    )
    model, *duals = bound.at(outcome.model)
    ceiling = own.ceiling(model.scores(features), *duals)
    mean = float(bound.mean_score(outcome.model))
    reached = mean - ceiling.per_position(moments.positions)
    return TaggerFit(model, ceiling, reached, bound.named(outcome.model), outcome)

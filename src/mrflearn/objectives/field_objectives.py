"""Every estimator of a labelled field by its name: one switch, on the same potentials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from mrflearn.errors import InferenceError, SettingsError, TrainingError
from mrflearn.execution.resources import Threads
from mrflearn.inference.automatic import LOOPY_IN_TRAINING, Automatic
from mrflearn.inference.belief_propagation import BeliefPropagation
from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import ChainBatch, LogLinearField
from mrflearn.objectives.base import Objective, Sum
from mrflearn.objectives.chain_likelihood import (
    ChainObjective,
    Loss,
    likelihood,
    make_shards,
    piecewise,
    piecewise_pseudolikelihood,
)
from mrflearn.objectives.likelihood import FieldLikelihood
from mrflearn.objectives.local_likelihood import (
    LocalLikelihood,
    uncertain_likelihood,
    uncertain_problems,
)
from mrflearn.objectives.local_problems import find_problems, named_pieces, split_batch
from mrflearn.objectives.reweighted import ReweightedLikelihood, Shares

Criterion = Literal["ml", "bp", "pl", "edge-pl", "pw", "pwpl", "pw-reweighted"]
Pieces = Literal["factors", "edges"] | Sequence[Sequence[str]]


@dataclass(frozen=True)
class Principle:
    """What is minimised: an estimator, what its pieces are, and how `bp` passes messages.

    pieces: `"factors"`; of `"pw"` and `"pwpl"` also `"edges"` (a factor of several variables takes
        the factors of its single variables with it), and lists of names: in each example the
        factors of one list are one piece.  `"pw"` solves it exactly, `"pwpl"` takes each of its
        variables given the others of the piece.
    shares: of `"pw-reweighted"`: `"uniform"`, `"optimised"`, or a weight for each kind of factor.
    """

    estimator: Criterion = "pw"
    pieces: Pieces = "factors"
    shares: Shares = "uniform"
    bp: BeliefPropagation = LOOPY_IN_TRAINING

    def __post_init__(self) -> None:
        known, named = get_args(Criterion), isinstance(self.pieces, str)
        if self.estimator not in known:
            raise SettingsError(f"estimator '{self.estimator}' is not one of {', '.join(known)}.")
        if named and self.pieces not in ("factors", "edges"):
            raise SettingsError(
                f"pieces '{self.pieces}' are not 'factors', 'edges' or lists of kinds of factors."
            )
        for given, what, estimators in (
            (self.pieces == "edges", "pieces='edges'", ("pw", "pwpl")),
            (not named, "pieces of several factors", ("pw", "pwpl")),
            (self.shares != "uniform", "shares", ("pw-reweighted",)),
        ):
            if given and self.estimator not in estimators:
                takers = " and ".join(f"'{own}'" for own in estimators)
                raise SettingsError(f"{what} are for estimator={takers}, not '{self.estimator}'.")


def natural_pieces(estimator: Criterion) -> Pieces:
    """What serves factors of single variables and of several best: "edges" where there are such."""
    return "edges" if estimator in ("pw", "pwpl") else "factors"


def field_objective(
    model: LogLinearField, batch: FieldBatch | ChainBatch, principle: Principle, threads: Threads
) -> Objective[LogLinearField]:
    """Value and gradient of an estimator, as a function of the flat vector of weights."""
    if isinstance(batch, ChainBatch):
        loss = _packed_loss(model, batch, principle)
        if loss is not None:
            return ChainObjective(model, make_shards(model, batch, threads.count), threads, loss)
        batch = batch.as_graph()
    model.check(batch)
    if principle.estimator == "bp":
        return FieldLikelihood(model, batch, principle.bp, threads)
    estimator = principle.estimator
    if not isinstance(principle.pieces, str):
        batch = split_batch(batch, named_pieces(batch, principle.pieces))
        # On the node-split graph: the exact likelihood of each piece, or its pseudolikelihood.
        estimator = "ml" if estimator == "pw" else "pl"
    if estimator == "ml":
        inference, reason = Automatic().chosen(batch.graph)
        if reason is not None and principle.estimator == "ml":
            raise InferenceError(reason)
        if reason is not None:
            raise TrainingError(f"a piece has cycles and is too wide to be solved: {reason}")
        return FieldLikelihood(model, batch, inference, threads)
    if estimator == "pw-reweighted":
        return ReweightedLikelihood.of(model, batch, principle.shares)
    problems = find_problems(batch, estimator, with_ends=principle.pieces == "edges")
    if not len(batch.uncertain):
        return LocalLikelihood.of(model, batch, problems, threads)
    # Problems of known labels, and the others.
    unsure = [(own, uncertain_problems(batch, own)) for own in problems]
    known = [own.some(~mask) for own, mask in unsure if not bool(mask.all())]
    others = [own.some(mask) for own, mask in unsure if bool(mask.any())]
    certain = LocalLikelihood.of(model, batch, known, threads)
    return Sum((certain, uncertain_likelihood(model, batch, others)))


def _packed_loss(model: LogLinearField, batch: ChainBatch, principle: Principle) -> Loss | None:
    """What packed chains lose by an estimator; None: only graphs know it."""
    if principle.estimator == "ml":
        return likelihood
    if len(model.templates) > 2:
        raise SettingsError("chains of order 2 are trained by estimator='ml' only.")
    if model.device.type != "cpu":
        raise SettingsError("estimators other than 'ml' work on the processor: device='cpu'.")
    if principle.pieces == "edges" and model.plans.shared_table and not len(batch.labels.uncertain):
        return piecewise if principle.estimator == "pw" else piecewise_pseudolikelihood
    return None

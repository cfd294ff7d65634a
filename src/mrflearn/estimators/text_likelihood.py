"""How probable a text is under a neighbour model: a proven bound, exact, or an estimate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.language_model_file import Learned
from mrflearn.features.moments import Moments
from mrflearn.graph.neighbour_scores import NeighbourScores
from mrflearn.inference.ring_annealed import annealed_ring
from mrflearn.inference.transfer import (
    ring_log_partition,
    sentence_log_partitions,
    sentence_score,
)
from mrflearn.io.vocabulary import LINE_END_ID
from mrflearn.objectives.lifted_bound import Frequencies
from mrflearn.objectives.neighbour_pseudolikelihood import Gaps, log_conditionals

LikelihoodMethod = Literal["bound", "exact", "ring", "ais", "pl"]
WORDS_AT_A_TIME = 256


@final
@dataclass(frozen=True)
class TextLikelihood:
    """The log-likelihood of a text in nats, whole and per position, word and sentence.

    Positions count the `context` separators of every sentence, words do not.  Methods:
    `bound` a proven lower bound for the whole text as one ring; `ring` that ring exactly; `exact`
    the sentences given their lengths, never less than the ring (Lemma 1); `ais` the ring with its
    normaliser estimated by annealed importance sampling, with the standard error of the total, the
    number of chains it rests on, and whether these suffice (an `AccuracyWarning` is given where
    not); `pl` the sum over words of log p(word | all others), which is no likelihood.
    """

    method: LikelihoodMethod
    total: float
    positions: int
    words: int
    sentences: int
    standard_error: float = 0.0
    effective_chains: float | None = None
    reliable: bool = True

    @property
    def per_position(self) -> float:
        return self.total / self.positions

    @property
    def per_word(self) -> float:
        return self.total / self.words

    @property
    def per_sentence(self) -> float:
        return self.total / self.sentences


def likelihood(
    learned: Learned,
    moments: Moments,
    ids: NDArray[np.int32] | None,
    method: LikelihoodMethod,
    seed: int,
) -> TextLikelihood:
    """The log-likelihood of the text with these moments (and words, where a method needs them)."""
    if method in ("exact", "pl"):
        if ids is None:
            raise DataError(f"method {method!r} needs the text itself, not only its moments.")
        total = _of_sentences(learned, ids) if method == "exact" else _of_gaps(learned, ids)
        return _counted(method, total, moments)
    if method == "bound" and learned.ceiling.bound == "stars":
        moments = moments.rounded_up()
    positions = moments.positions
    scores = learned.model.scores().double()
    if method == "bound":
        normaliser = learned.ceiling.per_position(positions, moments.states)
    elif method == "ring":
        exact = ring_log_partition(scores.unary, _small_tables(scores), positions, scores.triples)
        normaliser = float(exact) / positions
    elif method == "ais":
        generator = torch.Generator(device=scores.unary.device).manual_seed(seed)
        estimate = annealed_ring(learned.model.scores(), generator)
        total = (_mean_score(moments, scores) - estimate.log_partition) * positions
        found = _counted(method, total, moments)
        return replace(
            found,
            standard_error=estimate.standard_error * positions,
            effective_chains=estimate.effective_chains,
            reliable=estimate.reliable,
        )
    else:
        known = "'bound', 'exact', 'ring', 'ais', 'pl'"
        raise SettingsError(f"method {method!r} is not one of {known}.")
    return _counted(method, (_mean_score(moments, scores) - normaliser) * positions, moments)


def _mean_score(moments: Moments, scores: NeighbourScores) -> float:
    return float(Frequencies.of(moments, scores.unary).mean_score(scores))


def _counted(method: LikelihoodMethod, total: float, moments: Moments) -> TextLikelihood:
    return TextLikelihood(method, total, moments.positions, moments.words, moments.sentences)


def _of_sentences(learned: Learned, ids: NDArray[np.int32]) -> float:
    scores = learned.model.scores().double()
    tables, separator = _small_tables(scores), learned.vocabulary.separator
    words = [part[part != LINE_END_ID] for part in np.split(ids, np.flatnonzero(ids < 0))]
    lines = [torch.from_numpy(part.astype(np.int64)) for part in words if len(part)]
    longest = max(len(line) for line in lines)
    totals = sentence_log_partitions(scores.unary, tables, separator, longest, scores.triples)
    parts = [
        sentence_score(scores.unary, tables, separator, line, scores.triples) for line in lines
    ]
    return float(sum(part - totals[len(line)] for part, line in zip(parts, lines, strict=True)))


@torch.no_grad()
def _of_gaps(learned: Learned, ids: NDArray[np.int32]) -> float:
    scores, separator = learned.model.scores(), learned.vocabulary.separator
    gaps = Gaps.of(ids, separator, scores.offsets)
    return sum(
        float(log_conditionals(scores, piece, separator).double().sum())
        for piece in gaps.to(scores.unary.device).split(WORDS_AT_A_TIME)
    )


def _small_tables(scores: NeighbourScores) -> Tensor:
    if scores.states > 4096:
        raise SettingsError(
            f"{scores.states} words are too many for an exact likelihood; try method='bound', "
            "'ais' or 'pl'."
        )
    return scores.tables()

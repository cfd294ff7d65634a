"""What a language model learned, on disk and back, and the likelihoods of text under it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mrflearn.errors import DataError, SettingsError
from mrflearn.estimators.text_score import TextScore, TextScoreKind
from mrflearn.features.moments import Moments
from mrflearn.graph.lifted import WordPotentials
from mrflearn.inference.annealed import annealed_ring
from mrflearn.inference.lifted import LogPartitionBound
from mrflearn.inference.transfer import (
    ring_log_partition,
    sentence_log_partitions,
    sentence_score,
)
from mrflearn.io.corpus import LINE_END_ID, Vocabulary
from mrflearn.models.lifted import FORMS, NeighbourModel
from mrflearn.models.storage import record, texts
from mrflearn.objectives.lifted import Gaps, WordFrequencies, log_conditionals

# What a fitted language model is, and the way there and back to what storage keeps.


@final
@dataclass(frozen=True, eq=False)
class LearnedText:
    """A model with duals, its bound on log Z, words, and sentence lengths with counts."""

    model: NeighbourModel
    ceiling: LogPartitionBound
    vocabulary: Vocabulary
    lengths: NDArray[np.int64]


def store(learned: LearnedText) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The plain values and the tensors to keep."""
    values = {"ceiling": asdict(learned.ceiling), "words": list(learned.vocabulary.words)}
    return values, {**learned.model.parameters(), "lengths": torch.from_numpy(learned.lengths)}


def restore(form: str, kept: dict[str, Any], tensors: dict[str, Tensor]) -> LearnedText:
    """A model of this form, as `store` was given it."""
    pairs = {name: tensors[name] for name in FORMS[form]}
    duals, triples = tensors["duals"], tensors.get("triples")
    model = NeighbourModel(tensors["unary"], pairs, triples, duals)
    ceiling, vocabulary = (
        record(LogPartitionBound, kept["ceiling"]),
        Vocabulary(texts(kept, "words")),
    )
    if len(vocabulary) != model.states or duals.shape != (model.offsets, model.states):
        raise DataError("words, duals and scores differ in number")
    return LearnedText(model, ceiling, vocabulary, tensors["lengths"].cpu().numpy())


# How probable a text is under a neighbour model: a proven bound, exact, or an estimate.


WORDS_AT_A_TIME = 256
POSITIONS_AT_A_TIME = 1024


def likelihood(
    learned: LearnedText,
    moments: Moments,
    ids: NDArray[np.int32] | None,
    method: TextScoreKind,
    seed: int,
) -> TextScore:
    """The log-likelihood of the text with these moments (and words, where a method needs them)."""
    if method not in get_args(TextScoreKind):
        raise SettingsError(f"method {method!r} is not one of {get_args(TextScoreKind)}.")
    if method in ("exact", "pl"):
        if ids is None:
            raise DataError(f"method {method!r} needs the text itself, not only its moments.")
        total = _of_sentences(learned, ids) if method == "exact" else _of_gaps(learned, ids)
        return _counted(method, total, moments)
    if method == "bound":
        moments = _bounded(learned, moments)
    positions = moments.positions
    potentials, errors = learned.model.potentials().double(), {}
    if method == "bound":
        normaliser = learned.ceiling.per_position(positions)
    elif method == "ring":
        _check_small(potentials)
        normaliser = float(ring_log_partition(potentials, positions)) / positions
    else:
        generator = torch.Generator(device=potentials.unary.device).manual_seed(seed)
        estimate = annealed_ring(learned.model.potentials(), generator)
        normaliser = float(estimate.log_partition)
        errors = {
            "standard_error": float(estimate.standard_error) * positions,
            "effective_chains": float(estimate.effective_chains),
            "reliable": bool(estimate.reliable),
        }
    mean = float(WordFrequencies.of(moments, potentials.unary).mean_score(potentials))
    return _counted(method, (mean - normaliser) * positions, moments, **errors)


@torch.no_grad()
def sentence_bounds(
    learned: LearnedText, moments: Moments, ids: NDArray[np.int32]
) -> NDArray[np.float64]:
    """The share of each sentence in the lower bound; the shares add up to the bound of the text.

    A sentence owns its words and the K separators behind it: pairs reach no further.
    """
    potentials, separator = learned.model.potentials().double(), learned.vocabulary.separator
    context, ends = potentials.offsets, ids == LINE_END_ID
    closing = ends & ~np.concatenate([[True], ends[:-1]])
    copies = np.where(ends, np.where(closing, context, 0), 1)
    line = np.repeat(np.where(ends, separator, ids), copies).astype(np.int64)
    ring = torch.from_numpy(np.concatenate([np.full(context, separator), line]))
    ring = ring.to(potentials.unary.device)
    pieces = [
        potentials.position_scores(ring[start : start + context + POSITIONS_AT_A_TIME])
        for start in range(0, len(line), POSITIONS_AT_A_TIME)
    ]
    values = torch.cat(pieces).cpu().numpy()
    after = np.cumsum(copies)[closing]
    first = np.concatenate([[0], after[:-1]])
    positions = after - first
    whole = likelihood(learned, moments, None, "bound", 0)
    normaliser = learned.ceiling.per_position(_bounded(learned, moments).positions)
    shares = np.add.reduceat(values, first) - positions * normaliser
    # Separators that round the ring of stars up belong to no sentence: all have the same share.
    return np.asarray(shares + (whole.log_likelihood - shares.sum()) / len(shares))


def _bounded(learned: LearnedText, moments: Moments) -> Moments:
    """The ring that the bound is of: stars need a multiple of K + 1 positions."""
    multiple = learned.ceiling.multiple
    return moments.rounded_up(multiple) if multiple > 1 else moments


def _counted(method: TextScoreKind, total: float, moments: Moments, **errors: Any) -> TextScore:
    assert moments.vocabulary is not None  # noqa: S101 - a language model has its words
    counts = moments.words, moments.sentences, int(moments.unary[moments.vocabulary.unknown])
    return TextScore(total, *counts, method, moments.positions, **errors)


def _of_sentences(learned: LearnedText, ids: NDArray[np.int32]) -> float:
    potentials, separator = learned.model.potentials().double(), learned.vocabulary.separator
    _check_small(potentials)
    words = [part[part != LINE_END_ID] for part in np.split(ids, np.flatnonzero(ids < 0))]
    lines = [torch.from_numpy(part.astype(np.int64)) for part in words if len(part)]
    longest = max(len(line) for line in lines)
    totals = sentence_log_partitions(potentials, separator, longest)
    return float(
        sum(sentence_score(potentials, separator, line) - totals[len(line)] for line in lines)
    )


@torch.no_grad()
def _of_gaps(learned: LearnedText, ids: NDArray[np.int32]) -> float:
    scores, separator = learned.model.potentials(), learned.vocabulary.separator
    gaps = Gaps.of(ids, separator, scores.offsets)
    return sum(
        float(log_conditionals(scores, piece, separator).double().sum())
        for piece in gaps.to(scores.unary.device).split(WORDS_AT_A_TIME)
    )


def _check_small(potentials: WordPotentials) -> None:
    if potentials.states > 4096:
        raise SettingsError(
            f"{potentials.states} words are too many for an exact likelihood; try method='bound', "
            "'ais' or 'pl'."
        )

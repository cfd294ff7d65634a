"""What a chain CRF answers: labels, n-best, marginals, spans, samples, under constraints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Shaped
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor

from mrflearn.errors import DataError, InferenceError, SettingsError, TrainingError
from mrflearn.execution.resources import moved
from mrflearn.features.features import CompiledLabels
from mrflearn.inference.spans import (
    ChunkReading,
    TransitionMask,
    allowed_moves,
    allowed_states,
    chunks_of,
    forbidden_moves,
    legal_chunks,
    span_probabilities,
)
from mrflearn.io.spans import Scheme
from mrflearn.kernels import chain_search, chain_sums
from mrflearn.kernels.chain_sums import Steps, row_scores
from mrflearn.models.loglinear import ChainPotentials

# What a chain CRF says of sequences, as plain lists: labels, probabilities, n best, samples.


Labels = Sequence[str]


def best_labels(chains: ChainPotentials, labels: Labels) -> list[list[str]]:
    """The most probable labels of each sequence."""
    states, _ = chain_search.viterbi(chains.unary, chains.table, chains.steps)
    return _named(chains.chain.label(states), chains, labels)


def best_lists(
    chains: ChainPotentials, labels: Labels, count: int
) -> list[list[tuple[list[str], float]]]:
    """The `count` best (labels, probability) of each sequence; fewer where there are fewer."""
    paths, scores = chain_search.n_best(chains.unary, chains.table, chains.steps, count)
    total = chain_sums.log_partition(chains.unary, chains.table, chains.steps)
    probability = (scores - total[:, None]).double().exp().tolist()
    named = [_named(chains.chain.label(path), chains, labels) for path in paths.unbind(dim=1)]
    possible = scores.isfinite().sum(dim=1).tolist()
    return [
        [(named[rank][i], probability[i][rank]) for rank in range(possible[i])]
        for i in range(len(possible))
    ]


def marginals(chains: ChainPotentials) -> Float[Tensor, "k s"]:
    """The probability of every label at every token, all sequences end to end."""
    if chains.table.ndim == 2:
        single = chain_sums.expectations(chains.unary, chains.table, chains.steps).single
    else:
        _, single, _ = chain_sums.marginals(chains.unary, chains.table, chains.steps)
    return _in_order(chains.chain.of_labels(single), chains)


def marginal_arrays(chains: ChainPotentials) -> list[NDArray[np.float64]]:
    """The probability of every label at every token, tokens x labels for each sequence."""
    rows = marginals(chains).double().cpu().numpy()
    return np.split(rows, chains.steps.lengths.cumsum(0).cpu().numpy()[:-1])


def log_probabilities(chains: ChainPotentials, labels: CompiledLabels) -> Float[Tensor, " b"]:
    """log p of each sequence's labels, or of their being among those allowed where uncertain."""
    total = chain_sums.log_partition(chains.unary, chains.table, chains.steps).double()
    if not len(labels.uncertain):
        return path_scores(chains, labels.states) - total
    allowed = labels.allowed_states().to(chains.unary.device)
    states = chains.chain.allowed(chains.steps.pack(allowed))
    bound = chains.unary.masked_fill(~states, -torch.inf)
    return chain_sums.log_partition(bound, chains.table, chains.steps).double() - total


def path_scores(chains: ChainPotentials, states: Int64[Tensor, " k"]) -> Float[Tensor, " b"]:
    """The score of each labelled sequence; -inf where the chain has no such path."""
    steps, table = chains.steps, chains.table
    path = chains.chain.path(steps.pack(states.to(steps.source.device)), steps)
    possible = path >= 0
    path = path.clamp(min=0)
    score = row_scores(chains.unary.double(), table.double(), path, steps)
    return steps.totals(score.masked_fill(~possible, -torch.inf))


def entropies(chains: ChainPotentials) -> list[float]:
    """The entropy of each sequence's distribution over label sequences, in nats."""
    values = chain_sums.entropy(chains.unary, chains.table, chains.steps)
    return [float(value) for value in values.double().cpu()]


def samples(
    chains: ChainPotentials, labels: Labels, count: int, generator: torch.Generator
) -> list[list[list[str]]]:
    """`count` draws for each sequence."""
    drawn = chain_search.sample(chains.unary, chains.table, chains.steps, count, generator)
    draws = [_named(chains.chain.label(states), chains, labels) for states in drawn]
    return [list(own) for own in zip(*draws, strict=True)]


def _named(rows: Int64[Tensor, " r"], chains: ChainPotentials, labels: Labels) -> list[list[str]]:
    names = iter([labels[number] for number in _in_order(rows, chains).tolist()])
    return [list(islice(names, length)) for length in chains.steps.lengths.tolist()]


def _in_order(rows: Shaped[Tensor, " r *n"], chains: ChainPotentials) -> Shaped[Tensor, " r *n"]:
    return chains.steps.unpack(rows, len(rows))


# Chunks that a chain CRF finds, each with the exact probability that it is one.


class ScoredSpan(NamedTuple):
    """What lies from `start` up to, but not at, `end`, and the probability that it is a chunk."""

    start: int
    end: int
    label: str
    probability: float


def scored_spans(
    chains: ChainPotentials, labels: Sequence[str], n_best: int = 1
) -> list[list[ScoredSpan]]:
    """The chunks of each sequence's best labelling, or of its n best, from left to right."""
    unary, table, steps = chains.unary, chains.table, chains.steps
    state = chains.chain.label(torch.arange(chains.chain.states, device=unary.device))
    reading = moved(ChunkReading.of(labels).lifted(state.cpu()), unary.device)
    paths, scores = chain_search.n_best(unary, table, steps, n_best)
    # A sequence with fewer labellings than n: its best one stands in for those there are not.
    real = (scores > -torch.inf)[steps.sequence]
    spans = chunks_of(torch.where(real, paths, paths[:, :1]), steps, reading)
    chance = span_probabilities(unary, table, steps, spans, reading)
    columns = (spans.sequence, spans.start, spans.end, spans.label, chance.double())
    found: list[list[ScoredSpan]] = [[] for _ in range(len(steps.lengths))]
    for i, start, end, label, p in zip(*(part.tolist() for part in columns), strict=True):
        found[i].append(ScoredSpan(start, end, reading.names[label], p))
    return found


# `Constraints` on the labels of an answer: scores of -inf before any question is asked.


Pairs = Collection[tuple[str, str]]


@dataclass(frozen=True)
class Constraints:
    """What the labels of an answer must obey.

    Parameters
    ----------
    scheme
        Only chunk tags that are well-formed in `"IOB1"`, `"IOB2"` or `"BIOES"`.
    allowed
        The only (label, next label) pairs there may be; None: all.
    forbidden
        Pairs (label, next label) there may not be.
    forced
        For each example the labels that are known, in the form of y: a label, a set of labels, or
        None (any); None in place of an example where none is known.
    mask
        For each sequence a boolean array (tokens x labels in the order of `classes_`), True where
        a label may be; None in place of an array: anything may be.

    Notes
    -----
    CRFs on graphs, factorial and skip-chain ones among them, take `forced` alone.

    """

    scheme: Scheme | None = None
    allowed: Pairs | None = None
    forbidden: Pairs = ()
    forced: Sequence[Any] | None = None
    mask: Sequence[Any] | None = None

    @classmethod
    def of(cls, given: Constraints | Iterable[Any]) -> Constraints:
        """The constraints that a user gave: as they are, or as known labels laid out like y."""
        return given if isinstance(given, Constraints) else cls(forced=list(given))

    def part(self, first: int, end: int) -> Constraints:
        """The same for the sequences from `first` up to `end` alone."""
        forced = None if self.forced is None else self.forced[first:end]
        return replace(
            self, forced=forced, mask=None if self.mask is None else self.mask[first:end]
        )

    def apply(self, chains: ChainPotentials, labels: Sequence[str]) -> ChainPotentials:
        """The scores, -inf wherever a constraint is violated; `InferenceError` if none is left."""
        unary, table, chain = chains.unary, chains.table, chains.chain
        state = chain.label(torch.arange(chain.states, device=unary.device)).cpu()
        for mask in self._transitions(labels):
            unary, table = mask.lifted(state).apply(unary, table, chains.steps)
        for tokens in self._tokens(labels, chains.steps.lengths.tolist()):
            allowed = chain.allowed(chains.steps.pack(tokens.to(unary.device)))
            unary = unary.masked_fill(~allowed, -torch.inf)
        obeying = replace(chains, unary=unary, table=table)
        _check(obeying)
        return obeying

    def _transitions(self, labels: Sequence[str]) -> Iterable[TransitionMask]:
        if self.scheme is not None:
            yield legal_chunks(labels, self.scheme)
        if self.allowed is not None:
            yield allowed_moves(labels, self.allowed)
        if self.forbidden:
            yield forbidden_moves(labels, self.forbidden)

    def _tokens(self, labels: Sequence[str], lengths: list[int]) -> Iterable[Bool[Tensor, "k s"]]:
        if self.forced is not None:
            sizes = chain(lengths, repeat(0))
            forced = [[None] * n if own is None else own for own, n in zip(self.forced, sizes)]  # noqa: B905
            _check_lengths("forced labels", [len(own) for own in forced], lengths)
            yield allowed_states(labels, [choice for own in forced for choice in own])
        if self.mask is not None:
            yield _joined(self.mask, lengths, len(labels))


def _joined(masks: Sequence[Any], lengths: list[int], labels: int) -> Bool[Tensor, "k s"]:
    """The masks of all sequences end to end."""
    if len(masks) != len(lengths):
        raise DataError(f"there are masks for {len(masks)} sequences, but {len(lengths)} in X.")
    parts = [np.ones((0, labels), dtype=bool)]
    for number, (own, length) in enumerate(zip(masks, lengths, strict=True)):
        part = np.ones((length, labels), dtype=bool) if own is None else np.asarray(own, dtype=bool)
        if part.shape != (length, labels):
            raise DataError(
                f"the mask of sequence {number} has shape {part.shape}; it has {length} items "
                f"and there are {labels} labels."
            )
        parts.append(part)
    return torch.from_numpy(np.concatenate(parts))


Given = Constraints | Iterable[Any] | None  # as methods take them


def known_labels(given: Given) -> Sequence[Any] | None:
    """The labels that are known; `SettingsError` where there is anything else to obey."""
    if given is None:
        return None
    own = Constraints.of(given)
    others = {"scheme": own.scheme, "allowed": own.allowed, "mask": own.mask}
    others["forbidden"] = own.forbidden or None
    for name, value in others.items():
        if value is not None:
            raise SettingsError(
                f"Constraints({name}=...) are for chains (`CRF`); CRFs on graphs take known labels "
                "alone, Constraints(forced=...)."
            )
    return own.forced


def at_temperature(chains: ChainPotentials, temperature: float) -> ChainPotentials:
    """The same with all scores divided: probabilities are softer above 1, sharper below."""
    if temperature == 1.0:
        return chains
    return replace(chains, unary=chains.unary / temperature, table=chains.table / temperature)


def _check_lengths(what: str, found: list[int], lengths: list[int]) -> None:
    if found == lengths:
        return
    if len(found) != len(lengths):
        raise DataError(f"there are {what} for {len(found)} sequences, but {len(lengths)} in X.")
    number = next(i for i, n in enumerate(lengths) if found[i] != n)
    raise DataError(
        f"sequence {number} has {lengths[number]} items but {what} for {found[number]}."
    )


def _check(chains: ChainPotentials) -> None:
    total = chain_sums.log_partition(chains.unary, chains.table, chains.steps)
    if bool((total == -torch.inf).any()):
        raise InferenceError(
            f"sequence {int((total == -torch.inf).int().argmax())} has no labelling that the "
            "constraints allow. Do forced labels contradict the scheme, or each other?"
        )


# One number fitted after training: how much to believe a chain's scores [Guo et al. 2017, On
# calibration of modern neural networks, section 4.2], for whole sequences.


COLDEST, HOTTEST = 0.01, 100.0


def fit_temperature(
    unary: Float[Tensor, "r s"],
    transition: Float[Tensor, "*q s s"],
    steps: Steps,
    truth_score: Float[Tensor, " b"],
) -> float:
    """The temperature T at which exp(score / T) makes held-out sequences most probable.

    `truth_score` is the score of each sequence's true assignment.  Above 1: the model was too
    sure.  The best sequence stays the same at every temperature.
    """
    possible = truth_score > -torch.inf  # no temperature makes the impossible probable
    if not bool(possible.any()):
        raise TrainingError(
            "no held-out sequence is possible under the model, so no temperature fits. Do the "
            "labels or the constraints contradict the data?"
        )
    total = float(truth_score[possible].double().sum())

    def surprise(log_cold: float) -> float:
        cold = float(np.exp(log_cold))
        value = chain_sums.log_partition(unary * cold, transition * cold, steps)
        return float(value[possible].double().sum()) - cold * total

    # Convex in 1 / T (log Z is convex in a scale of its scores), so unimodal in its logarithm.
    with torch.no_grad():
        best = minimize_scalar(
            surprise, bounds=(-np.log(HOTTEST), -np.log(COLDEST)), options={"xatol": 1e-4}
        )
    return float(np.exp(-best.x))

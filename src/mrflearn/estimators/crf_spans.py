"""Chunks that a chain CRF finds, each with the exact probability that it is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from mrflearn.inference.spans import ChunkReading, chunks_of, span_probabilities
from mrflearn.kernels import chain_search
from mrflearn.models.chain_crf import ChainScores


class ScoredSpan(NamedTuple):
    """What lies from `start` up to, but not at, `end`, and the probability that it is a chunk."""

    start: int
    end: int
    label: str
    probability: float


def scored_spans(
    chains: ChainScores, labels: Sequence[str], n_best: int = 1
) -> list[list[ScoredSpan]]:
    """The chunks of each sequence's best labelling, or of its n best, from left to right."""
    unary, table, steps = chains.unary, chains.table, chains.steps
    state = chains.chain.label(torch.arange(chains.chain.states, device=unary.device))
    reading = ChunkReading.of(labels).lifted(state.cpu()).to(unary.device)
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

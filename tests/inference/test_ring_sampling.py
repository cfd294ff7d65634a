"""Sampling from neighbour models against exact rings and enumerated sentences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from mrflearn.inference.annealed import AnnealedEstimate, AnnealedImportance, annealed_ring
from mrflearn.inference.transfer import (
    exact_sentences,
    gibbs_sentences,
    ring_log_partition,
    sentence_score,
)
from support.rings import random_model


def annealed(seed: int, scale: float) -> tuple[AnnealedEstimate, float]:
    """The estimate for a ring of 24 random words, and how far it is from the exact value."""
    scores = random_model(2, 8, seed, size=scale).potentials()
    method = AnnealedImportance(chains=64, temperatures=60)
    random = torch.Generator().manual_seed(seed)
    found = annealed_ring(scores, random, positions=23, method=method)
    exact = float(ring_log_partition(scores, 24))
    assert found.states.shape[1] == 24
    assert 1 <= found.effective_groups <= 16
    assert found.effective_groups - 1e-9 <= found.effective_chains <= 64 + 1e-9
    return found, abs(float(found.log_partition) - exact / 24)


@pytest.mark.filterwarnings("ignore::mrflearn.errors.AccuracyWarning")
def test_annealed_error_bars_cover_where_couplings_are_strong():
    runs = [annealed(seed, scale=4.0 if seed % 2 else 8.0) for seed in range(20)]
    covered = sum(error <= 2 * found.standard_error for found, error in runs)
    # Bars that cover 90 % or more are above 11 of 20 in all but one run of 10,000.
    assert covered > 11
    # Fewer than 2 effective groups of 16: log of the mean and mean of the logs are 0.92 apart.
    bars = [found.standard_error for found, _ in runs if not found.reliable]
    assert bars
    assert min(bars) > 0.92 / 24


@pytest.mark.filterwarnings("ignore::mrflearn.errors.AccuracyWarning")
def test_annealed_error_bars_are_small_where_couplings_are_weak():
    runs = [annealed(seed, scale=(0.3, 1.0)[seed % 2]) for seed in range(20)]
    assert np.median([float(found.standard_error) for found, _ in runs]) <= 0.02
    # Of 20, more than 11 are covered (and at most 8 warned of) in all but one run of 10,000 where
    # 90 % are (and 10 %).
    assert sum(error <= 2 * found.standard_error for found, error in runs) > 11
    assert sum(not found.reliable for found, _ in runs) <= 8


@pytest.mark.parametrize("method", ["gibbs", "exact"])
@pytest.mark.parametrize("offsets", [1, 2])
def test_sampled_sentences_have_the_exact_probabilities(offsets, method):
    model, separator, length = random_model(offsets, 3, seed=offsets), 1, 3
    potentials = model.potentials()
    every = list(itertools.product([0, 2], repeat=length))
    scores = [sentence_score(potentials, separator, torch.tensor(s)) for s in every]
    expected = torch.stack(scores).softmax(0)
    lengths = torch.tensor([length] * 6000 + [1] * 10)
    random = torch.Generator().manual_seed(3)
    if method == "gibbs":
        drawn = gibbs_sentences(potentials, separator, lengths, 30, random)
    else:
        drawn = exact_sentences(potentials, separator, lengths.tolist(), random)
    assert [len(line) for line in drawn] == lengths.tolist()
    seen = [tuple(line.tolist()) for line in drawn[:6000]]
    found = torch.tensor([seen.count(s) / 6000 for s in every], dtype=torch.float64)
    error = (expected * (1 - expected) / 6000).sqrt()
    assert bool(((found - expected).abs() <= 5 * error).all())

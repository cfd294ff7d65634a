"""Sampling from neighbour models against exact rings and enumerated sentences."""

from __future__ import annotations

import itertools

import pytest
import torch

from mrflearn.errors import InferenceError
from mrflearn.inference.ring_annealed import annealed_ring
from mrflearn.inference.sentence_sampling import gibbs_sentences
from mrflearn.inference.transfer import exact_sentences, ring_log_partition, sentence_score
from support.rings import random_model


def test_annealed_error_bars_cover_the_exact_value():
    misses = []
    for seed in range(20):
        offsets = 1 + seed % 3
        scores = random_model(offsets, 4, seed, size=0.7).scores()
        found = annealed_ring(
            scores, torch.Generator().manual_seed(seed), positions=12, chains=64, temperatures=60
        )
        exact = float(ring_log_partition(scores.unary, scores.tables(), found.positions))
        assert found.positions % (offsets + 1) == 0
        assert found.effective_chains > 8
        misses.append(abs(found.log_partition - exact / found.positions) / found.standard_error)
    # Of twenty normal deviates about one is beyond two standard errors, none beyond five.
    assert sum(miss > 2 for miss in misses) <= 5
    assert max(misses) < 5


def test_an_error_bar_needs_two_chains():
    with pytest.raises(InferenceError, match="at least 2 chains"):
        annealed_ring(random_model(1, 2, 0).scores(), torch.Generator(), chains=1)


@pytest.mark.parametrize("method", ["gibbs", "exact"])
@pytest.mark.parametrize("offsets", [1, 2])
def test_sampled_sentences_have_the_exact_probabilities(offsets, method):
    model, separator, length = random_model(offsets, 3, seed=offsets), 1, 3
    tables = model.scores().tables()
    every = list(itertools.product([0, 2], repeat=length))
    scores = [sentence_score(model.unary, tables, separator, torch.tensor(s)) for s in every]
    expected = torch.stack(scores).softmax(0)
    lengths = torch.tensor([length] * 6000 + [1] * 10)
    random = torch.Generator().manual_seed(3)
    if method == "gibbs":
        drawn = gibbs_sentences(model.scores(), separator, lengths, 30, random)
    else:
        drawn = exact_sentences(model.unary, tables, separator, lengths.tolist(), random)
    assert [len(line) for line in drawn] == lengths.tolist()
    seen = [tuple(line.tolist()) for line in drawn[:6000]]
    found = torch.tensor([seen.count(s) / 6000 for s in every], dtype=torch.float64)
    error = (expected * (1 - expected) / 6000).sqrt()
    assert bool(((found - expected).abs() <= 5 * error).all())

"""Bounds on log Z of fields of words and tags against enumerated rings, on their side."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.errors import InferenceError
from mrflearn.graph.lifted import CENTRE, LEFT, RIGHT, TagPotentials
from mrflearn.inference.lifted_tags import (
    PairVectors,
    Subfield,
    chain_table,
    growth_limits,
    log_growth,
    power_steps,
    shares,
    subfields,
    tag_copies,
    word_copies,
)
from mrflearn.objectives.tagger_bound import TaggerNormaliser, normaliser
from support.tag_rings import random_duals, random_scores, ring_log_partition, with_separators

sizes = st.sampled_from([0.0, 0.3, 1.0, 3.0])
seeds = st.integers(0, 10_000)
shapes = st.sampled_from([(1, 1), (1, 3), (2, 1), (2, 3)])  # K, L
BOUNDS = "exact", "chains", "stars"


def duals_of(own: TaggerNormaliser, scores: TagPotentials, seed: int, size: float):
    of_tags, of_words = own.duals(scores)
    return (
        random_duals(of_tags, scores.tags, seed, size),
        random_duals(of_words, scores.vocabulary, seed + 1, size),
    )


@settings(max_examples=60)
@given(
    bound=st.sampled_from(BOUNDS),
    shape=shapes,
    positions=st.integers(3, 6),
    seed=seeds,
    score_size=sizes,
    dual_size=sizes,
    separators=st.booleans(),
)
def test_bounds_hold_for_any_duals(
    bound, shape, positions, seed, score_size, dual_size, separators
):
    scores = random_scores(*shape, seed, score_size)
    scores = with_separators(scores) if separators else scores
    own = normaliser(bound, shape[0], tuple(scores.words))
    positions += -positions % own.multiple
    duals = duals_of(own, scores, seed, dual_size)
    found = own.ceiling(scores, *duals)
    truth = ring_log_partition(scores, positions) / positions
    assert found.slack >= 0
    assert found.per_position(positions) >= truth - 1e-9


def test_one_subfield_is_exact():
    scores = random_scores(2, 3, seed=4)
    own = normaliser("exact", 2, tuple(scores.words))
    found = own.ceiling(scores, *duals_of(own, scores, 0, 0.0))
    table = chain_table(scores, own.parts[0], own.share, torch.zeros(2), torch.zeros(3))
    weights = torch.zeros(4, 4, dtype=torch.float64)
    for a, b, c in torch.cartesian_prod(*[torch.arange(2)] * 3).tolist():
        weights[2 * a + b, 2 * b + c] = table[a, b, c].exp()
    assert found.value == pytest.approx(float(torch.linalg.eigvals(weights).abs().max().log()))
    lengths = 3, 4, 5, 6
    traces = [torch.linalg.matrix_power(weights, n).trace().log() for n in lengths]
    rings = [ring_log_partition(scores, n) for n in lengths]
    assert rings == pytest.approx([float(trace) for trace in traces], rel=1e-12)


def test_chains_of_one_word_a_tag_are_exact():
    scores = random_scores(1, 1, seed=3)
    own = normaliser("chains", 1, tuple(scores.words))
    assert own.duals(scores) == (0, 0)
    assert own.ceiling(scores, *duals_of(own, scores, 0, 0.0)).ring == pytest.approx(
        torch.tensor(2.0).log()
    )


@pytest.mark.parametrize("shape", [(1, 3), (2, 3)])
def test_chains_are_tighter_than_stars_at_their_best(shape):
    values = {}
    for bound in BOUNDS:
        scores = random_scores(*shape, seed=8)
        own = normaliser(bound, shape[0], tuple(scores.words))
        duals = duals_of(own, scores, 0, 0.0)
        for _ in range(40 if any(dual.numel() for dual in duals) else 0):
            leaves = [dual.requires_grad_() for dual in duals]
            slopes = torch.autograd.grad(own(scores, *leaves), leaves)
            duals = [leaf.detach() - slope for leaf, slope in zip(leaves, slopes, strict=True)]
        values[bound] = own.ceiling(scores, *duals).value
    assert values["exact"] < values["chains"] < values["stars"]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 3)])
def test_gradients_are_finite_differences(bound, shape):
    scores = random_scores(*shape, seed=5)
    own = normaliser(bound, shape[0], tuple(scores.words))
    duals = duals_of(own, scores, 7, 0.5)
    leaves = [scores.transitions, *scores.words.values(), *duals]
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]

    def value(transitions, *rest):
        words = dict(zip(scores.words, rest, strict=False))
        return own(TagPotentials(transitions, words), *rest[len(words) :])

    assert torch.autograd.gradcheck(value, leaves, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "tags", "words"),
    [
        ((1, 1), [1, 1], [1, 1]),
        ((1, 3), [1, 1, 1], [1, 1, 1]),
        ((2, 1), [1, 1, 1], [1, 2]),
        ((2, 3), [1, 1, 1], [1, 1, 1]),
        ((3, 1), [1, 1, 1, 1], [1, 3]),
    ],
)
def test_every_node_is_in_every_forest_of_stars(shape, tags, words):
    assert tag_copies(*shape) == tags
    assert word_copies(*shape) == words
    assert sum(tags) == sum(words) == max(shape[0] + 1, shape[1])


def test_subfields_share_places():
    assert subfields("exact", (CENTRE, LEFT, RIGHT)) == (Subfield((CENTRE, LEFT, RIGHT), 1.0),)
    parts = subfields("chains", (CENTRE, LEFT, RIGHT))
    assert shares(parts) == {CENTRE: 1.0, LEFT: 0.5, RIGHT: 0.5}


def test_far_tags_are_refused_by_chains():
    scores = random_scores(3, 1, seed=1)
    own = normaliser("exact", 3, tuple(scores.words))
    with pytest.raises(InferenceError, match="stars take any distance"):
        own.ceiling(scores, *duals_of(own, scores, 0, 0.0))


@settings(max_examples=30)
@given(seed=seeds, size=sizes)
def test_growth_lies_within_its_limits(seed, size):
    generator = torch.Generator().manual_seed(seed)
    table = size * torch.randn(3, 3, 3, generator=generator, dtype=torch.float64)
    start = PairVectors.even(3, table.device)
    rough = growth_limits(table, start, most=1)
    value = float(log_growth(table, power_steps(table, start)))
    fine = growth_limits(table, start)
    assert rough[0] - 1e-9 <= fine[0] <= value + 1e-7
    assert value - 1e-7 <= fine[1] <= rough[1] + 1e-9

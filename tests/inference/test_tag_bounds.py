"""Bounds on log Z of fields of words and tags against enumerated rings, on their side."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import InferenceError
from mrflearn.graph.lifted import CENTRE, LEFT, RIGHT, TagPotentials
from mrflearn.inference.lifted import (
    Stars,
    Subfield,
    TagChains,
    star_spacing,
    tag_copies,
    word_copies,
)
from mrflearn.inference.perron import TripleMatrices, certify, follow, overlap
from support.tag_rings import random_duals, random_scores, ring_log_partition, with_separators

sizes = st.sampled_from([0.0, 0.3, 1.0, 3.0])
seeds = st.integers(0, 10_000)
shapes = st.sampled_from([(1, 1), (1, 3), (2, 1), (2, 3)])  # K, L
BOUNDS = "exact", "chains", "stars"


def inference(bound: str, scores: TagPotentials) -> Stars | TagChains:
    places = tuple(scores.words)
    return {"stars": Stars(), "exact": TagChains.exact(places), "chains": TagChains.mixed(places)}[
        bound
    ]


def with_duals(own: Stars | TagChains, scores: TagPotentials, seed: int, size: float):
    zeros = own.duals(scores)
    duals = {
        name: random_duals(*value.shape, seed + k, size)
        for k, (name, value) in enumerate(zeros.items())
    }
    return scores._replace(**duals)


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
    own = inference(bound, scores)
    multiple = star_spacing(*shape) if bound == "stars" else 1
    positions += -positions % multiple
    found = own.bound(with_duals(own, scores, seed, dual_size))
    assert found.multiple == multiple
    truth = ring_log_partition(scores, positions) / positions
    assert found.slack >= 0
    assert found.per_position(positions) >= truth - 1e-9


def test_one_subfield_is_exact():
    scores = random_scores(2, 3, seed=4)
    own = TagChains.exact(tuple(scores.words))
    found = own.bound(scores)
    (table,) = own.tables(scores)
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
    own = TagChains.mixed(tuple(scores.words))
    assert [len(duals) for duals in own.duals(scores).values()] == [0, 0]
    found = own.bound(scores)
    assert found.per_position(10) - found.value == pytest.approx(math.log(2) / 10)


@pytest.mark.parametrize("shape", [(1, 3), (2, 3)])
def test_chains_are_tighter_than_stars_at_their_best(shape):
    values = {}
    for bound in BOUNDS:
        scores = random_scores(*shape, seed=8)
        own = inference(bound, scores)
        duals = own.duals(scores)
        for _ in range(40 if any(dual.numel() for dual in duals.values()) else 0):
            leaves = {name: dual.requires_grad_() for name, dual in duals.items()}
            value = own(scores._replace(**leaves)).log_partition
            slopes = torch.autograd.grad(value, list(leaves.values()))
            steps = zip(leaves.items(), slopes, strict=True)
            duals = {name: leaf.detach() - slope for (name, leaf), slope in steps}
        values[bound] = own.bound(scores._replace(**duals)).value
    assert values["exact"] < values["chains"] < values["stars"]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 3)])
def test_gradients_are_finite_differences(bound, shape):
    scores = random_scores(*shape, seed=5)
    own = inference(bound, scores)
    duals = with_duals(own, scores, 7, 0.5)[2:]
    leaves = [scores.transitions, *scores.words.values(), *duals]
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]

    def value(transitions, *rest):
        words = dict(zip(scores.words, rest, strict=False))
        return own(TagPotentials(transitions, words, *rest[len(words) :])).log_partition

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
    places = CENTRE, LEFT, RIGHT
    assert TagChains.exact(places).parts == (Subfield(places, 1.0),)
    assert TagChains.mixed(places).shares == {CENTRE: 1.0, LEFT: 0.5, RIGHT: 0.5}


def test_far_tags_are_refused_by_chains():
    scores = random_scores(3, 1, seed=1)
    with pytest.raises(InferenceError, match="stars take any distance"):
        TagChains.exact(tuple(scores.words)).bound(scores)


@given(seed=seeds, size=sizes)
def test_growth_lies_within_its_limits(seed, size):
    generator = torch.Generator().manual_seed(seed)
    table = size * torch.randn(3, 3, 3, generator=generator, dtype=torch.float64)
    matrices = TripleMatrices(table.unsqueeze(0), torch.ones(1, dtype=torch.float64))
    ones = torch.zeros(2, 1, 9, dtype=torch.float64)
    rough = certify(matrices, ones[1], most=1)
    found, _ = follow(matrices, ones, 1e-10, 200, 1e-11)
    value = float(matrices.quotients(found) - overlap(found))
    fine = certify(matrices, ones[1], tolerance=1e-9, most=500)
    assert rough.lower - 1e-9 <= fine.lower <= value + 1e-7
    assert value - 1e-7 <= fine.upper <= rough.upper + 1e-9

"""The lifted bound as a function of one vector: gradients, and optima known in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from mrflearn.errors import DataError
from mrflearn.features.moments import Moments, PairCounts, TripleCounts
from mrflearn.inference.lifted import Chains, Stars, Windows
from mrflearn.models.lifted import FORMS, NeighbourModel
from mrflearn.objectives.base import Evaluation
from mrflearn.objectives.lifted import LiftedLikelihood, WordFrequencies
from mrflearn.training.lbfgs import LBFGS
from support.functions import minimise

LIKE = torch.zeros(1, dtype=torch.float64)


def random_ring(states: int, positions: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    ring = generator.integers(states, size=positions)
    return np.where(generator.random(positions) < 0.5, np.roll(ring, 1), ring)


def ring_moments(states: int, positions: int, offsets: int, seed: int) -> Moments:
    """Moments of one random ring, without separators."""
    ring = random_ring(states, positions, seed)
    pairs = []
    for offset in range(1, offsets + 1):
        codes, count = np.unique(ring * states + np.roll(ring, -offset), return_counts=True)
        pairs.append(PairCounts.from_codes(codes, count.astype(np.int64), states))
    none = np.zeros(0, np.int64)
    names = tuple((offset,) for offset in range(1, offsets + 1))
    unary = np.bincount(ring, minlength=states)
    return Moments(names, unary, tuple(pairs), none, none, None)


def model_of(form: str, states: int, offsets: int) -> NeighbourModel:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return 0.3 * torch.randn(shape, generator=generator, dtype=torch.float64)

    pairs = {
        "explicit": [normal(offsets, states, states)],
        "low-rank": [normal(states, 2), normal(offsets, states, 2)],
        "bilinear": [normal(states, 2), normal(offsets, 2, 2), normal(states, 2)],
    }[form]
    return NeighbourModel(normal(states), dict(zip(FORMS[form], pairs, strict=True)))


def free_tables(offsets: int, states: int, dtype: torch.dtype = torch.float64) -> NeighbourModel:
    table = torch.zeros(offsets, states, states, dtype=dtype)
    return NeighbourModel(torch.zeros(states, dtype=dtype), {"table": table})


def bound_of(
    kind: str, model: NeighbourModel, moments: Moments, weights=(0.7, 0.3)
) -> LiftedLikelihood:
    duals = torch.zeros(model.offsets, model.states, dtype=torch.float64)
    rho = torch.tensor(weights[: model.offsets], dtype=torch.float64)
    inference = {
        "stars": Stars(),
        "windows": Windows(),
        "chains": Chains(rho / rho.sum()),
        "recorded chains": Chains(rho / rho.sum(), recorded=True),
    }[kind]
    own = replace(model, duals=duals)
    return LiftedLikelihood(own, None, WordFrequencies.of(moments, LIKE), inference)


def converged_at(bound: LiftedLikelihood, point: torch.Tensor, repeats: int = 8) -> Evaluation:
    """The bound at a point where Perron vectors had time to converge."""
    for _ in range(repeats):
        found = bound(point)
        bound.commit()
    return found


@pytest.mark.parametrize("form", ["explicit", "low-rank", "bilinear"])
@pytest.mark.parametrize("kind", ["stars", "chains", "recorded chains", "windows"])
def test_gradients_are_slopes(kind, form):
    moments = ring_moments(5, 60, 2, seed=1)
    bound = bound_of(kind, model_of(form, 5, 2), moments)
    generator = torch.Generator().manual_seed(2)
    point = bound.start + 0.1 * torch.randn(bound.start.shape, generator=generator).double()
    repeats = {"stars": 1, "chains": 8, "recorded chains": 25, "windows": 8}[kind]
    gradient = converged_at(bound, point, repeats).gradient.clone()
    for _ in range(2):
        direction = torch.randn(point.shape, generator=generator).double()
        ends = (point + sign * 1e-5 * direction for sign in (1, -1))
        values = [float(converged_at(bound, end, repeats).value) for end in ends]
        slope = (values[0] - values[1]) / 2e-5
        assert float(gradient @ direction) == pytest.approx(slope, rel=1e-5, abs=1e-7)


def triple_counts(states: int, positions: int, seed: int) -> Moments:
    """`ring_moments` at two offsets, with the triples of the same ring."""
    moments = ring_moments(states, positions, 2, seed)
    ring = random_ring(states, positions, seed)
    codes = (ring * states + np.roll(ring, -1)) * states + np.roll(ring, -2)
    found, count = np.unique(codes, return_counts=True)
    return replace(moments, triples=TripleCounts(found, count.astype(np.int64)))


def test_gradients_with_triples_are_slopes():
    moments, model = triple_counts(4, 60, seed=1), model_of("low-rank", 4, 2)
    generator = torch.Generator().manual_seed(3)
    triples = 0.3 * torch.randn(4, 4, 4, generator=generator, dtype=torch.float64)
    bound = bound_of("windows", replace(model, triples=triples), moments)
    direction = torch.randn(bound.start.shape, generator=generator, dtype=torch.float64)

    gradient = converged_at(bound, bound.start).gradient.clone()
    points = (bound.start + sign * 1e-5 * direction for sign in (1, -1))
    ends = [float(converged_at(bound, point).value) for point in points]
    slope = (ends[0] - ends[1]) / 2e-5
    assert float(gradient @ direction) == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_free_triples_reach_the_entropy_of_a_word_given_two():
    moments = triple_counts(3, 6000, seed=5)
    three = moments.triples.count.reshape(3, 3, 3) / moments.positions  # strictly positive
    model = replace(free_tables(2, 3), triples=torch.zeros(3, 3, 3).double())
    bound = bound_of("windows", model, moments)
    outcome = minimise(bound, bound.start, LBFGS(max_iterations=500, tolerance=1e-9, delta=None))
    assert outcome.value == pytest.approx(entropy(three) - entropy(three.sum(2)), abs=1e-6)


def test_triples_without_counts_are_refused():
    model = replace(model_of("explicit", 3, 2), triples=torch.zeros(3, 3, 3).double())
    bound = bound_of("windows", model, ring_moments(3, 60, 2, seed=1))
    with pytest.raises(DataError, match="three words in a row"):
        bound(bound.start)


def entropy(p: np.ndarray) -> float:
    return float(-(p * np.log(p)).sum())


@pytest.mark.parametrize(
    ("kind", "offsets"),
    [("stars", 1), ("stars", 2), ("chains", 1), ("chains", 2), ("recorded chains", 2)],
)
def test_free_tables_reach_the_closed_form(kind, offsets):
    moments = ring_moments(4, 3000, offsets, seed=offsets)
    single = moments.unary / moments.positions
    shared = []
    for pair in moments.pairs:
        assert len(pair.count) == 16  # strictly positive
        joint = pair.count / moments.positions
        shared.append(2 * entropy(single) - entropy(joint))
    chain_weights = [0.7, 0.3] if offsets == 2 else [1]
    weights = [1 / (offsets + 1)] * offsets if kind == "stars" else chain_weights
    expected = entropy(single) - sum(w * i for w, i in zip(weights, shared, strict=True))
    model = free_tables(offsets, 4)
    bound = bound_of(kind, model, moments)
    search = LBFGS(max_iterations=500, tolerance=1e-9, delta=None)
    outcome = minimise(bound, bound.start, search)
    assert outcome.value == pytest.approx(expected, abs=1e-6)


def test_validation_is_at_the_vector_it_is_asked_for():
    moments, other = (ring_moments(5, 60, 2, seed=seed) for seed in (1, 2))
    bound = bound_of("stars", model_of("low-rank", 5, 2), moments)
    value = bound(bound.start).value
    own = WordFrequencies.of(moments, LIKE)
    assert bound.validation_bound(bound.at(bound.start), own) == pytest.approx(-float(value))
    elsewhere = 1.5 * bound.start
    bound(elsewhere)
    assert bound.validation_bound(bound.at(bound.start), own) == pytest.approx(-float(value))
    again = bound_of("stars", model_of("low-rank", 5, 2), other)
    expected = -float(again(again.start).value)
    found = bound.validation_bound(bound.at(bound.start), WordFrequencies.of(other, LIKE))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["stars", "chains", "recorded chains", "windows"])
def test_a_vector_has_one_answer_until_a_step_is_accepted(kind):
    bound = bound_of(kind, model_of("low-rank", 5, 2), ring_moments(5, 60, 2, seed=1))
    before = bound(bound.start)
    value, gradient = before.value.clone(), before.gradient.clone()
    bound(-3.0 * bound.start)  # a trial far away, turned down
    after = bound(bound.start)
    assert torch.equal(after.value, value)
    assert torch.equal(after.gradient, gradient)


@pytest.mark.parametrize("kind", ["stars", "chains", "recorded chains", "windows"])
def test_a_restored_bound_goes_on_to_the_same_bits(kind):
    moments = ring_moments(5, 60, 2, seed=1)
    first = bound_of(kind, model_of("low-rank", 5, 2), moments)
    points = [first.start * scale for scale in (1.1, 1.3, 1.2)]
    for point in points[:2]:
        first(point)
        first.commit()
    state = {name: own.clone() for name, own in first.state().items()}
    second = bound_of(kind, model_of("low-rank", 5, 2), moments)
    second.restore(state)
    one, other = first(points[2]), second(points[2])
    assert torch.equal(one.value, other.value)
    assert torch.equal(one.gradient, other.gradient)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_do_not_leap_where_eigenvalues_cross(dtype):
    """One word's step to itself overtakes all others: no value along the way is lost sight of."""
    moments = ring_moments(12, 400, 1, seed=4)
    model = free_tables(1, 12, dtype)
    duals = torch.zeros(1, 12, dtype=dtype)
    like = torch.zeros(1, dtype=dtype)
    bound = LiftedLikelihood(
        replace(model, duals=duals),
        None,
        WordFrequencies.of(moments, like),
        Chains(torch.ones(1, dtype=dtype)),
    )
    way = bound.layout.unflatten(torch.zeros_like(bound.start))
    way["table"][0] = -30.0  # words keep to themselves, all but one alike
    way["table"][0].fill_diagonal_(0.0)
    base = bound.layout.flatten(way)
    way["table"][0].zero_()
    way["table"][0, 5, 5] = 1.0
    step = bound.layout.flatten(way)
    bound(base)
    bound.commit()
    for share in torch.linspace(0.001, 0.2, 25).tolist():
        bound(base + share * step)
        # log lambda is the largest diagonal entry, that of the word in front.
        assert float(bound.log_partition) == pytest.approx(share, abs=2e-3)

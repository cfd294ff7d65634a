"""The tagger's bound as a function of one vector: its side, its gradient, a known optimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from mrflearn.features.spelling import SpellingTable
from mrflearn.features.tagged_sentences import TaggedSentences, count_joint, with_separators
from mrflearn.graph.lifted import PLACES
from mrflearn.inference.lifted import Stars, TagChains, star_spacing
from mrflearn.kernels.low_rank import SparseMatrix
from mrflearn.models.lifted import JointTaggerModel
from mrflearn.objectives.lifted import LiftedLikelihood, TagFrequencies
from mrflearn.training.lbfgs import LBFGS
from support.functions import minimise
from support.tag_rings import ring_log_partition, ring_score

LIKE = torch.zeros(0, dtype=torch.float64)
WORDS = "<S>", "bar", "car"
TEXT = TaggedSentences(np.array([1, 2, 2, 1]), np.array([1, 1, 2, 1]), np.array([2, 2]))


def bound_of(name: str, distances: int, words: int, text=TEXT, vocabulary=WORDS):
    places = PLACES[words]
    own = {"stars": Stars(), "exact": TagChains.exact(places), "chains": TagChains.mixed(places)}
    moments = count_joint(text, (len(vocabulary), 3), distances, places)
    moments = moments.rounded_up(multiple_of(name, distances, words))
    spelling = {place: SpellingTable.of(vocabulary, None if place else 2) for place in places}
    features = {p: SparseMatrix.of(t.matrix, LIKE.dtype, LIKE.device) for p, t in spelling.items()}
    sizes = {place: len(table.number) for place, table in spelling.items()}
    model = JointTaggerModel.zeros(3, distances, sizes, LIKE)
    both = replace(model, duals=own[name].duals(model.potentials(features)))
    return LiftedLikelihood(both, features, TagFrequencies.of(moments, LIKE), own[name])


def multiple_of(name: str, distances: int, words: int) -> int:
    return star_spacing(distances, words) if name == "stars" else 1


def random_vector(bound: LiftedLikelihood, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(bound.start.shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", ["exact", "chains", "stars"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 3)])
def test_the_value_is_above_what_the_ring_costs(name, shape):
    bound = bound_of(name, *shape)
    vector = random_vector(bound)
    value = bound(vector).value
    potentials, multiple = bound.potentials(vector), multiple_of(name, *shape)
    ring = [with_separators(part, TEXT.lengths, shape[0]) for part in (TEXT.tags, TEXT.words)]
    filler = np.zeros(-len(ring[0]) % multiple, dtype=np.int64)
    tags, words = (torch.from_numpy(np.append(part, filler)).unsqueeze(0) for part in ring)
    mean = float(ring_score(potentials, tags, words)) / tags.shape[1]
    assert float(bound.frequencies.mean_score(potentials)) == pytest.approx(mean)
    positions = 3 if multiple == 3 else 4
    ceiling = bound.inference.bound(potentials)
    assert float(value) == pytest.approx(ceiling.value - mean, abs=1e-7)
    truth = ring_log_partition(potentials, positions) / positions
    assert ceiling.per_position(positions) >= truth - 1e-9


@pytest.mark.parametrize("name", ["exact", "chains", "stars"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 3)])
def test_gradients_are_finite_differences(name, shape):
    bound = bound_of(name, *shape)
    vector, way = random_vector(bound), random_vector(bound, seed=1)
    gradient = bound(vector).gradient
    step = 1e-5
    ends = [bound(vector + sign * step * way).value for sign in (1, -1)]
    rise = (ends[0] - ends[1]) / (2 * step)
    assert float(gradient @ way) == pytest.approx(float(rise), rel=1e-5, abs=1e-8)


def test_one_word_a_tag_gives_the_hidden_markov_model():
    generator = np.random.default_rng(2)
    tags = generator.integers(1, 3, size=200)
    words = np.where(generator.random(200) < 0.8, tags, 3 - tags)
    text = TaggedSentences(words, tags, np.full(50, 4))
    bound = bound_of("chains", 1, 1, text)
    outcome = minimise(bound, bound.start, LBFGS(max_iterations=300, tolerance=1e-9))
    moments = count_joint(text, (3, 3), 1, (0,))
    pairs = moments.transitions[0] / moments.positions
    emitted = moments.words[0].toarray() / moments.positions

    def information(table, axis):
        share = table / table.sum(axis=axis, keepdims=True)
        return float((table * np.log(np.where(table > 0, share, 1))).sum())

    # The likelihood of relative frequencies: tags given tags, words given tags.
    assert -outcome.value == pytest.approx(
        information(pairs, 1) + information(emitted, 0), abs=1e-4
    )

"""The objective of the trigram field: its value, its gradient, its warm start, its penalty."""

from __future__ import annotations

import pytest
import torch

from mrflearn.features.moments import moments_of
from mrflearn.inference.trigrams import certified
from mrflearn.models.trigrams import SeenTriples, TrigramModel
from mrflearn.objectives.trigrams import (
    MORE,
    TrigramFrequencies,
    TrigramLikelihood,
    trigram_penalty,
    trigram_scaling,
)
from mrflearn.training.adam import Adam
from mrflearn.training.loop import minimise
from support.trigrams import EDGE, letters, random_trigrams, score_table, window_matrix


def objective_of(seed: int) -> tuple[TrigramLikelihood, TrigramModel]:
    model, moments = random_trigrams(seed)
    return TrigramLikelihood(model, TrigramFrequencies.of(moments, model.unary)), model


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_gradient_is_that_of_the_exact_likelihood(seed):
    objective, _ = objective_of(seed)
    start = objective.start
    found = objective(start)

    def exact(vector: torch.Tensor) -> float:
        own = objective.at(vector)
        growth = torch.linalg.eigvals(window_matrix(own)).abs().max().log()
        return float(growth - moments_scores(own, seed))

    assert float(found.value) == pytest.approx(exact(start), abs=1e-7)
    step = 1e-5
    for name, own in objective.layout.unflatten(torch.arange(len(start))).items():
        place = int(own.flatten()[seed])
        move = step * (torch.arange(len(start)) == place)
        slope = (exact(start + move) - exact(start - move)) / (2 * step)
        assert float(found.gradient[place]) == pytest.approx(slope, abs=2e-6), name


def moments_scores(model: TrigramModel, seed: int) -> torch.Tensor:
    """The mean score of a position of the text, triple by triple."""
    seen = SeenTriples.of(random_trigrams(seed)[1])
    scores = score_table(model).view(-1)[torch.from_numpy(seen.codes)]
    return scores @ torch.from_numpy(seen.count / seen.positions)


def test_the_bound_is_no_better_than_the_value():
    objective, model = objective_of(5)
    for _ in range(3):
        value = float(objective(objective.start).value)
        objective.commit()
    mean = float(objective_mean(objective, model))
    assert -value == pytest.approx(mean - certified(model.potentials()).bound.value, abs=1e-5)


def objective_mean(objective: TrigramLikelihood, model: TrigramModel) -> torch.Tensor:
    moments = random_trigrams(5)[1]
    return TrigramFrequencies.of(moments, model.unary).mean_score(model.potentials())


def test_the_same_vector_has_the_same_value_until_commit():
    model, moments = random_trigrams(2, dtype=torch.float32)
    objective = TrigramLikelihood(model, TrigramFrequencies.of(moments, model.unary))
    start = objective.start
    first = objective(start)
    kept = first.gradient.clone()
    objective(start + 0.1)
    again = objective(start)
    assert torch.equal(again.gradient, kept)
    objective.commit()
    other = TrigramLikelihood(model, TrigramFrequencies.of(moments, model.unary))
    other.restore(objective.state())
    assert torch.equal(objective(start + 0.1).gradient, other(start + 0.1).gradient)


def test_resumed_training_has_the_same_bits(tmp_path):
    model, moments = random_trigrams(2, dtype=torch.float32)
    frequencies = TrigramFrequencies.of(moments, model.unary)
    options = {
        "penalty": trigram_penalty(model, moments),
        "scaling": trigram_scaling(model, moments),
    }

    def train(steps: int, **more: object) -> TrigramModel:
        objective = TrigramLikelihood(model, frequencies)
        return minimise(objective, Adam(epochs=steps, length=12), **options, **more).model

    whole = train(12)
    train(5, checkpoint=tmp_path / "state")
    again = train(12, checkpoint=tmp_path / "state", resume=True)
    for name, own in whole.parameters().items():
        assert torch.equal(own, again.parameters()[name])


def test_the_second_separator_is_no_news():
    moments = moments_of(letters(9, seed=1), 2, triples=True)
    seen, c = SeenTriples.of(moments), moments.states
    assert seen.positions == moments.positions
    assert int(seen.count.sum()) == moments.positions - moments.sentences
    assert not ((seen.codes % c == EDGE) & (seen.codes // c % c == EDGE)).any()
    filled = SeenTriples.of(moments.rounded_up(1000))
    assert filled.positions == seen.positions
    assert filled.codes.tolist() == seen.codes.tolist()


def test_frequent_words_pay_more_for_their_vectors():
    model, moments = random_trigrams(0)
    penalty = trigram_penalty(model, moments)
    objective = TrigramLikelihood(model, TrigramFrequencies.of(moments, model.unary))

    def strengths(penalty):
        """Of all weights: half the gradient of L2 where they are 1."""
        ones, none = torch.ones_like(objective.start), torch.zeros_like(objective.start)
        flat = penalty.on(objective.layout, objective.start)
        return objective.layout.unflatten(flat.add_l2_gradient(ones, none) / 2)

    by_name = strengths(penalty)
    order = torch.from_numpy(moments.unary).argsort()
    paid = by_name["left"][order, 0]
    assert bool((paid.diff() >= 0).all())
    assert float(by_name["unary"].abs().sum()) == 0
    halved = trigram_penalty(model, moments, l2=2.6 / moments.positions)
    again = strengths(halved)
    torch.testing.assert_close(2 * again["left"], by_name["left"])


def test_longer_ngrams_cost_more_by_default():
    fields = [random_trigrams(0, order=order) for order in (3, 5)]
    own, longer = (trigram_penalty(*field) for field in fields)
    for name in ("pairs", "skips", "triples"):
        assert longer.l1[name] == pytest.approx(MORE * own.l1[name])
    asked = [trigram_penalty(*field, l1=1e-3) for field in fields]
    assert asked[0].l1["triples"] == asked[1].l1["triples"] == pytest.approx(1e-3)


def test_a_word_that_the_text_has_not_keeps_its_score():
    _, moments = random_trigrams(0)
    model = TrigramModel.start(moments, 2, 0, torch.zeros(1))
    objective = TrigramLikelihood(model, TrigramFrequencies.of(moments, model.unary))
    scaling = trigram_scaling(model, moments)
    found = minimise(objective, Adam(epochs=50, length=50, rate=0.1), scaling=scaling).model
    moved = (found.unary - model.unary).abs()
    unseen = torch.from_numpy(moments.unary == 0)
    assert int(unseen.sum()) == 1  # <unk>
    assert float(moved[unseen]) < 1e-4
    assert float(moved[~unseen].min()) > 1e-3

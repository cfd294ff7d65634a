"""Fields with scores of n-grams of 4 and 5 words against their definition and enumerated texts."""

from __future__ import annotations

import itertools

import pytest
import torch

from mrflearn.errors import InferenceError
from mrflearn.features.moments import moments_of
from mrflearn.inference.trigrams import (
    TrigramMatrix,
    certified,
    check_rows,
    first_vectors,
    next_log_probabilities,
    perron_vector,
    trigram_marginals,
)
from mrflearn.models.trigrams import SeenTriples, TrigramModel, longer_counts
from mrflearn.objectives.trigrams import TrigramFrequencies, TrigramLikelihood
from support.trigrams import EDGE, history_matrix, history_table, letters, random_trigrams

ORDERS = pytest.mark.parametrize("order", [4, 5])


def growth(model: TrigramModel) -> float:
    """The largest eigenvalue of the matrix over all histories, its logarithm."""
    return float(torch.linalg.eigvals(history_matrix(history_table(model))).abs().max().log())


@ORDERS
def test_scores_are_those_of_the_definition(order):
    model, _ = random_trigrams(order, order=order)
    table, scores, c = history_table(model), model.potentials(), model.states
    assert max(float(own.abs().max()) for own in model.sparse.values()) > 1
    histories = torch.tensor(list(itertools.product(range(c), repeat=order - 1)))
    torch.testing.assert_close(scores.next_scores(histories).view(table.shape), table)
    line = torch.tensor([EDGE] * (order - 1) + [2, 3, 2, 4, EDGE, EDGE, 1, 3])
    expected = [table[tuple(line[k : k + order].tolist())] for k in range(len(line) - order + 1)]
    torch.testing.assert_close(scores.position_scores(line), torch.stack(expected))


@ORDERS
@pytest.mark.parametrize("size", [0.7, 1.5])
def test_the_certificate_bounds_texts_between_sentence_boundaries(order, size):
    model, _ = random_trigrams(1, size, order=order)
    found = certified(model.potentials()).bound
    whole = history_matrix(history_table(model))
    largest = float(torch.linalg.eigvals(whole).abs().max().log())
    assert largest - 1e-9 <= found.value <= largest + found.slack + 1e-9
    text = torch.eye(len(whole), dtype=torch.float64)[0]
    for positions in range(1, 30):
        text = text @ whole
        exact = float(text.view(-1, model.states**2)[:, 0].sum().log())  # texts that end with S S
        assert found.value * positions >= exact - 1e-9
    assert exact > 0.9 * largest * positions


@ORDERS
def test_a_matrix_of_other_scores_proves_nothing(order):
    model, _ = random_trigrams(3, order=order)
    scores = model.potentials()
    right = torch.rand_like(first_vectors(scores)[1]) + 0.1
    matrix = TrigramMatrix.of(scores)
    check_rows(scores, matrix, right)
    top = f"order{order}"
    other = model.with_parameters({**model.parameters(), top: model.sparse[top] + 0.1})
    with pytest.raises(InferenceError, match="differ"):
        check_rows(other.potentials(), matrix, right)


@ORDERS
@pytest.mark.parametrize("seed", [0, 1])
def test_the_gradient_is_that_of_the_exact_likelihood(order, seed):
    model, moments = random_trigrams(seed, order=order)
    frequencies = TrigramFrequencies.of(moments, model.unary, model.potentials())
    objective = TrigramLikelihood(model, frequencies)
    start = objective.start
    for _ in range(3):
        found = objective(start)
        objective.commit()

    def exact(vector: torch.Tensor) -> float:
        own = objective.at(vector)
        return growth(own) - mean_score(own, moments, order)

    assert float(found.value) == pytest.approx(exact(start), abs=1e-7)
    step, places = 1e-5, objective.layout.unflatten(torch.arange(len(start)))
    names = ("unary", "left", "far_right", "pairs", "skips", "triples", "order4")
    for name in names if order == 4 else ("order4", "order5"):
        place = int(places[name].flatten()[seed])
        move = step * (torch.arange(len(start)) == place)
        slope = (exact(start + move) - exact(start - move)) / (2 * step)
        assert float(found.gradient[place]) == pytest.approx(slope, abs=2e-6), name


def mean_score(model: TrigramModel, moments, order: int) -> float:
    """The mean score of a position of the text, read position by position."""
    seed = next(k for k in (0, 1) if moments_of(letters(12, k), 2).words == moments.words)
    vocabulary = moments.vocabulary
    ring = [EDGE] * (order - 1)
    for line in letters(12, seed):
        ring += [*vocabulary.encode(line).tolist(), EDGE, EDGE]
    table = history_table(model)
    windows = zip(*(ring[k:] for k in range(order)), strict=False)
    return sum(float(table[own]) for own in windows) / moments.positions


@ORDERS
def test_marginals_from_scratch_are_perrons(order):
    model, _ = random_trigrams(5, order=order)
    own = history_table(model).exp()
    whole = history_matrix(history_table(model))
    power = torch.linalg.matrix_power(whole / whole.max(), 200)
    left, right = power.sum(0), power.sum(1)
    shape = (model.states,) * (order - 1)
    shares = left.view(*shape, 1) * own * right.view(1, *shape)
    shares /= shares.sum()
    found = trigram_marginals(model.potentials())
    for n, listed in ((order - 1, -2), (order, -1)):
        by_words = shares.sum(0) if n < order else shares
        codes = words_of(model, {3: "triples", 4: "order4", 5: "order5"}[n])
        expected = torch.stack([by_words[own] for own in codes])
        torch.testing.assert_close(found.parts[2:][listed], expected, atol=1e-5, rtol=1e-3)


def words_of(model: TrigramModel, name: str) -> list[tuple[int, ...]]:
    """The words of each n-gram that has a score."""
    c = model.states
    words = [(own // c**2, own // c % c, own % c) for own in model.codes["triples"].tolist()]
    for longer in ("order4", "order5"):
        if name == "triples":
            break
        words = [(*words[own // c], own % c) for own in model.codes[longer].tolist()]
        if longer == name:
            break
    return words


@ORDERS
def test_words_in_gaps_have_the_scores_of_all_that_has_them(order):
    model, _ = random_trigrams(7, order=order)
    table, scores, reach = history_table(model), model.potentials(), order - 1
    for line in ([2, 3, 0, 4, 1, 2], [0, 2], [1, 0, 3], [3, 0], [0]):
        at = line.index(0)
        whole = [EDGE] * reach + line + [EDGE] * reach
        place = at + reach
        before = torch.tensor([whole[place - reach : place][::-1]])
        after = torch.tensor([whole[place + 1 : place + 1 + reach]])
        found = scores.conditional(before, after)[0, 1:].log_softmax(0)
        totals = []
        for word in range(1, model.states):
            whole[place] = word
            text = whole[: len(whole) - reach + 1]
            windows = zip(*(text[k:] for k in range(order)), strict=False)
            totals.append(sum(float(table[own]) for own in windows))
        expected = torch.tensor(totals, dtype=torch.float64).log_softmax(0)
        torch.testing.assert_close(found, expected)


@ORDERS
def test_next_words_are_those_of_a_long_text(order):
    model, _ = random_trigrams(11, order=order)
    table = history_table(model)
    whole = history_matrix(table)
    ahead = torch.linalg.matrix_power(whole / whole.max(), 60).sum(1)
    shape = (model.states,) * (order - 1)
    right = perron_vector(model.potentials())
    edge = (EDGE,) * (order - 1)
    for history in (
        edge,
        (*edge[1:], 2),
        (EDGE, 3, 1, 2)[-(order - 1) :],
        (1, 2, 3, 1)[1 - order :],
    ):
        found = next_log_probabilities(model.potentials(), right, torch.tensor([history]))[0]
        direct = table[history].exp() * ahead.view(shape)[history[1:]]
        torch.testing.assert_close(found.exp(), direct / direct.sum(), atol=1e-4, rtol=1e-3)


@ORDERS
def test_other_texts_are_counted_by_what_the_model_lists(order):
    model, moments = random_trigrams(2, order=order)
    other = moments_of(letters(9, 8), 2, moments.vocabulary, triples=True, order=order)
    scores = model.potentials()
    found = float(TrigramFrequencies.of(other, model.unary, scores).mean_score(scores))
    ring = [EDGE] * (order - 1)
    for line in letters(9, 8):
        ring += [*moments.vocabulary.encode(line).tolist(), EDGE, EDGE]
    direct = scores.position_scores(torch.tensor(ring)).sum() / other.positions
    assert found == pytest.approx(float(direct))
    counted = longer_counts(other, SeenTriples.of(other).codes, order)
    assert all(int(count.sum()) > 0 for _, count in counted)


@ORDERS
def test_the_field_is_the_same_without_zeros(order):
    model, _ = random_trigrams(4, order=order)
    generator = torch.Generator().manual_seed(0)
    thinned = {
        name: own * (torch.rand(own.shape, generator=generator) < 0.4)
        if name in model.sparse else own
        for name, own in model.parameters().items()
    }  # fmt: skip
    thin = model.with_parameters(thinned)
    kept = thin.without_zeros()
    assert kept.sparse_size < thin.sparse_size
    torch.testing.assert_close(history_table(kept), history_table(thin))
    bounds = [certified(own.potentials()).bound.value for own in (thin, kept)]
    assert bounds[0] == pytest.approx(bounds[1], abs=2e-6)
    again = model.with_scores_of(kept)
    torch.testing.assert_close(history_table(again), history_table(thin))

"""The transfer matrix of the trigram field against its definition and enumerated texts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.errors import InferenceError
from mrflearn.inference.transfer import ring_log_partition
from mrflearn.inference.trigrams import (
    TrigramMatrix,
    certified,
    check_rows,
    draw_sentences,
    next_log_probabilities,
    perron_vector,
    product,
    trigram_marginals,
)
from support.trigrams import EDGE, line_score, random_trigrams, score_table, window_matrix

seeds = st.integers(0, 1000)


def vectors(states: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    left, right = 0.1 + torch.rand(2, states**2, generator=generator, dtype=torch.float64)
    return left, right


@given(seed=seeds)
@settings(max_examples=5)
def test_scores_are_those_of_the_definition(seed):
    model, _ = random_trigrams(seed)
    table, scores, c = score_table(model), model.potentials(), model.states
    x, y, z = torch.tensor(list(itertools.product(range(c), repeat=3))).unbind(1)
    torch.testing.assert_close(scores.scores(x, y, z).view(c, c, c), table)
    x, y = torch.tensor(list(itertools.product(range(c), repeat=2))).unbind(1)
    found = scores.next_scores(torch.stack((x, y), 1))
    torch.testing.assert_close(found.view(c, c, c), table)
    line = torch.tensor([EDGE, EDGE, 2, 3, EDGE, EDGE, 1])
    expected = [table[tuple(line[k : k + 3].tolist())] for k in range(5)]
    torch.testing.assert_close(scores.position_scores(line), torch.stack(expected))


@given(seed=seeds)
@settings(max_examples=5)
def test_words_in_gaps_have_the_scores_of_their_three_triples(seed):
    model, _ = random_trigrams(seed)
    table, scores = score_table(model), model.potentials()
    windows = [(EDGE, EDGE), (EDGE, 2), (3, 2)]
    ends = [(EDGE, EDGE), (4, EDGE), (3, 1)]
    for (b2, b1), (a1, a2) in itertools.product(windows, ends):
        before, after = torch.tensor([[b1, b2]]), torch.tensor([[a1, a2]])
        found = scores.conditional(before, after)[0, 1:].softmax(0)
        direct = table[b2, b1, 1:] + table[b1, 1:, a1] + table[1:, a1, a2]
        torch.testing.assert_close(found, direct.softmax(0))


@given(seed=seeds)
@settings(max_examples=8)
def test_steps_are_products_with_the_whole_matrix(seed):
    model, _ = random_trigrams(seed)
    matrix, whole = TrigramMatrix.of(model.potentials()), window_matrix(model)
    left, right = vectors(model.states, seed)
    torch.testing.assert_close(matrix.after(right), whole @ right)
    torch.testing.assert_close(matrix.before(left), whole.T @ left)


@given(seed=seeds)
@settings(max_examples=8)
def test_marginals_are_those_of_the_whole_matrix(seed):
    model, _ = random_trigrams(seed)
    left, right = vectors(model.states, seed)
    found = TrigramMatrix.of(model.potentials()).quotient(left, right)
    before, after = (own.view(model.states, -1) for own in (left, right))
    shares = before.unsqueeze(2) * score_table(model).exp() * after.unsqueeze(0)
    total = shares.sum()
    torch.testing.assert_close(found.value, (total / (left * right).sum()).log())
    shares[1:, EDGE, EDGE] = 0.0  # certain: no score is read
    torch.testing.assert_close(found.marginals.near, shares.sum(0) / total)
    torch.testing.assert_close(found.marginals.far, shares.sum(1) / total)
    torch.testing.assert_close(
        found.marginals.triples, shares.view(-1)[model.codes["triples"]] / total
    )


@given(seed=seeds)
@settings(max_examples=8)
def test_rounded_products_are_near_the_exact_ones(seed):
    left, right = torch.rand(2, 7, 7, generator=torch.Generator().manual_seed(seed)).double() + 0.1
    # Both factors and the sums have 8 bits.
    torch.testing.assert_close(
        product(left, right, rounded=True), left @ right.T, rtol=4 * 2**-8, atol=0
    )


@given(seed=seeds)
@settings(max_examples=8)
def test_marginals_by_rounded_products_are_near_the_exact_ones(seed):
    model, _ = random_trigrams(seed, size=0.3)
    scores = model.potentials()
    matrix = TrigramMatrix.of(scores)
    left, right = vectors(model.states, seed)
    exact = matrix.quotient(left, right).marginals.parts
    rounded = replace(TrigramMatrix.of(scores), rounded=True)
    for own, other in zip(rounded.quotient(left, right).marginals.parts, exact, strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=0.02)


@given(seed=seeds, size=st.sampled_from([0.0, 0.5, 2.0]))
@settings(max_examples=8)
def test_the_certificate_bounds_texts_between_sentence_boundaries(seed, size):
    model, _ = random_trigrams(seed, size)
    found = certified(model.potentials()).bound
    whole = window_matrix(model)
    largest = float(torch.linalg.eigvals(whole).abs().max().log())
    assert largest - 1e-9 <= found.value <= largest + found.slack + 1e-9
    power = torch.eye(len(whole), dtype=torch.float64)
    for positions in range(1, 30):
        power = power @ (whole / math.exp(largest))  # high powers of T itself may overflow
        exact = float(power[0, 0].log()) + positions * largest
        assert found.per_position(positions) * positions >= exact - 1e-9
    dense = model.potentials().dense()
    assert float(ring_log_partition(dense, 29, EDGE)) == pytest.approx(exact)


def test_log_z_is_the_sum_over_all_texts():
    model, _ = random_trigrams(3)
    table, positions = score_table(model), 6
    texts = itertools.product(range(model.states), repeat=positions - 2)
    totals = []
    for text in texts:
        ring = [EDGE, EDGE, *text, EDGE, EDGE]
        threes = zip(ring, ring[1:], ring[2:], strict=False)
        totals.append(sum(float(table[three]) for three in threes))
    exact = float(torch.tensor(totals, dtype=torch.float64).logsumexp(0))
    found = ring_log_partition(model.potentials().dense(), positions, EDGE)
    assert float(found) == pytest.approx(exact)


def test_any_start_proves_a_bound():
    model, _ = random_trigrams(5)
    _, right = vectors(model.states, 1)
    values = [certified(model.potentials(), start).bound.value for start in (None, right)]
    assert values[0] == pytest.approx(values[1], abs=2e-6)


def test_a_matrix_of_other_scores_proves_nothing():
    model, _ = random_trigrams(7)
    scores = model.potentials()
    other = model.with_parameters({n: own + 0.1 for n, own in model.parameters().items()})
    right = torch.ones(model.states**2, dtype=torch.float64)
    check_rows(scores, TrigramMatrix.of(scores), right)
    with pytest.raises(InferenceError, match="differ"):
        check_rows(scores, TrigramMatrix.of(other.potentials()), right)
    matrix = TrigramMatrix.of(scores)
    with pytest.raises(InferenceError, match="differ"):
        check_rows(scores, replace(matrix, extra=0 * matrix.extra), right)


def test_next_words_are_those_of_a_long_text():
    model, _ = random_trigrams(11)
    whole, c = window_matrix(model), model.states
    ahead = torch.linalg.matrix_power(whole / 30, 60)[:, 0].view(c, c)  # up to a boundary far away
    right = perron_vector(model.potentials())
    for x, y in ((EDGE, EDGE), (EDGE, 2), (3, 1)):
        found = next_log_probabilities(model.potentials(), right, torch.tensor([[x, y]]))[0]
        direct = score_table(model)[x, y].exp() * ahead[y]
        torch.testing.assert_close(found.exp(), direct / direct.sum(), atol=1e-4, rtol=1e-3)


def test_sentences_are_drawn_as_often_as_they_are_probable():
    model, _ = random_trigrams(13)
    scores, right = model.potentials(), perron_vector(model.potentials())
    count = 4000
    drawn = draw_sentences(scores, right, count, 60, torch.Generator().manual_seed(0))
    found = Counter(map(tuple, drawn))
    table = score_table(model)
    growth = float(torch.linalg.eigvals(window_matrix(model)).abs().max().log())
    for line in ([1], [2, 3], [4, 1, 2]):
        share = math.exp(line_score(table, line) - growth * (len(line) + 2))
        error = math.sqrt(share * (1 - share) / count)
        assert abs(found[tuple(line)] / count - share) <= 5 * error


def test_marginals_from_scratch_are_perrons():
    model, _ = random_trigrams(17)
    near = trigram_marginals(model.potentials()).near
    # Each position but the second separators of sentences has one near pair.
    assert float(near.sum()) == pytest.approx(1 - float(near[:, EDGE].sum()), abs=1e-4)

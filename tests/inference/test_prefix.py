"""Probabilities of beginnings of sentences against sums over their continuations."""

from __future__ import annotations

import itertools

import pytest
import torch

from mrflearn.graph.chart import ChartPotentials
from mrflearn.inference.charts import Prefix, log_partition, termination_probability
from mrflearn.kernels.rules import RuleShape
from support.charts import normalised

LONGEST = 11  # continuations beyond are too unlikely to matter below


def total_of(grammar, beginning, length):
    """The summed probability of all strings of a length that begin so."""
    shape, rules, start, emission = grammar
    rest = itertools.product(range(emission.shape[1]), repeat=length - len(beginning))
    strings = torch.tensor([[*beginning, *words] for words in rest])
    lengths = torch.full((len(strings),), length)
    words = emission.t()[strings.flatten()]
    return log_partition(ChartPotentials(shape, words, lengths, rules, start)).exp().sum()


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_beginnings_are_sums_over_continuations(seed, dense):
    grammar = normalised(2, 3, 2, seed=seed, going_on=0.04, dense=dense)
    shape, rules, start, emission = grammar
    words = [0, 1, 1]
    beliefs = Prefix.of(rules, start, shape)(emission.t()[words])
    for k in range(4):
        lengths = range(max(k, 1), LONGEST)
        expected = sum(total_of(grammar, words[:k], length) for length in lengths)
        torch.testing.assert_close(beliefs.begins[k].exp(), expected, rtol=1e-6, atol=1e-9)
        follows = beliefs.follows[k].exp()
        # Whatever comes next, a word or the end, is certain to come.
        torch.testing.assert_close(float(follows.sum() + beliefs.ends[k].exp()), 1.0)
        for word, chance in enumerate((follows @ emission.exp()).tolist()):
            longer = sum(total_of(grammar, [*words[:k], word], m) for m in range(k + 1, LONGEST))
            assert chance == pytest.approx(float(longer / expected), rel=1e-5)


def test_the_last_word_adds_up_to_the_sentence():
    shape, rules, start, emission = normalised(3, 4, 5, seed=7, going_on=0.3)
    scores = emission.t()[[0, 4, 2, 2, 1, 3]]
    beliefs = Prefix.of(rules, start, shape)(scores)
    whole = log_partition(ChartPotentials(shape, scores, torch.tensor([6]), rules, start))
    torch.testing.assert_close(beliefs.begins[-1] + beliefs.ends[-1], whole[0])


def test_impossible_beginnings_are_told():
    shape, rules, start, emission = normalised(2, 2, 3, seed=1, going_on=0.2)
    scores = emission.t()[[0, 1, 2]]
    scores[1] = -torch.inf
    beliefs = Prefix.of(rules, start, shape)(scores)
    assert beliefs.begins[:2].isfinite().all()
    assert (beliefs.begins[2:] == -torch.inf).all()
    assert (beliefs.ends[2:] == -torch.inf).all()
    assert (beliefs.follows[2:] == -torch.inf).all()


def test_all_strings_together_have_probability_one():
    grammar = normalised(2, 2, 2, seed=3, going_on=0.05)
    totals = [float(total_of(grammar, [], length)) for length in range(1, LONGEST)]
    assert sum(totals) == pytest.approx(1, abs=1e-6)
    assert sum(totals[:3]) < 1 - 1e-4


@pytest.mark.parametrize(("goes_on", "expected"), [(0.3, 1.0), (0.5, 1.0), (0.75, 1 / 3)])
def test_endless_derivations_have_their_share(goes_on, expected):
    # S -> S S with probability p, else two words: e = p e^2 + (1 - p), so e = min(1, (1 - p) / p).
    from mrflearn.kernels.rules import RuleShape

    shape = RuleShape(1, 1, torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([0, 1]))
    rules = torch.tensor([goes_on, 1 - goes_on], dtype=torch.float64)
    assert float(termination_probability(rules, shape)[0]) == pytest.approx(expected, abs=1e-7)
    start = torch.tensor([0.0, -torch.inf], dtype=torch.float64)
    beliefs = Prefix.of(rules.log(), start, shape)(torch.zeros(0, 1, dtype=torch.float64))
    assert float(beliefs.begins[0].exp()) == pytest.approx(expected, abs=1e-7)


def test_long_beginnings_do_not_underflow():
    shape, rules, start, emission = normalised(3, 3, 50, seed=5, going_on=0.4, dense=False)
    words = torch.arange(150) % 50
    beliefs = Prefix.of(rules, start, shape)(emission.t()[words])
    assert beliefs.begins.isfinite().all()
    torch.testing.assert_close(
        beliefs.follows.exp().sum(1) + beliefs.ends.exp(), torch.ones(151, dtype=torch.float64)
    )


@pytest.mark.parametrize("dense", [True, False])
def test_a_grammar_without_phrases_ends_after_one_word(dense):
    none = torch.zeros(0, dtype=torch.int64)
    shape = RuleShape.full(0, 2) if dense else RuleShape(0, 2, none, none, none)
    start, words = torch.tensor([0.25, 0.75]).log(), torch.tensor([[0.5, 0.1], [0.2, 0.3]]).log()
    found = Prefix.of(torch.zeros(0), start, shape)(words)
    expected = torch.tensor([1.0, 0.25 * 0.5 + 0.75 * 0.1, 0.0]).log()
    torch.testing.assert_close(found.begins, expected)
    torch.testing.assert_close(found.ends[1], torch.tensor(0.0))

"""Grammars as records: what must add up, and closed forms against enumeration."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given

from mrflearn.datasets.grammar import Grammar, Rule, cumulative, derivation_sampler, uniform_numbers
from support.grammars import enumerate_strings, random_grammars, spectral_radius

GEOMETRIC = Grammar("S", (Rule("S", ("a", "S"), 0.3), Rule("S", ("b",), 0.7)))
BRANCHING = Grammar(
    "S",
    (
        Rule("S", ("S", "S"), 0.2),
        Rule("S", ("A",), 0.5),
        Rule("S", ("a", "b", "A"), 0.3),
        Rule("A", ("a",), 0.6),
        Rule("A", ("b", "a"), 0.4),
    ),
)


def test_counts_length_and_entropy_of_a_geometric_grammar_are_the_textbook_ones():
    assert GEOMETRIC.expected_counts == pytest.approx({"S": 1 / 0.7, "a": 0.3 / 0.7, "b": 1.0})
    assert GEOMETRIC.expected_length == pytest.approx(1 / 0.7)
    choice = -0.3 * math.log(0.3) - 0.7 * math.log(0.7)
    assert GEOMETRIC.entropy() == pytest.approx(choice / 0.7)
    assert GEOMETRIC.entropy({"a": 2.0, "z": 5.0}) == pytest.approx(choice / 0.7 + 2 * 0.3 / 0.7)


def test_terminals_and_nonterminals_keep_the_order_of_the_rules():
    assert tuple(BRANCHING.rules_of) == ("S", "A")
    assert BRANCHING.terminals == ("a", "b")
    assert spectral_radius(BRANCHING) == pytest.approx(0.4)


def test_entropy_and_length_are_means_over_sampled_derivations():
    draw, numbers = derivation_sampler(BRANCHING), uniform_numbers(3)
    samples = [draw(numbers) for _ in range(20_000)]
    surprise = np.array([-sum(step.log_probability for step in steps) for steps in samples])
    length = np.array([sum(not step.children for step in steps) for steps in samples])
    for values, exact in ((surprise, BRANCHING.entropy()), (length, BRANCHING.expected_length)):
        assert abs(values.mean() - exact) < 4 * values.std() / math.sqrt(len(values))


@given(random_grammars())
def test_probability_of_all_short_strings_approaches_one(grammar):
    assume(spectral_radius(grammar) < 0.5)
    strings = enumerate_strings(grammar, longest=7)
    total = math.fsum(probability for probability, _ in strings.values())
    # By Markov's inequality on lengths: what is missing is no more than mean length / 8.
    assert 1 - grammar.expected_length / 8 <= total <= 1 + 1e-12


def test_samples_have_the_probabilities_of_the_strings():
    draw, numbers = derivation_sampler(BRANCHING), uniform_numbers(11)
    count = 20_000
    seen = Counter(
        tuple(step.symbol for step in draw(numbers) if not step.children) for _ in range(count)
    )
    for string, (probability, _) in enumerate_strings(BRANCHING, longest=3).items():
        spread = math.sqrt(probability * (1 - probability) / count)
        assert abs(seen[string] / count - probability) < 4 * spread


def test_deep_derivations_need_no_recursion():
    grammar = Grammar("S", (Rule("S", ("a", "S"), 1 - 1e-5), Rule("S", ("b",), 1e-5)))
    lengths = [len(derivation_sampler(grammar)(uniform_numbers(seed))) for seed in range(3)]
    assert max(lengths) > 20_000


def test_numbers_repeat_for_a_seed_and_differ_between_seeds():
    first, again, other = (uniform_numbers(seed) for seed in ((1, 2), (1, 2), (1, 3)))
    drawn = [next(first) for _ in range(3000)]
    assert drawn == [next(again) for _ in range(3000)]
    assert drawn != [next(other) for _ in range(3000)]


def test_choices_of_probability_zero_are_never_made():
    ends = cumulative([0.0, 0.1, 0.9, 0.0])
    assert [bisect_right(ends, u) for u in (0.0, 0.0999, 0.1, 1 - 2**-53)] == [1, 1, 2, 2]
    tenths = cumulative([0.1] * 10)  # their sum, in floating point, is below 1
    assert bisect_right(tenths, 1 - 2**-53) == 9

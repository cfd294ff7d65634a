"""The inside algorithm against enumeration of all derivations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given

from mrflearn.datasets.grammar import Grammar, Rule
from mrflearn.errors import DataError
from support.grammar_inside import InsideAlgorithm
from support.grammars import enumerate_strings, random_grammars


def one_hot(grammar, strings):
    return np.array(
        [[[t == word for t in grammar.terminals] for word in s] for s in strings], float
    )


@given(random_grammars())
def test_probabilities_and_counts_are_those_of_enumeration(grammar):
    truth = enumerate_strings(grammar, longest=5)
    probability, count = InsideAlgorithm.of(grammar), InsideAlgorithm.of(grammar, count=True)
    for length in range(1, 6):
        strings = list(itertools.product(grammar.terminals, repeat=length))
        scores = one_hot(grammar, strings)
        expected = np.array([truth.get(string, (0.0, 0)) for string in strings])
        np.testing.assert_allclose(
            np.exp(probability.log_weights(scores)), expected[:, 0], rtol=1e-10
        )
        np.testing.assert_allclose(np.exp(count.log_weights(scores)), expected[:, 1], rtol=1e-10)


def test_soft_scores_weigh_every_terminal_at_every_position():
    grammar = Grammar("S", (Rule("S", ("a", "S"), 0.3), Rule("S", ("b",), 0.7)))
    scores = np.array([[[0.5, 0.25], [0.125, 0.75]]])
    value = InsideAlgorithm.of(grammar).log_weights(scores)
    assert value == pytest.approx([math.log(0.3 * 0.7 * 0.5 * 0.75)])


def test_long_strings_do_not_underflow():
    grammar = Grammar("S", (Rule("S", ("a", "S"), 0.01), Rule("S", ("b",), 0.99)))
    value = InsideAlgorithm.of(grammar).log_weights(one_hot(grammar, [["a"] * 399 + ["b"]]))
    assert value == pytest.approx([399 * math.log(0.01) + math.log(0.99)])


def test_batches_are_cut_into_portions_without_a_trace(monkeypatch):
    grammar = Grammar("S", (Rule("S", ("S", "S"), 0.4), Rule("S", ("a",), 0.6)))
    inside = InsideAlgorithm.of(grammar)
    scores = np.random.default_rng(0).random((7, 5, 1))
    whole = inside.log_weights(scores)
    monkeypatch.setattr("support.grammar_inside._NUMBERS", 12)
    # Vectorised arithmetic may round the rest of a batch in another way.
    np.testing.assert_allclose(inside.log_weights(scores), whole, rtol=1e-13)


def test_empty_strings_and_empty_batches():
    inside = InsideAlgorithm.of(Grammar("S", (Rule("S", ("a",), 1.0),)))
    assert inside.log_weights(np.ones((2, 0, 1))).tolist() == [-math.inf, -math.inf]
    assert inside.log_weights(np.ones((0, 3, 1))).tolist() == []


def test_cycles_of_unary_rules_are_refused():
    rules = (Rule("S", ("A",), 1.0), Rule("A", ("S",), 0.5), Rule("A", ("a",), 0.5))
    with pytest.raises(DataError, match="cycle"):
        InsideAlgorithm.of(Grammar("S", rules))

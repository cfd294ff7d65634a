"""Batched sums over parses against their plain twin, at both kinds of grammars."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

from mrflearn.errors import GraphError
from mrflearn.kernels import chart as inside
from mrflearn.kernels.chart import GrammarWeights
from mrflearn.kernels.rules import RuleShape
from support import inside_reference
from support.charts import make_problem, problems


def counted(problem, weight=None, dtype=torch.float64):
    tensors = [x.to(dtype) for x in (problem.rules, problem.start, problem.words)]
    weight = torch.ones(len(problem.words), dtype=dtype) if weight is None else weight
    grammar = GrammarWeights.of(tensors[0], tensors[1], problem.shape)
    return inside.expected_counts(tensors[2], grammar, weight, lengths_of(tensors[2]))


def lengths_of(words):
    return torch.full((len(words),), words.shape[1])


def reference(problem):
    return inside_reference.expected_counts(
        problem.words, problem.rules, problem.start, problem.shape
    )


@given(problems(largest=3, longest=5))
def test_counts_are_those_of_the_plain_twin(problem):
    for mine, plain in zip(counted(problem)[:4], reference(problem), strict=True):
        torch.testing.assert_close(mine, plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(("phrases", "preterminals", "length"), [(4, 3, 9), (1, 1, 7), (7, 5, 6)])
def test_longer_sentences_agree_with_the_plain_twin(phrases, preterminals, length, dense):
    problem = make_problem(phrases, preterminals, length, seed=3, dense=dense, forbidden=0.1)
    for mine, plain in zip(counted(problem)[:4], reference(problem), strict=True):
        torch.testing.assert_close(mine, plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dense", [True, False])
def test_single_precision_is_near_double_precision(dense):
    problem = make_problem(8, 6, 25, seed=1, dense=dense, spread=2.0)
    for single, double in zip(
        counted(problem, dtype=torch.float32)[:4], counted(problem)[:4], strict=True
    ):
        torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dense", [True, False])
def test_full_and_listed_rules_are_the_same_grammar(dense):
    full = make_problem(3, 4, 12, seed=5, forbidden=0.2 if dense else 0.0)
    shape = full.shape
    listed = RuleShape(3, 4, shape.parent, shape.left, shape.right)
    one, other = (
        inside.expected_counts(
            full.words,
            GrammarWeights.of(full.rules, full.start, each),
            torch.ones(2, dtype=torch.float64),
            lengths_of(full.words),
        )
        for each in (shape, listed)
    )
    for a, b in zip(one[:4], other[:4], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dense", [True, False])
def test_counts_are_weighted_by_sentence(dense):
    problem = make_problem(3, 2, 6, seed=8, dense=dense)
    weight = torch.tensor([2.0, -0.5], dtype=torch.float64)
    both = counted(problem, weight)
    alone = [counted(problem, torch.eye(2, dtype=torch.float64)[i]) for i in (0, 1)]
    torch.testing.assert_close(both.rules, 2 * alone[0].rules - 0.5 * alone[1].rules)
    torch.testing.assert_close(both.start, 2 * alone[0].start - 0.5 * alone[1].start)
    torch.testing.assert_close(both.words[1], -0.5 * alone[1].words[1])


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("offset", [-600.0, 600.0])
def test_scores_may_be_anything(dense, offset):
    problem = make_problem(3, 2, 7, seed=2, dense=dense)
    grammar = GrammarWeights.of(problem.rules + offset, problem.start - offset, problem.shape)
    words = problem.words + 2 * offset
    moved = inside.expected_counts(words, grammar, torch.ones(2).double(), lengths_of(words))
    plain = counted(problem)
    shift = 2 * offset * 7 + offset * 6 - offset
    torch.testing.assert_close(moved.log_partition - shift, plain.log_partition)
    torch.testing.assert_close(moved.rules, plain.rules)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_long_sentences_do_not_underflow(dense, dtype):
    length = 80
    problem = make_problem(3, 2, length, seed=4, dense=dense, sentences=1, spread=4.0)
    found = counted(problem, dtype=dtype)
    assert torch.isfinite(found.log_partition).all()
    # A parse of n words has n preterminals, n - 1 rules and one start symbol.
    torch.testing.assert_close(found.words.sum(2), torch.ones(1, length, dtype=dtype))
    torch.testing.assert_close(float(found.rules.sum()), length - 1.0, rtol=1e-4, atol=0)
    torch.testing.assert_close(float(found.start.sum()), 1.0, rtol=1e-4, atol=0)


@pytest.mark.parametrize("dense", [True, False])
def test_log_inside_of_the_whole_sentence_is_its_likelihood(dense):
    problem = make_problem(3, 2, 6, seed=9, dense=dense)
    chart = inside.log_inside(problem.words, problem.rules, problem.shape)
    value = torch.logsumexp(chart[:, :, 0, 6] + problem.start[:3, None], dim=0)
    torch.testing.assert_close(value, reference(problem)[0])


@pytest.mark.parametrize("dense", [True, False])
def test_no_phrase_stands_over_one_word(dense):
    problem = make_problem(3, 2, 1, seed=9, dense=dense)
    chart = inside.log_inside(problem.words, problem.rules, problem.shape)
    assert chart.shape == (3, 2, 2, 2)
    assert bool((chart == -torch.inf).all())


def test_a_grammar_without_phrases_has_sentences_of_one_word():
    shape = RuleShape.full(0, 2)
    grammar = GrammarWeights.of(torch.zeros(0), torch.zeros(2), shape)
    words = torch.zeros(1, 1, 2)
    one = inside.expected_counts(words, grammar, torch.ones(1), lengths_of(words))
    assert one.log_partition.item() == pytest.approx(0.6931472)
    assert one.start.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("phrases", "preterminals", "rule", "message"),
    [
        (1, 0, (0, 0, 0), "needs at least one preterminal"),
        (1, 1, (1, 0, 0), "parent is symbol 1, but only 0 to 0"),
        (1, 1, (0, 2, 0), "left is symbol 2, but only 0 to 1"),
        (1, 1, (0, 0, -1), "right is symbol -1"),
    ],
)
def test_rules_must_fit_their_symbols(phrases, preterminals, rule, message):
    with pytest.raises(GraphError, match=message):
        RuleShape(phrases, preterminals, *(torch.tensor([symbol]) for symbol in rule))

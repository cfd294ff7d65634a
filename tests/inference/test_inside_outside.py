"""Inference over parses against a list of all parses."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from mrflearn.errors import GraphError, InferenceError
from mrflearn.inference.charts import InsideOutside
from support.charts import all_parses, make_problem, problems


@settings(max_examples=30)
@given(problems(largest=2, longest=4))
def test_beliefs_are_those_of_all_parses(problem):
    beliefs = InsideOutside(problem.shape)(*problem.packed())
    b, n, p = problem.words.shape
    words = torch.zeros(b, n, p, dtype=torch.float64)
    rules, start = torch.zeros_like(problem.rules), torch.zeros_like(problem.start)
    total = torch.full((b,), -torch.inf, dtype=torch.float64)
    for sentence in range(b):
        parses = all_parses(problem, sentence)
        scores = torch.tensor([parse.score for parse in parses], dtype=torch.float64)
        if parses:
            total[sentence] = torch.logsumexp(scores, dim=0)
        for parse, share in zip(parses, (scores - total[sentence]).exp(), strict=True):
            start[parse.spans[0][2]] += share
            for rule in parse.rules:
                rules[rule] += share
            for first, end, symbol in parse.spans:
                if end - first == 1:
                    words[sentence, first, symbol - problem.shape.phrases] += share
    torch.testing.assert_close(beliefs.log_likelihood, total, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(beliefs.words, words.flatten(0, 1), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(beliefs.rules, rules, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(beliefs.start, start, rtol=1e-10, atol=1e-10)
    assert beliefs.impossible.tolist() == (total == -torch.inf).nonzero()[:, 0].tolist()


@pytest.fixture(scope="module", params=["dense", "listed"])
def mixed(request):
    """Sentences of several lengths laid end to end, one of them without words."""
    problem = make_problem(3, 3, 20, seed=6, dense=request.param == "dense", sentences=1)
    lengths = torch.tensor([4, 0, 1, 7, 4, 4])
    return problem.shape, (problem.words[0], lengths, problem.rules, problem.start)


def test_sentences_of_any_lengths_are_as_if_alone(mixed):
    shape, (words, lengths, rules, start) = mixed
    charts = InsideOutside(shape)
    together = charts(words, lengths, rules, start)
    assert together.impossible.tolist() == [1]
    parts = [
        charts(part, torch.tensor([len(part)]), rules, start)
        for part in words.split(lengths.tolist())
    ]
    torch.testing.assert_close(torch.cat([p.words for p in parts]), together.words)
    torch.testing.assert_close(sum(p.rules for p in parts), together.rules)
    torch.testing.assert_close(sum(p.start for p in parts), together.start)
    torch.testing.assert_close(
        torch.cat([p.log_likelihood for p in parts]), together.log_likelihood
    )


def test_small_batches_change_nothing(mixed):
    shape, arguments = mixed
    whole, pieces = InsideOutside(shape)(*arguments), InsideOutside(shape, numbers=1)(*arguments)
    torch.testing.assert_close(whole.rules, pieces.rules)
    torch.testing.assert_close(whole.words, pieces.words)


def test_gradients_are_those_of_finite_differences(mixed):
    shape, (words, lengths, rules, start) = mixed
    leaves = [x.clone().requires_grad_() for x in (words, rules, start)]
    upstream = torch.linspace(-1, 2, len(lengths), dtype=torch.float64)

    def total(words, rules, start):
        value = InsideOutside(shape).log_likelihood(words, lengths, rules, start)
        return (value * upstream).where(lengths > 0, 0.0).sum()

    assert torch.autograd.gradcheck(total, leaves, fast_mode=True)


def test_gradients_are_finite_where_nothing_can_be_parsed():
    problem = make_problem(2, 2, 4, seed=0)
    words = problem.words.flatten(0, 1)
    words[0] = -torch.inf
    words.requires_grad_()
    value = InsideOutside(problem.shape).log_likelihood(words, *problem.packed()[1:])
    assert value[0] == -torch.inf
    value[1].backward()
    assert torch.isfinite(words.grad).all()
    assert not words.grad[:4].any()


def test_five_hundred_words_do_not_underflow():
    problem = make_problem(2, 2, 500, seed=1, sentences=1, spread=3.0)
    beliefs = InsideOutside(problem.shape)(*problem.packed())
    assert torch.isfinite(beliefs.log_likelihood).all()
    torch.testing.assert_close(float(beliefs.rules.sum()), 499.0, rtol=1e-8, atol=0)
    torch.testing.assert_close(beliefs.words.sum(1), torch.ones(500, dtype=torch.float64))


@pytest.mark.parametrize("place", [0, 2, 3])
def test_scores_of_a_wrong_size_are_refused(place):
    problem = make_problem(2, 2, 4, seed=0)
    arguments = list(problem.packed())
    arguments[place] = arguments[place][:-1]
    with pytest.raises(InferenceError, match="is needed here"):
        InsideOutside(problem.shape)(*arguments)


def test_negative_lengths_are_refused():
    problem = make_problem(2, 2, 4, seed=0)
    words, _, rules, start = problem.packed()
    with pytest.raises(GraphError, match="cannot have -1 words"):
        InsideOutside(problem.shape)(words, torch.tensor([9, -1]), rules, start)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_charts_on_a_gpu_are_those_of_the_cpu(mixed):
    shape, arguments = mixed
    here = InsideOutside(shape)(*arguments)
    there = InsideOutside(shape)(*(x.cuda() for x in arguments))
    torch.testing.assert_close(there.log_likelihood.cpu(), here.log_likelihood)
    torch.testing.assert_close(there.rules.cpu(), here.rules)
    torch.testing.assert_close(there.words.cpu(), here.words)

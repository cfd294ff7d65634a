"""Inference over parses against a list of all parses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given

from mrflearn.errors import GraphError
from mrflearn.graph.chart import ChartPotentials
from mrflearn.inference import charts
from mrflearn.inference.charts import inside_outside, log_partition
from mrflearn.inference.parses import best_parses
from mrflearn.kernels.rules import RuleShape
from support.charts import all_parses, make_problem, problems


@given(problems(largest=2, longest=4))
def test_beliefs_are_those_of_all_parses(problem):
    beliefs = inside_outside(problem.potentials())
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
    torch.testing.assert_close(beliefs.log_partition, total, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(beliefs.words, words.flatten(0, 1), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(beliefs.rules, rules, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(beliefs.start, start, rtol=1e-10, atol=1e-10)
    assert beliefs.impossible.tolist() == (total == -torch.inf).nonzero()[:, 0].tolist()


@pytest.fixture(scope="module", params=["dense", "listed"])
def mixed(request):
    """Sentences of several lengths laid end to end, one of them without words."""
    problem = make_problem(3, 3, 20, seed=6, dense=request.param == "dense", sentences=1)
    lengths = torch.tensor([4, 0, 1, 7, 4, 4])
    return ChartPotentials(problem.shape, problem.words[0], lengths, problem.rules, problem.start)


def test_sentences_of_any_lengths_are_as_if_alone(mixed):
    together = inside_outside(mixed)
    assert together.impossible.tolist() == [1]
    parts = [
        inside_outside(replace(mixed, words=part, lengths=torch.tensor([len(part)])))
        for part in mixed.words.split(mixed.lengths.tolist())
    ]
    torch.testing.assert_close(torch.cat([p.words for p in parts]), together.words)
    torch.testing.assert_close(sum(p.rules for p in parts), together.rules)
    torch.testing.assert_close(sum(p.start for p in parts), together.start)
    torch.testing.assert_close(torch.cat([p.log_partition for p in parts]), together.log_partition)


def test_small_batches_change_nothing(mixed, monkeypatch):
    whole = inside_outside(mixed)
    monkeypatch.setattr(charts, "_elements", lambda words: 1)
    pieces = inside_outside(mixed)
    torch.testing.assert_close(whole.rules, pieces.rules)
    torch.testing.assert_close(whole.words, pieces.words)


def test_gradients_are_those_of_finite_differences(mixed):
    leaves = [x.clone().requires_grad_() for x in (mixed.words, mixed.rules, mixed.start)]
    upstream = torch.linspace(-1, 2, len(mixed.lengths), dtype=torch.float64)

    def total(words, rules, start):
        value = log_partition(replace(mixed, words=words, rules=rules, start=start))
        return (value * upstream).where(mixed.lengths > 0, 0.0).sum()

    assert torch.autograd.gradcheck(total, leaves, fast_mode=True)


def test_gradients_are_finite_where_nothing_can_be_parsed():
    problem = make_problem(2, 2, 4, seed=0)
    words = problem.words.flatten(0, 1)
    words[0] = -torch.inf
    words.requires_grad_()
    value = log_partition(replace(problem.potentials(), words=words))
    assert value[0] == -torch.inf
    value[1].backward()
    assert torch.isfinite(words.grad).all()
    assert not words.grad[:4].any()


def test_five_hundred_words_do_not_underflow():
    problem = make_problem(2, 2, 500, seed=1, sentences=1, spread=3.0)
    beliefs = inside_outside(problem.potentials())
    assert torch.isfinite(beliefs.log_partition).all()
    torch.testing.assert_close(float(beliefs.rules.sum()), 499.0, rtol=1e-8, atol=0)
    torch.testing.assert_close(beliefs.words.sum(1), torch.ones(500, dtype=torch.float64))


@pytest.mark.parametrize("name", ["words", "rules", "start"])
def test_scores_of_a_wrong_size_are_refused(name):
    potentials = make_problem(2, 2, 4, seed=0).potentials()
    with pytest.raises(GraphError, match="is needed here"):
        replace(potentials, **{name: getattr(potentials, name)[:-1]})


def test_negative_lengths_are_refused():
    potentials = make_problem(2, 2, 4, seed=0).potentials()
    with pytest.raises(GraphError, match="cannot have -1 words"):
        replace(potentials, lengths=torch.tensor([9, -1]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "names", [("lengths", "words", "rules", "start"), ("words", "rules", "start")]
)
def test_charts_on_a_gpu_are_those_of_the_cpu(mixed, names):
    moved = replace(mixed, **{name: getattr(mixed, name).cuda() for name in names})
    here, there = inside_outside(mixed), inside_outside(moved)
    torch.testing.assert_close(there.log_partition.cpu(), here.log_partition)
    torch.testing.assert_close(there.rules.cpu(), here.rules)
    torch.testing.assert_close(there.words.cpu(), here.words)


@pytest.mark.parametrize("dense", [True, False])
def test_a_grammar_without_phrases_has_no_longer_sentences(dense):
    none = torch.zeros(0, dtype=torch.int64)
    shape = RuleShape.full(0, 2) if dense else RuleShape(0, 2, none, none, none)
    lengths = torch.tensor([2, 1, 2])
    potentials = ChartPotentials(
        shape, torch.zeros(5, 2), lengths, torch.zeros(0), torch.zeros(2).log_softmax(0)
    )
    found = inside_outside(potentials)
    for value in (found.log_partition, log_partition(potentials)):
        assert value.tolist() == [-torch.inf, 0.0, -torch.inf]
    assert found.words.tolist() == [[0, 0], [0, 0], [0.5, 0.5], [0, 0], [0, 0]]
    assert found.start.tolist() == [0.5, 0.5]
    assert [len(parses) for parses in best_parses(potentials, 3)] == [0, 2, 0]

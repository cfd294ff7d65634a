"""Best and drawn parses against a list of all parses."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from mrflearn.errors import InferenceError
from mrflearn.inference.charts import InsideOutside, ParseSearch
from support.charts import all_parses, make_problem, problems


@settings(max_examples=30)
@given(problems(largest=2, longest=4))
def test_the_best_are_those_of_all_parses_in_order(problem):
    search = ParseSearch(problem.shape)
    found = search.best_n(*problem.packed(), count=6)
    for sentence, parses in enumerate(found):
        every = {parse.spans: parse.score for parse in all_parses(problem, sentence)}
        assert len(parses) == len({parse.spans for parse in parses}) == min(6, len(every))
        scores = sorted(every.values(), reverse=True)[:6]
        np.testing.assert_allclose([p.score for p in parses], scores, rtol=1e-10, atol=1e-10)
        for parse in parses:
            assert parse.score == pytest.approx(every[parse.spans], abs=1e-9)
    best = search.best(*problem.packed())
    assert best == [parses[0] if parses else None for parses in found]


def test_all_parses_add_up_to_the_likelihood():
    problem = make_problem(2, 2, 5, seed=3)
    every = ParseSearch(problem.shape).best_n(*problem.packed(), count=10**6)
    sums = [np.logaddexp.reduce([parse.score for parse in parses]) for parses in every]
    likelihood = InsideOutside(problem.shape).log_likelihood(*problem.packed())
    np.testing.assert_allclose(sums, likelihood, rtol=1e-10)


@pytest.mark.parametrize("dense", [True, False])
def test_parses_are_drawn_as_often_as_they_should(dense):
    problem = make_problem(2, 1, 3, seed=2, dense=dense, sentences=1)
    drawn = ParseSearch(problem.shape).sample(
        *problem.packed(), count=3000, generator=np.random.default_rng(0)
    )[0]
    total = float(InsideOutside(problem.shape).log_likelihood(*problem.packed())[0])
    seen, given = Counter(p.spans for p in drawn), {p.spans: p.score for p in drawn}
    for parse in all_parses(problem, 0):
        chance = np.exp(parse.score - total)
        error = 5 * np.sqrt(chance * (1 - chance) / 3000) + 1e-3
        assert abs(seen[parse.spans] / 3000 - chance) < error
        if parse.spans in given:
            assert given[parse.spans] == pytest.approx(np.log(chance), abs=1e-9)


def test_impossible_sentences_have_no_parse():
    problem = make_problem(2, 2, 3, seed=0)
    problem.words[1] = -torch.inf
    search = ParseSearch(problem.shape)
    assert search.best(*problem.packed())[1] is None
    drawn = search.sample(*problem.packed(), count=2, generator=np.random.default_rng(0))
    assert [len(parses) for parses in drawn] == [2, 0]


def test_sentences_keep_their_order_whatever_their_lengths():
    problem = make_problem(2, 2, 9, seed=4, sentences=1)
    lengths = torch.tensor([5, 0, 1, 3])
    found = ParseSearch(problem.shape).best(problem.words[0], lengths, problem.rules, problem.start)
    assert [parse and parse.spans[0].end for parse in found] == [5, None, 1, 3]


def test_none_best_is_refused():
    problem = make_problem(2, 2, 3, seed=0)
    with pytest.raises(InferenceError, match="1 is the least"):
        ParseSearch(problem.shape).best_n(*problem.packed(), count=0)

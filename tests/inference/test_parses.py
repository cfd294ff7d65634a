"""The best parses against a list of all parses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from mrflearn.errors import InferenceError
from mrflearn.graph.chart import ChartPotentials
from mrflearn.inference.charts import log_partition
from mrflearn.inference.parses import best_parses
from support.charts import all_parses, make_problem, problems


@given(problems(largest=2, longest=4))
def test_the_best_are_those_of_all_parses_in_order(problem):
    found = best_parses(problem.potentials(), 6)
    alone = best_parses(problem.potentials(), 1)
    for sentence, parses in enumerate(found):
        every = {parse.spans: parse.score for parse in all_parses(problem, sentence)}
        assert len(parses) == len({parse.spans for parse in parses}) == min(6, len(every))
        scores = sorted(every.values(), reverse=True)[:6]
        np.testing.assert_allclose([p.score for p in parses], scores, rtol=1e-10, atol=1e-10)
        for parse in parses:
            assert parse.score == pytest.approx(every[parse.spans], abs=1e-9)
        # Two parses by the same rules in another order are equally good but for rounding.
        assert [p.score for p in alone[sentence]] == pytest.approx(scores[:1], abs=1e-9)
        assert all(every[p.spans] == pytest.approx(p.score, abs=1e-9) for p in alone[sentence])


def test_all_parses_add_up_to_the_likelihood():
    problem = make_problem(2, 2, 5, seed=3)
    every = best_parses(problem.potentials(), 10**6)
    sums = [np.logaddexp.reduce([parse.score for parse in parses]) for parses in every]
    likelihood = log_partition(problem.potentials())
    np.testing.assert_allclose(sums, likelihood, rtol=1e-10)


def test_impossible_sentences_have_no_parse():
    problem = make_problem(2, 2, 3, seed=0)
    problem.words[1] = -torch.inf
    assert not best_parses(problem.potentials(), 1)[1]


def test_sentences_keep_their_order_whatever_their_lengths():
    problem = make_problem(2, 2, 9, seed=4, sentences=1)
    lengths = torch.tensor([5, 0, 1, 3])
    words = problem.words[0, : int(lengths.sum())]
    potentials = ChartPotentials(problem.shape, words, lengths, problem.rules, problem.start)
    found = best_parses(potentials, 1)
    assert [best[0].spans[0].end if best else None for best in found] == [5, None, 1, 3]


def test_none_best_is_refused():
    problem = make_problem(2, 2, 3, seed=0)
    with pytest.raises(InferenceError, match="1 is the least"):
        best_parses(problem.potentials(), 0)

"""A grammar of counts: probabilities, and EM that never falls."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrflearn.inference.charts import inside_outside, log_partition
from mrflearn.io.corpus import Vocabulary
from mrflearn.models.pcfg import GrammarModel, sample_trees
from support.charts import normalised

WORDS = ("<S>", "<unk>", "a", "b", "c")


def make_model(seed, *, dense=True, going_on=0.4):
    shape, rules, start, emission = normalised(3, 3, 5, seed=seed, going_on=going_on, dense=dense)
    names = ("S", "X", "Y"), ("p", "q", "r")
    words = emission.t().clone()
    words[0] = -torch.inf
    return GrammarModel(*names, Vocabulary(WORDS), shape, rules, start, words.log_softmax(0))


def em_step(model, sentences):
    potentials = model.potentials(sentences)
    beliefs = inside_outside(potentials)
    ids = torch.tensor([WORDS.index(word) for words in sentences for word in words])
    words = torch.zeros_like(model.words).index_add_(0, ids, beliefs.words)
    parent, tags = model.shape.parent, words.sum(dim=0)
    total = torch.zeros(3, dtype=torch.float64).index_add_(0, parent, beliefs.rules)[parent]
    better = replace(
        model,
        rules=torch.where(total > 0, (beliefs.rules / total).log(), model.rules),
        start=(beliefs.start / beliefs.start.sum()).log(),
        words=torch.where(tags > 0, (words / tags).log(), model.words),
    )
    return float(beliefs.log_partition.sum()), better


sentences = st.lists(
    st.lists(st.sampled_from(WORDS[1:]), min_size=1, max_size=5), min_size=1, max_size=4
)


@settings(max_examples=20)
@given(st.integers(0, 1000), sentences)
def test_likelihood_never_falls_in_em(seed, text):
    model, values = make_model(seed), []
    for _ in range(4):
        value, model = em_step(model, text)
        values.append(value)
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(values))
    total = torch.zeros(3, dtype=torch.float64).index_add_(0, model.shape.parent, model.rules.exp())
    torch.testing.assert_close(total, torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(model.words.exp().sum(0), torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("dense", [True, False])
def test_drawn_trees_are_as_frequent_as_they_are_probable(dense):
    model = make_model(3, dense=dense, going_on=0.1)
    drawn = islice(sample_trees(model, np.random.default_rng(0), 50), 3000)
    pairs = [words for tree in drawn if len(words := tree.words) == 2]
    strings = [[a, b] for a in WORDS[1:] for b in WORDS[1:]]
    chances = log_partition(model.potentials(strings)).exp()
    for string, chance in zip(strings, chances.tolist(), strict=True):
        seen = pairs.count(tuple(string)) / 3000
        assert abs(seen - chance) < 5 * np.sqrt(chance / 3000) + 1e-3


def test_trees_that_grow_too_long_are_drawn_again():
    trees = sample_trees(make_model(1, going_on=5.0), np.random.default_rng(0), 4)
    assert all(len(tree.words) <= 4 for tree in islice(trees, 50))

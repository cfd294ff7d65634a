"""Samples of fields, and what is said of how they were made."""

from __future__ import annotations

import re

import torch

from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import random_ising
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.inference.sampling import Drawing, Gibbs

WIDE = Drawing(JunctionTree(memory_limit=1), Gibbs(burn_in=50, chains=20, thin=2))
FIELD = random_ising(grid(3, 3), scale=0.3, seed=4)


def test_a_narrow_field_is_sampled_exactly() -> None:
    drawn = Drawing()(FIELD, 50, seed=1)
    assert drawn.method == "exact (junction tree)"
    assert torch.equal(drawn.samples, Drawing()(FIELD, 50, seed=1).samples)


def test_draws_of_chains_say_what_they_are_worth() -> None:
    drawn = WIDE(FIELD, 2000, seed=1)
    assert drawn.samples.shape == (2000, 9)
    found = re.search(r"R-hat ([0-9.]+), worth ([0-9,]+) independent draws", drawn.method)
    assert found is not None
    assert float(found[1]) < 1.05
    assert 500 < int(found[2].replace(",", "")) <= 2000


def test_a_handful_of_draws_says_nothing_of_its_worth() -> None:
    drawn = WIDE(FIELD, 7, seed=1)
    assert drawn.samples.shape == (7, 9)
    assert "burn-in: the field is too wide to sample exactly" in drawn.method

"""The published double loop ends where the joint search ends, after more passes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mrflearn.features.moments import lattice_moments
from mrflearn.inference.lifted import Stars
from mrflearn.models.lifted import NeighbourModel
from mrflearn.objectives.lifted import LiftedLikelihood, WordFrequencies
from mrflearn.training.lbfgs import LBFGS
from support.experiments import experiment_module
from support.functions import minimise

AlternatingBound = experiment_module("lifted_lm", "alternating_bound").AlternatingBound


@pytest.mark.parametrize("inner", ["subgradient", "lbfgs"])
def test_both_loops_find_the_same_bound(inner):
    ring = torch.randint(3, (600,), generator=torch.Generator().manual_seed(1)).numpy()
    ring[1::3] = ring[::3]
    moments = lattice_moments(ring, offsets=((1,), (2,)))
    model = NeighbourModel(torch.zeros(3).double(), {"table": torch.zeros(2, 3, 3).double()})
    frequencies = WordFrequencies.of(moments, model.unary)
    search = LBFGS(max_iterations=60, tolerance=1e-7, delta=None)
    both = replace(model, duals=torch.zeros(2, 3).double())
    joint = LiftedLikelihood(both, None, frequencies, Stars())
    expected = minimise(joint, joint.start, search)
    loop = AlternatingBound(model, frequencies, inner=inner, steps=60)
    found = minimise(loop, loop.start, LBFGS(max_iterations=25, tolerance=1e-6))
    assert found.value == pytest.approx(expected.value, abs=1e-4)
    assert loop.passes > expected.evaluations

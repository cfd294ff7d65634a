from __future__ import annotations

import itertools
import math

import pytest
import torch

from mrflearn.errors import GraphError
from mrflearn.graph.builders import chain, complete, grid
from mrflearn.graph.gauges import ising, ising_parameters, random_ising
from mrflearn.graph.potentials import DenseTable, Potentials
from support.fields import random_field

# Exact values by transfer matrix and junction tree of two independent programs.
LOG_PARTITION = {
    (2, 1.0): 4.539833715963619,
    (3, 1.0): 10.476931169161162,
    (4, 1.0): 16.632677720058343,
    (2, 0.5): 3.929140051368388,
    (3, 0.5): 8.488951841907342,
    (4, 0.5): 14.721949421159193,
}


def every_assignment(graph) -> torch.Tensor:
    choices = [range(int(n)) for n in graph.states]
    return torch.tensor(list(itertools.product(*choices)))


@pytest.mark.parametrize(("side", "scale"), LOG_PARTITION)
def test_random_ising_has_the_published_log_partition(side, scale):
    field = random_ising(grid(side, side), scale=scale, seed=0)
    value = field.score(every_assignment(field.graph)).logsumexp(dim=0)
    assert math.isclose(float(value), LOG_PARTITION[side, scale], rel_tol=1e-12)


def test_state_0_is_the_spin_minus_one():
    field = ising(chain(2), torch.tensor([1.0, 10.0]), torch.tensor([100.0]))
    scores = field.score(every_assignment(field.graph)).squeeze(1)
    assert scores.tolist() == [89.0, -91.0, -109.0, 111.0]


def test_ising_parameters_of_any_binary_field_keep_every_score():
    graph = complete(4)
    generator = torch.Generator().manual_seed(3)
    tables = [torch.randn(4, 2, generator=generator), torch.randn(6, 2, 2, generator=generator)]
    field = Potentials(graph, tuple(DenseTable(table.double()) for table in tables))
    spin = ising_parameters(field)
    states = every_assignment(graph)
    rebuilt = ising(graph, spin.fields, spin.couplings)
    assert torch.allclose(field.score(states), rebuilt.score(states) + spin.constant)


def test_tied_parameters_are_one_a_table():
    field = ising(grid(2, 2, tied=True), torch.tensor([0.5]), torch.tensor([2.0]))
    assert ising_parameters(field).couplings.tolist() == [2.0] * 4
    assert ising_parameters(field).fields.tolist() == [0.5] * 4


def test_spins_need_two_states_and_the_lattice_groups():
    with pytest.raises(GraphError, match="two states"):
        ising_parameters(random_field(0, states=(3, 3), scopes=((0,), (1,), (0, 1))))
    with pytest.raises(GraphError, match="groups 'unary' and 'pairwise'"):
        random_ising(grid(1, 2, states=[2, 3]))

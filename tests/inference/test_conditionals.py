from __future__ import annotations

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.graph.builders import chimera, complete, cube, grid
from mrflearn.graph.potentials import Potentials
from mrflearn.inference.sampling import Conditionals, colouring, draw
from support.brute_force import all_assignments
from support.fields import fields, random_field, tiny_batch


@given(field=fields(), seed=st.integers(0, 1000))
def test_scores_given_the_others_are_differences_of_scores(field: Potentials, seed: int) -> None:
    graph, conditionals = field.graph, Conditionals.of(field)
    every = all_assignments(field)
    pick = torch.randint(len(every), (3,), generator=torch.Generator().manual_seed(seed))
    states = every[pick].T.contiguous()
    torch.testing.assert_close(conditionals.score(states), field.score(states.T).T)
    covered = torch.cat([colour.variables for colour in conditionals.colours])
    assert sorted(covered.tolist()) == list(range(graph.variables))
    for colour in conditionals.colours:
        probability = torch.softmax(colour.scores(states), 0)
        for k, v in enumerate(colour.variables.tolist()):
            moved = states.T.repeat(int(graph.states[v]), 1, 1)
            moved[:, :, v] = torch.arange(int(graph.states[v])).unsqueeze(1)
            expected = torch.softmax(field.score(moved).squeeze(-1), 0)
            # A factor elsewhere may be violated whatever v does; then its states tie at -inf.
            possible = ~expected.isnan()
            found = probability[: len(moved), k][possible]
            torch.testing.assert_close(found, expected[possible], atol=1e-7, rtol=1e-6)


def test_components_are_scored_apart() -> None:
    field = tiny_batch(2)
    states = torch.tensor([[0, 1, 1, 1, 2, 0, 0, 0, 1]]).T
    found = Conditionals.of(field).score(states)
    torch.testing.assert_close(found, field.score(states.T).T)


def test_graphs_without_odd_cycles_take_two_colours() -> None:
    for graph in (grid(5, 7), cube(3, 4, 5), chimera(2, 3, 4)):
        colours = colouring(graph)
        assert int(colours.max()) == 1
        a, b = colours[graph.groups[1].scope].T
        assert bool((a != b).all())
    assert colouring(complete(6)).sort().values.tolist() == list(range(6))


def test_draws_follow_the_scores() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.tensor([-torch.inf, 0.0, 1.0, -torch.inf]).double().reshape(4, 1, 1)
    drawn = draw(scores.expand(4, 1, 20000), torch.zeros(1, 20000, dtype=torch.int64), generator)
    share = torch.bincount(drawn.flatten(), minlength=4) / 20000
    expected = torch.softmax(scores.flatten(), 0).float()
    torch.testing.assert_close(share, expected, atol=0.015, rtol=0)
    assert share[0] == share[3] == 0
    dead = torch.full((4, 1, 5), -torch.inf)
    assert draw(dead, torch.full((1, 5), 2), generator).tolist() == [[2] * 5]


def test_tables_are_laid_out_once_for_every_axis() -> None:
    # Each of 12 colours reads a few of the tables: copies of all would be 24 times as many.
    field = random_field(0, states=(3,) * 12, scopes=tuple(itertools.combinations(range(12), 2)))
    colours = Conditionals.of(field).colours
    assert len(colours) == 12
    held = sum(facet.rows.numel() for colour in colours for facet in colour.facets)
    assert held == 2 * field.tables[0].dense().numel()

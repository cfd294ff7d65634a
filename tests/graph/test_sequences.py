from __future__ import annotations

import pytest
import torch

from mrflearn.errors import GraphError
from mrflearn.graph.builders import chain, chains, factorial_chain, skip_chain
from mrflearn.graph.factor_graph import disjoint_union


def scopes(graph):
    return {group.name: group.scope.tolist() for group in graph.groups}


def test_chain_joins_neighbours():
    assert scopes(chain(3, 5)) == {"unary": [[0], [1], [2]], "pairwise": [[0, 1], [1, 2]]}


@pytest.mark.parametrize("lengths", [[3], [1, 4, 2], [0, 2, 0, 1, 0], [0], [1]])
def test_a_batch_of_chains_is_the_union_of_chains(lengths):
    batch, union = chains(lengths, 3), disjoint_union([chain(n, 3) for n in lengths])
    assert scopes(batch) == scopes(union)
    assert batch.component.tolist() == union.component.tolist()
    assert batch.components == union.components == len(lengths)


def test_tied_chains_share_one_table():
    batch = chains([2, 3], 4, tied=True)
    assert all(group.table.unique().tolist() == [0] for group in batch.groups)


def test_factorial_chain_couples_adjacent_layers():
    graph = factorial_chain(2, [2, 3, 4])
    assert graph.states.tolist() == [2, 3, 4, 2, 3, 4]
    assert scopes(graph) == {
        "unary 0": [[0], [3]],
        "unary 1": [[1], [4]],
        "unary 2": [[2], [5]],
        "pairwise 0": [[0, 3]],
        "pairwise 1": [[1, 4]],
        "pairwise 2": [[2, 5]],
        "cotemporal 0,1": [[0, 1], [3, 4]],
        "cotemporal 1,2": [[1, 2], [4, 5]],
    }


def test_factorial_chain_couples_chosen_layers():
    names = [group.name for group in factorial_chain(2, [2, 2, 2], coupled=[(0, 2)]).groups]
    assert names[-1] == "cotemporal 0,2"
    assert len(names) == 7


def test_factorial_chain_names_the_layer_that_is_missing():
    with pytest.raises(GraphError, match="layers 0 and 3 cannot be coupled"):
        factorial_chain(2, [2, 2], coupled=[(0, 3)])


def test_skip_chain_adds_its_edges():
    graph = skip_chain(4, 2, [(0, 3), (1, 3)])
    assert scopes(graph)["skip"] == [[0, 3], [1, 3]]
    assert scopes(skip_chain(4, 2, []))["skip"] == []


def test_skip_beyond_the_end_is_refused():
    with pytest.raises(GraphError, match=r"reads variable 9\b"):
        skip_chain(4, 2, [(0, 9)])


def test_negative_lengths_are_refused():
    with pytest.raises(GraphError, match="from 0 on"):
        chains(torch.tensor([2, -1]), 3)

from __future__ import annotations

import pytest
import torch

from mrflearn.errors import GraphError
from mrflearn.graph.builders import chain, chains
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


def test_negative_lengths_are_refused():
    with pytest.raises(GraphError, match="from 0 on"):
        chains(torch.tensor([2, -1]), 3)

from __future__ import annotations

import pytest
import torch

from mrflearn.errors import GraphError
from mrflearn.graph.contacts import average_product_corrected, contact_scores, strongest_pairs


def test_scores_are_those_of_the_formulas_entry_by_entry() -> None:
    generator = torch.Generator().manual_seed(0)
    variables, states = 5, 4
    edges = torch.triu_indices(variables, variables, 1).t()
    couplings = torch.randn(len(edges), states, states, generator=generator)
    norms = torch.zeros(variables, variables, dtype=torch.float64)
    for (i, j), table in zip(edges.tolist(), couplings.double(), strict=True):
        norm = 0.0
        for a in range(1, states):
            for b in range(1, states):
                centred = table[a, b] - table[a].mean() - table[:, b].mean() + table.mean()
                norm += float(centred) ** 2
        norms[i, j] = norms[j, i] = norm**0.5
    expected = torch.zeros_like(norms)
    for i, j in edges.tolist():
        product = norms[i].mean() * norms[j].mean() / norms.mean()
        expected[i, j] = expected[j, i] = norms[i, j] - product
    off = ~torch.eye(variables, dtype=torch.bool)
    expected[off] -= expected[off].min()
    torch.testing.assert_close(contact_scores(edges, couplings, variables), expected)


def test_a_gauge_changes_no_score() -> None:
    edges = torch.triu_indices(4, 4, 1).t()
    couplings = torch.randn(6, 3, 3, generator=torch.Generator().manual_seed(1)).double()
    moved = couplings + torch.arange(3.0).unsqueeze(1) + torch.tensor([5.0, 0, -2])
    torch.testing.assert_close(contact_scores(edges, moved, 4), contact_scores(edges, couplings, 4))


def test_no_couplings_have_no_contacts() -> None:
    assert not average_product_corrected(torch.zeros(4, 4)).any()
    with pytest.raises(GraphError, match="at least 3"):
        contact_scores(torch.tensor([[0, 1]]), torch.zeros(1, 2, 2), 2)


def test_strongest_pairs_stand_apart_and_in_order() -> None:
    scores = torch.zeros(6, 6)
    scores[0, 1], scores[0, 4], scores[1, 5], scores[0, 5] = 9, 2, 3, 1
    assert strongest_pairs(scores + scores.t(), 3, apart=4).tolist() == [[1, 5], [0, 4], [0, 5]]

from __future__ import annotations

import gc
import weakref

import torch

from mrflearn.graph.builders import chains, grid
from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.inference.chain import Chain, plan_or_reason


def test_the_component_that_is_not_a_path_is_named():
    edges = torch.tensor([[0, 1], [2, 3], [3, 4], [4, 2]])
    graph = FactorGraph(
        torch.full((5,), 2), (FactorGroup("pairs", edges),), torch.tensor([0, 0, 1, 1, 1])
    )
    assert "component 1 is not a path: variable 2 is on a cycle" in Chain().refuses(graph)


def test_a_long_shuffled_path_is_found():
    order = torch.randperm(3000, generator=torch.Generator().manual_seed(1))
    edges = torch.stack([order[:-1], order[1:]], dim=1)
    plan = plan_or_reason(FactorGraph(torch.full((3000,), 2), (FactorGroup("pairs", edges),)))
    walked = plan.steps.source
    assert torch.equal(walked, order) or torch.equal(walked, order.flip(0))


def test_a_row_of_a_grid_is_a_chain():
    assert Chain().refuses(grid(1, 5)) is None
    assert Chain().refuses(grid(2, 5)) is not None


def test_only_one_table_in_one_sense_is_shared():
    assert plan_or_reason(chains([3, 2], 2, tied=True)).shared == 1
    assert plan_or_reason(chains([3, 2], 2)).shared is None
    backwards = FactorGroup.tied("pairs", torch.tensor([[0, 1], [2, 1]]))
    assert plan_or_reason(FactorGraph(torch.full((3,), 2), (backwards,))).shared is None


def test_a_plan_is_remembered_while_its_graph_lives():
    graph = chains([3, 2], 2)
    assert graph.planned(plan_or_reason) is graph.planned(plan_or_reason)
    plan = weakref.ref(plan_or_reason(graph))
    del graph
    gc.collect()
    assert plan() is None

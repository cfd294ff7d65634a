"""Connected parts of graphs, against networkx."""

from __future__ import annotations

import networkx as nx
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.graph.factor_graph import FactorGraph, FactorGroup
from mrflearn.graph.parts import connected_parts


@given(st.integers(1, 9), st.data())
def test_parts_are_those_of_networkx(count: int, data: st.DataObject) -> None:
    variable = st.integers(0, count - 1)
    groups, joined = [], nx.empty_graph(count)
    for arity in range(1, min(count, 3) + 1):
        scopes = data.draw(
            st.lists(st.lists(variable, min_size=arity, max_size=arity, unique=True), max_size=4)
        )
        scope = torch.tensor(scopes, dtype=torch.int64).reshape(-1, arity)
        groups.append(FactorGroup(f"of {arity}", scope))
        for own in scopes:
            nx.add_path(joined, own)
    found = connected_parts(FactorGraph(torch.full((count,), 2), tuple(groups))).tolist()
    expected = [0] * count
    for number, part in enumerate(sorted(nx.connected_components(joined), key=min)):
        for own in part:
            expected[own] = number
    assert found == expected

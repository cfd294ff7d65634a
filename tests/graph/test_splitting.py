from __future__ import annotations

import pytest
import torch

from mrflearn.graph.builders import chain
from mrflearn.graph.evidence import restrict
from mrflearn.graph.parts import split_nodes
from mrflearn.inference.enumeration import Enumeration
from support.fields import tiny_field


def test_each_piece_has_its_own_copy_of_a_variable() -> None:
    graph = chain(3, 2)  # groups "unary" (3) and "pairwise" (2)
    split, origin = split_nodes(graph, [torch.tensor([0, 0, 1]), torch.tensor([0, 1])])
    assert origin.tolist() == [0, 1, 1, 2]
    assert split.component.tolist() == [0, 0, 1, 1]
    assert split.groups[1].scope.tolist() == [[0, 1], [2, 3]]
    assert split.groups[0].scope.tolist() == [[0], [1], [3]]


def test_restricted_fields_sum_over_what_is_allowed() -> None:
    field = tiny_field("chain", 2)
    allowed = field.graph.legal()
    allowed[1, 1:] = False
    beliefs = Enumeration()(restrict(field, allowed))
    assert float(beliefs.variables[1, 0]) == pytest.approx(1.0)
    free = Enumeration()(field)
    assert float((beliefs.log_partition - free.log_partition).exp()) == pytest.approx(
        float(free.variables[1, 0])
    )

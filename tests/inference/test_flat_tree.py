"""Small trees on flat arrays, and batches of cliques: both are what enumeration is."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.graph.builders import grid
from mrflearn.graph.factor_graph import FactorGraph
from mrflearn.graph.gauges import random_ising
from mrflearn.graph.potentials import Potentials, dense_potentials
from mrflearn.inference import flat_tree, junction_tree
from mrflearn.inference.beliefs import Beliefs
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.flat_tree import make_flat_tree
from mrflearn.inference.junction_tree import JunctionTree
from support.fields import SHAPES, fields, tiny_batch, tiny_field


def same(found: Beliefs, expected: Beliefs) -> None:
    torch.testing.assert_close(found.log_partition, expected.log_partition, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.variables, expected.variables, rtol=0, atol=1e-9)
    for one, other in zip(found.factors, expected.factors, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def by_batches(field: Potentials) -> Beliefs:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(junction_tree, "make_flat_tree", _none)
        return JunctionTree()(field)


def _none(graph: FactorGraph) -> None:
    return None


@given(fields())
def test_both_are_what_enumeration_is(field: Potentials) -> None:
    expected = Enumeration()(field)
    same(by_batches(field), expected)
    flat = make_flat_tree(field.graph)
    assert flat is not None
    same(flat.beliefs(field), expected)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
def test_every_shape(name: str, forbidden: float) -> None:
    field = tiny_field(name, 1, forbidden=forbidden)
    same(by_batches(field), Enumeration()(field))
    same(JunctionTree()(field), Enumeration()(field))


def test_components_of_a_batch() -> None:
    same(by_batches(tiny_batch()), Enumeration()(tiny_batch()))
    same(JunctionTree()(tiny_batch()), Enumeration()(tiny_batch()))


def test_a_larger_grid() -> None:
    field = random_ising(grid(9, 9), scale=1.0, seed=0)
    assert make_flat_tree(field.graph) is not None
    same(JunctionTree()(field), by_batches(field))


@given(st.integers(0, 20))
def test_what_linear_arithmetic_cannot_hold_is_left_to_logarithms(seed: int) -> None:
    """Factors of 200 nats each, whose products underflow, and one of 800."""
    generator = torch.Generator().manual_seed(seed)
    tables = 200 * torch.rand(6, 2, 2, generator=generator, dtype=torch.float64)
    chain = dense_potentials([2] * 7, [((i, i + 1), tables[i]) for i in range(6)])
    same(JunctionTree()(chain), Enumeration()(chain))
    deep = dense_potentials([2], [([0], [0.0, -800.0])])
    flat = make_flat_tree(deep.graph)
    assert flat is not None
    with pytest.raises(FloatingPointError):
        flat.beliefs(deep)
    assert float(JunctionTree()(deep).log_partition) == pytest.approx(0)


def test_large_graphs_are_none_of_its_business(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_flat_tree(grid(1, flat_tree.MOST_CLIQUES + 1)) is None
    monkeypatch.setattr(flat_tree, "MOST_ENTRIES", 100)
    assert make_flat_tree(grid(5, 5)) is None
    assert make_flat_tree(grid(2, 2)) is not None

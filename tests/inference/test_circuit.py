"""A compiled field answers as the junction tree does when asked anew."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import GraphError, InferenceError
from mrflearn.graph.evidence import condition
from mrflearn.graph.potentials import Potentials, dense_potentials
from mrflearn.inference import circuit
from mrflearn.inference.compiled_field import CompiledField
from mrflearn.inference.enumeration import Enumeration
from mrflearn.inference.junction_tree import JunctionTree
from support.brute_force import all_assignments, all_probabilities
from support.fields import SHAPES, fields, tiny_batch, tiny_field


def check(field: Potentials, compiled: CompiledField, evidence: list[dict[int, int]]) -> None:
    found = compiled.ask(evidence)
    for k, own in enumerate(evidence):
        expected = Enumeration()(condition(field, own))
        assert found.log_partition[k].tolist() == pytest.approx(
            expected.log_partition.tolist(), rel=1e-9, abs=1e-9
        )
        torch.testing.assert_close(found.variables[k], expected.variables, rtol=0, atol=1e-9)


@given(fields(), st.data())
def test_answers_are_those_of_enumeration(field: Potentials, data: st.DataObject) -> None:
    states = field.graph.states.tolist()
    pairs = [st.tuples(st.just(v), st.integers(0, n - 1)) for v, n in enumerate(states)]
    own = st.lists(st.one_of(pairs), max_size=3).map(dict)
    check(field, CompiledField(field), data.draw(st.lists(own, min_size=1, max_size=3)))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("limit", [0, 2**22], ids=["junction tree", "circuit"])
def test_both_ways_to_answer_agree(name: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuit, "MOST_ENTRIES", limit)
    field = tiny_field(name, 3, forbidden=0.2)
    compiled = CompiledField(field)
    assert compiled.circuit is None or limit
    check(field, compiled, [{}, {0: 0}, {0: int(field.graph.states[0]) - 1}])


def test_every_component_of_a_batch_has_its_own_log_z() -> None:
    field = tiny_batch()
    check(field, CompiledField(field), [{}, {0: 1, 4: 2}])


def test_impossible_entries_are_left_out() -> None:
    """Of a chain in which every variable copies the one before, two assignments are possible."""
    same = torch.tensor([[0.0, -math.inf], [-math.inf, 0.0]])
    field = dense_potentials([2] * 9, [([i, i + 1], same) for i in range(8)])
    compiled = CompiledField(field)
    assert compiled.circuit is not None
    assert len(compiled.circuit.leaf) <= 2 * 9
    assert compiled.ask({3: 1}).variables[0, :, 1].tolist() == [1.0] * 9
    assert compiled.ask({3: 1, 4: 0}).log_partition.tolist() == [[-math.inf]]


def test_what_leaves_double_precision_is_answered_by_logarithms() -> None:
    """A state that is e^-800 times as likely as the other, twice, until evidence decides."""
    field = dense_potentials(
        [2, 2, 2],
        [([0], [0.0, -800.0]), ([0, 1], [[0.0, -800.0], [0.0, 3.0]]), ([1, 2], torch.zeros(2, 2))],
    )
    check(field, CompiledField(field), [{}, {0: 1}, {1: 1}, {0: 1, 1: 1}])


def test_joint_probabilities_are_those_of_enumeration() -> None:
    field = tiny_field("square with chord", 5)
    table = all_probabilities(field).view(2, 3, 2, 2)
    compiled = CompiledField(field)
    torch.testing.assert_close(compiled.joint([2, 1]), table.sum((0, 3)).T)
    expected = table[:, 1].sum(2)
    torch.testing.assert_close(compiled.joint([0, 2], {1: 1}), expected / expected.sum())
    torch.testing.assert_close(compiled.joint([1], {1: 1}), torch.tensor([0.0, 1, 0]).double())


def test_best_and_samples_agree_with_evidence() -> None:
    field = tiny_field("grid 2x3", 2)
    compiled = CompiledField(field)
    scores = field.score(all_assignments(field)).squeeze(-1)
    agrees = all_assignments(field)[:, 4] == 1
    best = compiled.best({4: 1})
    assert float(best.score) == pytest.approx(float(scores[agrees].max()))
    assert best.assignment[4] == 1
    drawn = compiled.sample(3000, {4: 1}, seed=0)
    assert (drawn[:, 4] == 1).all()
    expected = compiled.ask({4: 1}).variables[0, :, 1]
    # Five standard errors of a mean of 3000 draws.
    assert (drawn.double().mean(0) - expected).abs().max() < 5 * math.sqrt(0.25 / 3000)


def test_what_cannot_be_asked_is_refused() -> None:
    compiled = CompiledField(tiny_field("chain"))
    with pytest.raises(GraphError, match="7"):
        compiled.ask({7: 0})
    for wrong in ([1, 1], list(range(4)) * 9):
        with pytest.raises(InferenceError, match="different"):
            compiled.joint(wrong)
    wide = dense_potentials(
        [2] * 40, [(range(20), torch.zeros((2,) * 20)), (range(20, 40), torch.zeros((2,) * 20))]
    )
    with pytest.raises(InferenceError, match="memory"):
        CompiledField(wide, JunctionTree(memory_limit=2**10))

"""Anytime inference and conditioning: exact or within bounds, and never wider than allowed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from mrflearn.errors import InferenceError
from mrflearn.graph import grid, random_ising
from mrflearn.graph.potentials import Potentials
from mrflearn.graph.splitting import Limit
from mrflearn.inference import Anytime, Enumeration, JunctionTree
from mrflearn.inference.beliefs import Beliefs
from mrflearn.inference.conditioning import conditioned_sums, find_cutset
from support.fields import SHAPES, random_field, tiny_field


def conditioned(field: Potentials, width: int) -> Beliefs:
    cutset = find_cutset(field.graph, Limit(width + 1, 30.0))
    assert cutset is not None
    assert cutset.plan.elimination.width <= max(width, 1)
    *_, (cells, found) = conditioned_sums(field, cutset, 2**28)
    assert cells == cutset.cells
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("forbidden", [0.0, 0.25])
def test_conditioning_is_exact(shape: str, forbidden: float) -> None:
    field = tiny_field(shape, seed=4, scale=2.0, forbidden=forbidden)
    if len(field.graph.states) == 0:
        return
    found, truth = conditioned(field, 1), Enumeration()(field)
    torch.testing.assert_close(found.log_partition, truth.log_partition)
    torch.testing.assert_close(found.variables, truth.variables)
    for ours, theirs in zip(found.factors, truth.factors, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_sums_over_a_cutset_grow_to_log_z(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrflearn.inference.conditioning.TOGETHER", 3)
    states, scopes = (2, 3, 2, 4, 3), tuple((i, j) for i in range(5) for j in range(i))
    field = random_field(2, states=states, scopes=scopes, scale=2.0)
    cutset = find_cutset(field.graph, Limit(2, 30.0))
    assert cutset is not None
    values = [float(found.log_partition) for _, found in conditioned_sums(field, cutset, 2**28)]
    assert len(values) == -(-cutset.cells // 3)
    assert values == sorted(values)
    assert values[-1] == pytest.approx(float(Enumeration()(field).log_partition))


def test_narrow_fields_are_exact_and_wide_ones_conditioned() -> None:
    field = random_ising(grid(5, 5), scale=2.0, seed=1)
    truth = JunctionTree()(field)
    for width in (None, 3):
        found = Anytime(seconds=60.0, max_width=width)(field)
        assert found.kind == "exact"
        assert found.width is not None
        assert width is None or found.width <= width
        torch.testing.assert_close(found.log_partition, truth.log_partition)
        torch.testing.assert_close(found.variables, truth.variables, atol=1e-9, rtol=0.0)
        assert torch.equal(found.lower, found.upper)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(2))
def test_every_answer_lies_within_bounds_that_tighten(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrflearn.inference.conditioning.MOST_CELLS", 1)  # no conditioning
    field = random_ising(grid(8, 8), scale=2.0, seed=seed)
    truth = float(JunctionTree()(field).log_partition)
    before = (-float("inf"), float("inf"))
    for found in Anytime(seconds=1.0, max_width=4).improving(field):
        assert found.kind == "estimate in bounds"
        lower, upper = float(found.lower.sum()), float(found.upper.sum())  # type: ignore[union-attr]
        assert lower <= truth <= upper
        assert lower <= float(found.log_partition) <= upper
        assert lower >= before[0]
        assert upper <= before[1]
        before = lower, upper


def test_interruption_gives_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([tiny_answer(0.0), tiny_answer(1.0)])

    def improving(self: Anytime, potentials: Potentials) -> Iterator[Beliefs]:
        yield from answers
        raise KeyboardInterrupt

    monkeypatch.setattr(Anytime, "improving", improving)
    field = tiny_field("pair", seed=0)
    assert float(Anytime()(field).log_partition) == 1.0
    with pytest.raises(KeyboardInterrupt):
        Anytime()(field)


def tiny_answer(value: float) -> Beliefs:
    log_z = torch.tensor([value], dtype=torch.float64)
    return Beliefs(log_z, torch.zeros(2, 2), (), "estimate in bounds", lower=log_z, upper=log_z)


def test_settings_that_mean_nothing_are_refused() -> None:
    for wrong in ({"seconds": 0.0}, {"max_width": 0}):
        with pytest.raises(InferenceError):
            Anytime(**wrong)  # type: ignore[arg-type]

"""Plans take every factor in once, where all its variables meet."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from mrflearn.graph import elimination
from mrflearn.graph.elimination import EliminationPlan, EliminationStructure, make_plan


def dense(states: tuple[int, ...]) -> EliminationStructure:
    pairs = [(i, j) for i in range(len(states)) for j in range(len(states)) if i != j]
    return EliminationStructure(states, tuple(pairs))


@given(states=st.lists(st.integers(1, 4), min_size=1, max_size=6).map(tuple))
def test_every_factor_is_in_one_pack_of_the_step_of_its_first_variable(
    states: tuple[int, ...],
) -> None:
    structure = dense(states)
    plan = make_plan(structure)
    assert isinstance(plan, EliminationPlan)
    seen = []
    for k, step in enumerate(plan.steps):
        assert step.axes[0] == k
        for axes, members in step.packs:
            assert axes[0] == k
            assert set(axes) <= set(step.axes)
            for factor in members:
                seen.append(factor)
                assert set(plan.factor_axes[factor]) <= set(axes)
                assert plan.factor_axes[factor][0] == k
    assert sorted(seen) == list(range(len(structure.scopes)))


def test_packs_stay_small_beside_their_clique() -> None:
    plan = make_plan(dense((2,) * 18))
    assert isinstance(plan, EliminationPlan)
    first = plan.steps[0]
    assert len(first.packs) > 1
    for axes, _ in first.packs:
        assert 2 ** len(axes) <= max(elimination.PACK, prod(first.sizes) // 32)


def test_axes_of_a_factor_are_brought_into_the_order_of_elimination() -> None:
    structure = EliminationStructure((2, 1, 3), ((2, 1, 0), (1,)))
    plan = make_plan(structure)
    assert isinstance(plan, EliminationPlan)
    place = {variable: k for k, variable in enumerate(plan.elimination.order)}
    for scope, order in zip(structure.scopes, plan.orders, strict=True):
        places = [place[scope[i]] for i in order]
        assert places == sorted(places)
    assert plan.factor_axes[0] == tuple(sorted((place[0], place[2])))
    assert plan.factor_axes[1] == (place[1],)


def test_memory_counts_messages_and_packs() -> None:
    plan = make_plan(EliminationStructure((50, 50), ((0, 1),)))
    assert isinstance(plan, EliminationPlan)
    assert plan.entries >= 50 * 50 + 50

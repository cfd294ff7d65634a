"""Products and sums of labelled tables against einsum, which knows nothing of runs or unrolling."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.kernels import table_algebra
from mrflearn.kernels.table_algebra import (
    LOG_MAX_PRODUCT,
    LOG_SUM_PRODUCT,
    SUM_PRODUCT,
    multiply,
    sum_out,
)

COPIES = 50  # the label that einsum gives to the last axis


@st.composite
def table_lists(draw: st.DrawFn) -> tuple[list[tuple[torch.Tensor, tuple[int, ...]]], tuple, tuple]:
    """Some tables that have all axes between them, the axes, and their sizes."""
    count = draw(st.integers(1, 5))
    axes = tuple(sorted(draw(st.sets(st.integers(0, 20), min_size=count, max_size=count))))
    sizes = tuple(draw(st.sampled_from([1, 2, 2, 3, 9])) for _ in axes)
    copies = draw(st.sampled_from([1, 1, 3]))
    subsets = draw(st.lists(st.sets(st.sampled_from(axes)), min_size=1, max_size=4))
    subsets.append(set(axes) - set().union(*subsets))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    size = dict(zip(axes, sizes, strict=True))
    tables = []
    for subset in subsets:
        present = tuple(sorted(subset))
        shape = (*(size[axis] for axis in present), copies)
        tables.append((torch.rand(shape, generator=generator, dtype=torch.float64), present))
    return tables, axes, sizes


def by_einsum(tables: list, keep: tuple[int, ...]) -> torch.Tensor:
    operands = []
    for values, present in tables:
        operands += [values, [*present, COPIES]]
    return torch.einsum(*operands, [*keep, COPIES])


@pytest.fixture(params=[False, True], ids=["plain", "unrolled"], autouse=True)
def unrolled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(table_algebra, "SMALL", 1)


@given(case=table_lists(), data=st.data())
def test_linear_products_and_sums_are_those_of_einsum(case: tuple, data: st.DataObject) -> None:
    tables, axes, sizes = case
    product = multiply(SUM_PRODUCT, tables, axes, sizes)
    torch.testing.assert_close(product, by_einsum(tables, axes))
    keep = tuple(sorted(data.draw(st.sets(st.sampled_from(axes)))))
    found = sum_out(SUM_PRODUCT, product, axes, sizes, keep)
    torch.testing.assert_close(found, by_einsum(tables, keep))


@given(case=table_lists(), data=st.data())
def test_logs_are_the_logs_of_the_linear_numbers(case: tuple, data: st.DataObject) -> None:
    tables, axes, sizes = case
    # Zeros become -inf: sums over nothing but zeros must stay -inf, not NaN.
    tables = [(values.masked_fill(values < 0.2, 0.0), present) for values, present in tables]
    logs = [(values.log(), present) for values, present in tables]
    keep = tuple(sorted(data.draw(st.sets(st.sampled_from(axes)))))
    product = multiply(LOG_SUM_PRODUCT, logs, axes, sizes)
    found = sum_out(LOG_SUM_PRODUCT, product, axes, sizes, keep)
    torch.testing.assert_close(found.exp(), by_einsum(tables, keep))
    best = sum_out(LOG_MAX_PRODUCT, product, axes, sizes, keep)
    lost = [i for i, axis in enumerate(axes) if axis not in keep]
    expected = product.amax(dim=lost) if lost else product
    torch.testing.assert_close(best, expected)


def test_the_tables_that_are_multiplied_stay_as_they_are() -> None:
    first, second = torch.rand(4, 1), torch.rand(4, 1)
    kept = [first.clone(), second.clone()]
    multiply(SUM_PRODUCT, [(first, (0,)), (second, (0,)), (first, (0,))], (0,), (4,))
    assert torch.equal(first, kept[0])
    assert torch.equal(second, kept[1])

"""Scaled tables keep their numbers, know their depth, and choose an arithmetic that is safe."""

from __future__ import annotations

import pytest
import torch

from mrflearn.kernels.table_algebra import (
    LOG_SUM_PRODUCT,
    RANGE,
    SUM_PRODUCT,
    ScaledTable,
    safe_arithmetic,
)

both = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def logs_of(table: ScaledTable) -> torch.Tensor:
    values = table.within(LOG_SUM_PRODUCT)
    return values + table.scale.reshape(-1, *[1] * (values.ndim - 1))


@both
@pytest.mark.parametrize("spread", [1.0, 500.0])
def test_logs_come_back(dtype: torch.dtype, spread: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logs = spread * torch.randn(2, 3, 4, generator=generator, dtype=dtype)
    logs[0, 0, 1] = -torch.inf
    table = ScaledTable.of(LOG_SUM_PRODUCT, logs.clone())
    torch.testing.assert_close(logs_of(table), logs, rtol=1e-5, atol=1e-4)
    assert table.logs == (spread == 500.0)
    assert table.within(LOG_SUM_PRODUCT).reshape(2, -1).amax(dim=1).tolist() == [0.0, 0.0]


def test_the_logs_that_a_table_is_made_of_stay_as_they_were() -> None:
    """They may be a view of another table."""
    logs = torch.tensor([[-1.0, -3.0]], dtype=torch.float64)
    ScaledTable.of(LOG_SUM_PRODUCT, logs)
    assert logs.tolist() == [[-1.0, -3.0]]


@both
def test_linear_numbers_come_back_as_logs_only_where_they_must(dtype: torch.dtype) -> None:
    deep = -1.5 * RANGE[dtype]
    for lowest, logs in ((-1.0, False), (deep, True)):
        values = torch.tensor([[1.0, 0.0]], dtype=dtype)
        values[0, 1] = torch.tensor(lowest, dtype=dtype).exp()
        table = ScaledTable.of(SUM_PRODUCT, 3 * values)
        assert table.logs == logs
        assert table.depth == pytest.approx(-lowest, rel=1e-4)
        expected = torch.tensor([[0.0, lowest]], dtype=dtype) + torch.tensor(3.0, dtype=dtype).log()
        torch.testing.assert_close(logs_of(table), expected, rtol=1e-5, atol=1e-5)


def test_zeros_do_not_count_as_depth() -> None:
    values = torch.tensor([[0.5, 0.0, 0.25]], dtype=torch.float64)
    assert ScaledTable.of(SUM_PRODUCT, values).depth == pytest.approx(torch.tensor(2.0).log())
    logs = torch.tensor([[0.0, -torch.inf]], dtype=torch.float64)
    assert ScaledTable.of(LOG_SUM_PRODUCT, logs.clone()).depth == 0.0


def test_a_table_without_possibilities_has_scale_minus_infinity() -> None:
    for table in (
        ScaledTable.of(SUM_PRODUCT, torch.zeros(1, 2)),
        ScaledTable.of(LOG_SUM_PRODUCT, torch.full((1, 2), -torch.inf)),
    ):
        assert table.scale.tolist() == [-torch.inf]
        assert table.within(SUM_PRODUCT).tolist() == [[0.0, 0.0]]


def test_products_that_would_leave_the_range_are_left_to_logs() -> None:
    def table(depth: float) -> ScaledTable:
        logs = torch.tensor([[0.0, -depth]], dtype=torch.float64)
        return ScaledTable.of(LOG_SUM_PRODUCT, logs.clone())

    assert safe_arithmetic([table(100.0), table(200.0)]) is SUM_PRODUCT
    assert safe_arithmetic([table(100.0)] * 4) is LOG_SUM_PRODUCT
    assert safe_arithmetic([table(1.0), table(900.0)]) is LOG_SUM_PRODUCT

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from mrflearn.errors import DataError
from mrflearn.estimators.potts import agreeing_columns, sequence_weights


@given(
    some.integers(1, 80),
    some.integers(1, 12),
    some.sampled_from([0.3, 0.5, 0.8, 1.0]),
    some.integers(0, 99),
)
def test_weights_are_one_over_the_copies_counted_pair_by_pair(
    count: int, columns: int, identity: float, seed: int
) -> None:
    rows = torch.randint(2, (count, columns), generator=torch.Generator().manual_seed(seed))
    same = (rows.unsqueeze(1) == rows).sum(dim=2)
    copies = (same >= agreeing_columns(identity, columns)).sum(dim=1).clamp(min=1)
    torch.testing.assert_close(sequence_weights(rows, 2, identity), 1 / copies.double())


@pytest.mark.parametrize(
    ("identity", "columns", "needed"), [(0.8, 75, 61), (0.8, 53, 44), (1.0, 10, 11)]
)
def test_the_rule_is_that_of_ccmpred(identity: float, columns: int, needed: int) -> None:
    assert agreeing_columns(identity, columns) == needed


@pytest.mark.parametrize("identity", [0.0, -1.0, 1.5])
def test_an_impossible_share_is_refused(identity: float) -> None:
    with pytest.raises(DataError, match="above 0 and at most 1"):
        agreeing_columns(identity, 10)

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from mrflearn.errors import DataError
from mrflearn.features.sequence_weights import Rule, agreeing_columns, sequence_weights


@given(
    some.integers(1, 80),
    some.integers(1, 12),
    some.sampled_from([0.3, 0.5, 0.8, 1.0]),
    some.sampled_from(["ccmpred", "plmc"]),
    some.integers(0, 99),
)
def test_weights_are_one_over_the_copies_counted_pair_by_pair(
    count: int, columns: int, identity: float, rule: Rule, seed: int
) -> None:
    rows = torch.randint(2, (count, columns), generator=torch.Generator().manual_seed(seed))
    same = (rows.unsqueeze(1) == rows).sum(dim=2)
    copies = (same >= agreeing_columns(identity, columns, rule)).sum(dim=1).clamp(min=1)
    torch.testing.assert_close(sequence_weights(rows, 2, identity, rule), 1 / copies.double())


@pytest.mark.parametrize(
    ("identity", "columns", "ccmpred", "plmc"),
    [(0.8, 75, 61, 60), (0.8, 53, 44, 43), (1.0, 10, 11, 10)],
)
def test_the_rules_of_ccmpred_and_plmc(
    identity: float, columns: int, ccmpred: int, plmc: int
) -> None:
    assert agreeing_columns(identity, columns, "ccmpred") == ccmpred
    assert agreeing_columns(identity, columns, "plmc") == plmc


@pytest.mark.parametrize("identity", [0.0, -1.0, 1.5])
def test_an_impossible_share_is_refused(identity: float) -> None:
    with pytest.raises(DataError, match="no share of columns"):
        agreeing_columns(identity, 10)

"""A pool of threads keeps order, and leaves torch as it was."""

from __future__ import annotations

import pytest
import torch

from mrflearn.errors import MrflearnError
from mrflearn.execution.threads import Threads, count_cores


@pytest.mark.parametrize("count", [1, 3])
def test_results_come_in_order_and_torch_is_left_alone(count: int) -> None:
    before = torch.get_num_threads()
    with Threads(count) as threads:
        assert torch.get_num_threads() == 1
        found = threads.map(lambda n: (n * n, torch.get_num_threads()), range(20))
    assert found == [(n * n, 1) for n in range(20)]
    assert torch.get_num_threads() == before


def test_an_error_in_a_thread_is_raised() -> None:
    with pytest.raises(ZeroDivisionError), Threads(2) as threads:
        threads.map(lambda n: 1 // n, [1, 0])


def test_counting_cores() -> None:
    assert count_cores(3) == 3
    assert count_cores(None) == count_cores(-1) >= 1
    with pytest.raises(MrflearnError, match="n_jobs=0"):
        count_cores(0)

"""Torch is kept to one thread within a block, and left as it was; pools keep order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from mrflearn.execution.threads import Threads, one_thread


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_there_is_one_thread_within_the_block_only() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_threads_are_put_back_after_an_error() -> None:
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert torch.get_num_threads() == 2


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

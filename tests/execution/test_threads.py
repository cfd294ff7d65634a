"""The number of threads is lowered for a block, and put back whatever happens in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from mrflearn.execution.threads import one_thread


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

"""How many threads the arithmetic of this process uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block, operations on tensors stay on the calling thread.

    For long sequences of operations of a fraction of a millisecond each: threads would have to
    meet after every one of them, which costs up to ten times the work itself on a busy machine.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""Memory that was freed is there again without the system's help."""

from __future__ import annotations

import platform

import pytest
import torch

from mrflearn.training.newton import raise_mmap_threshold

PAGES = 6 * 256  # of six tables of a megabyte


def come_and_go() -> None:
    tables = [torch.ones(1 << 17, dtype=torch.float64) for _ in range(6)]
    del tables


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do as they do")
def test_tables_that_come_and_go_cost_no_fresh_pages() -> None:
    import resource

    raise_mmap_threshold()
    come_and_go()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        come_and_go()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 5 * PAGES

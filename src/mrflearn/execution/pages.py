"""Freed memory that stays with the process, where tables of a megabyte come and go.

By default glibc hands freed memory back to the system above some threshold, and asks for it again
at the next table: every page is then cleared anew.  In small jobs that took a third of the time.
"""

from __future__ import annotations

import torch

KEPT = 1 << 23  # bytes; twice as many stay


def keep_freed_memory() -> None:
    """Has the C library keep what is freed from now on, up to twice `KEPT` bytes.

    Its threshold follows the largest mapped block that was ever given back (mallopt(3),
    M_MMAP_THRESHOLD), so such a block is asked for and given back, its pages never touched.  With
    another C library nothing happens.
    """
    torch.empty(KEPT, dtype=torch.uint8)

"""How many cores there are to work with."""

from __future__ import annotations

import os

from mrflearn.errors import SettingsError


def count_cores(wanted: int | None) -> int:
    """How many cores to use: `wanted`; None is 1, and -1 all that this process may use."""
    if wanted is None:
        return 1
    if wanted == -1:
        available = getattr(os, "sched_getaffinity", None)  # of Linux alone
        return len(available(0)) if available else os.cpu_count() or 1
    if wanted < 1:
        raise SettingsError(f"n_jobs={wanted}: give a number of cores, or -1 for all of them.")
    return wanted

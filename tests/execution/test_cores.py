"""Cores are counted with and without Linux's way of asking."""

from __future__ import annotations

import os

import pytest

from mrflearn.errors import MrflearnError
from mrflearn.execution.executor import Processes
from mrflearn.execution.resources import count_cores


def test_counting_cores() -> None:
    assert count_cores(3) == 3
    assert count_cores(None) == 1
    assert count_cores(-1) >= 1
    with pytest.raises(MrflearnError, match="n_jobs=0"):
        count_cores(0)


def test_systems_that_cannot_say_which_cores_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert count_cores(-1) == os.cpu_count()
    assert Processes().count == os.cpu_count()

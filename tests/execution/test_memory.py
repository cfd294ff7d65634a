"""Memory is asked about, by whoever limits it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrflearn.errors import MrflearnError, OutOfMemoryError
from mrflearn.execution import resources
from mrflearn.execution.resources import available_memory, require_memory, size_in_words


def test_there_is_some_and_not_endless() -> None:
    available = available_memory()
    assert available is None or 0 < available < 2**50
    require_memory(1, "a byte", "")
    assert available_memory("meta") is None


def test_what_is_needed_and_what_is_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_of_system", lambda: 5 * 10**9)
    with pytest.raises(OutOfMemoryError, match=r"a table .*7 GB.*5 GB.*Take a chair") as caught:
        require_memory(7 * 10**9, "a table", "Take a chair.")
    assert isinstance(caught.value, MrflearnError)
    assert isinstance(caught.value, MemoryError)
    monkeypatch.setattr(resources, "_of_system", lambda: None)
    monkeypatch.setattr(resources, "_of_control_groups", list)
    require_memory(10**30, "anything", "")  # nobody knows


@pytest.mark.parametrize(
    ("limit", "usage", "stat"),
    [
        ("memory.max", "memory.current", "inactive_file 300"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "total_inactive_file 300",
        ),
    ],
)
def test_the_limit_of_a_container_counts(tmp_path: Path, limit: str, usage: str, stat: str) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / limit).write_text("1000\n")
    (tmp_path / usage).write_text("600\n")
    assert resources._of_control_groups(tmp_path) == [400]
    (tmp_path / limit).with_name("memory.stat").write_text(f"anon 1\n{stat}\n")
    assert resources._of_control_groups(tmp_path) == [700]
    (tmp_path / limit).write_text("max\n")
    assert resources._of_control_groups(tmp_path) == []


def test_sizes_in_words() -> None:
    assert [size_in_words(n) for n in (12, 7_600_000_000)] == ["12 bytes", "7.6 GB"]

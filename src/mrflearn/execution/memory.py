"""How much memory there is, asked before much of it is taken."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from mrflearn.errors import OutOfMemoryError

UNLIMITED = 1 << 60  # bytes; control groups of the first version write about so much for no limit


def available_memory(device: torch.device | str = "cpu") -> int | None:
    """The bytes that this process may still take on a device; None where nobody says.

    On the CPU: what the system has to give away, within the limits of the control group.
    """
    place = torch.device(device)
    if place.type == "cuda":
        return int(torch.cuda.mem_get_info(place)[0])
    if place.type != "cpu":
        return None
    known = [size for size in (_of_system(), *_of_control_groups()) if size is not None]
    return min(known, default=None)


def require_memory(needed: int, what: str, advice: str, device: torch.device | str = "cpu") -> None:
    """Raises `OutOfMemoryError` where so many bytes are not there; `advice` says what to try."""
    available = available_memory(device)
    if available is not None and needed > available:
        raise OutOfMemoryError(
            f"{what} would take about {size_in_words(needed)} of memory, and "
            f"{size_in_words(available)} is available. {advice}"
        )


def size_in_words(size: int) -> str:
    """Bytes as people count them, such as "7.6 GB"."""
    amount, units = float(size), ["bytes", "KB", "MB", "GB", "TB", "PB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:,.3g} {units[0]}"


def _of_system() -> int | None:
    """What Linux says can be had without swapping; elsewhere all the memory there is."""
    for line in _lines(Path("/proc/meminfo")):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return None


def _of_control_groups(root: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """What limits of containers leave, by both versions of control groups."""
    left = []
    pairs = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    for folder in (root, root / "memory"):
        for limit, usage in pairs:
            most, used = _number(folder / limit), _number(folder / usage)
            if most is not None and used is not None and most < UNLIMITED:
                # Pages of files that were read count as used, and are given back when needed.
                stat = dict(line.split()[:2] for line in _lines(folder / "memory.stat"))
                cached = int(stat.get("inactive_file", stat.get("total_inactive_file", 0)))
                left.append(max(0, most - used + cached))
    return left


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, ValueError):
        return []


def peak_memory() -> int | None:
    """The most bytes that this process held at once; None where the system does not say."""
    try:
        import resource
    except ImportError:  # on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10

"""What this machine offers: devices and number types, cores and threads, memory.

Torch holds one count of threads for the process, which every thread takes over when it first
computes; from then on OpenMP counts for each thread by itself.  So a block that sets torch's own
count may hand it to threads that somebody else starts meanwhile, for good.  Here only OpenMP's
count of the calling thread is changed.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar, cast, final

import torch

from mrflearn.errors import OutOfMemoryError, SettingsError

T = TypeVar("T")
R = TypeVar("R")
Record = TypeVar("Record")


FLOATS = {"float32": torch.float32, "float64": torch.float64}


def choose_device(name: str) -> torch.device:
    """The device called `name`; `auto` is CUDA where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingsError(
            f"no device is called {name!r}; try 'cpu', 'cuda' or 'auto'."
        ) from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError("device 'cuda' was asked for, but torch finds no CUDA GPU; try 'cpu'.")
    return device


def choose_dtype(name: str) -> torch.dtype:
    """The type of numbers called `name`."""
    if name not in FLOATS:
        raise SettingsError(f"dtype {name!r} is not one of {', '.join(FLOATS)}.")
    return FLOATS[name]


def moved(record: Record, device: torch.device | str) -> Record:
    """The same record, all tensors in it on a device."""
    found: Any = record
    if isinstance(record, torch.Tensor):
        found = record.to(device)
    elif isinstance(record, tuple):
        found = tuple(moved(own, device) for own in record)
    elif is_dataclass(record) and not isinstance(record, type):
        own = {part.name: getattr(record, part.name) for part in fields(record)}
        found = replace(record, **{name: moved(value, device) for name, value in own.items()})
    return cast("Record", found)


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


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block, operations on tensors stay on the calling thread.

    For long sequences of operations of a fraction of a millisecond each: threads would have to
    meet after every one of them, which costs up to ten times the work itself on a busy machine.
    Not to be held across a `yield`: the caller would compute on one thread, too.
    """
    if torch.get_num_threads() == 1:  # has torch prepare this thread, too, if it is a new one
        yield
        return
    before = _set_mkl_threads()(1)
    try:
        with _openmp().limit(limits=1):
            yield
    finally:
        _set_mkl_threads()(before)


def stay_on_one_thread() -> None:
    """For new threads of a pool: what the calling thread computes stays on it from now on."""
    if torch.get_num_threads() > 1:
        _openmp().limit(limits=1)
        _set_mkl_threads()(1)


@cache
def multiplies_bfloat16(names: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor has instructions for products of bfloat16, as far as Linux tells.

    Without them such products are slower than those of float32.
    """
    lines = names.read_text(encoding="utf-8").splitlines() if names.exists() else []
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


@cache
def _openmp() -> Any:
    """The OpenMP libraries of this process; looked for once, when torch has loaded its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="openmp")


@cache
def _set_mkl_threads() -> Callable[[int], int]:
    """Sets MKL's count for the calling thread and gives the one before; 0 is to follow OpenMP's.

    `torch.set_num_threads` sets that count, which from then on goes before OpenMP's.  MKL is a part
    of torch's library on Linux; elsewhere nothing is set.
    """
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        found: Callable[[int], int] = ctypes.CDLL(str(library)).MKL_Set_Num_Threads_Local
    except (OSError, AttributeError):
        return lambda count: count
    return found


@final
class Threads:
    """A pool of `count` threads; inside its `with` block torch itself uses one thread for each.

    Torch's own threads make the many small products of a recursion over positions slower, not
    faster; whole shards of the data in parallel keep every core busy.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(one_thread())
        if self.count > 1:
            self._pool = ThreadPoolExecutor(self.count, initializer=stay_on_one_thread)
            self._open.callback(self._pool.shutdown, cancel_futures=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._pool = None
        self._open.close()

    def map(self, task: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The results in the order of the items."""
        if self._pool is None:
            return [task(item) for item in items]
        return list(self._pool.map(task, items))


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

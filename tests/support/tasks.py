"""Tasks for executors, in a module that worker processes can import."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError


def slow_square(item: tuple[int, str]) -> int:
    """Takes long enough to be interrupted, and leaves a sign that it has begun."""
    number, folder = item
    (Path(folder) / str(number)).touch()
    time.sleep(0.4)
    return number * number


def third(number: int) -> float:
    """A number whose sums depend on their order."""
    return number / 3


def worker(number: int) -> tuple[int, int]:
    """Which process this is, and how many threads it computes with."""
    import torch

    del number
    time.sleep(0.05)
    return os.getpid(), torch.get_num_threads()


def process(number: int) -> int:
    """Which process this is."""
    del number
    return os.getpid()


def complain(number: int) -> int:
    """Refuses 3."""
    if number == 3:
        raise DataError("three is no number", path="here", line=3)
    return number


def die(number: int) -> int:
    """Ends its process at 2, as a machine out of memory would."""
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def powers(n: int) -> list[float]:
    """Three parts, each to be added up by itself."""
    return [1.0, n / 3, n * n / 3]


def weighed(summed: tuple[int, float]) -> float:
    """What becomes of the sum of one part."""
    number, total = summed
    return 10**number * total


def complain_of_parts(number: int) -> list[int]:
    """The same complaint from a task whose results have parts."""
    return [complain(number)]


class Noted:
    """A number, and which object this is in which process."""

    def __init__(self, number: int) -> None:
        self.number = number


def maker(number: int) -> Noted:
    return Noted(number)


def seen(noted: Noted) -> tuple[int, tuple[int, int]]:
    return noted.number, (os.getpid(), id(noted))


class Kill:
    """Ends the Java process above it, with all that it keeps, the first time it is asked at all."""

    def __init__(self, task: Callable[[Any], Any], sign: str) -> None:
        self.task, self.sign = task, sign

    def __call__(self, item: Any) -> Any:
        with suppress(FileExistsError):
            os.close(os.open(self.sign, os.O_CREAT | os.O_EXCL))
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
            time.sleep(60)  # until it is ended itself
        return self.task(item)


def slow_at_first(item: tuple[int, str]) -> int:
    """Takes long for 3 where nobody has tried yet; leaves a sign of each try."""
    number, folder = item
    tries = len(list(Path(folder).glob(f"{number}-*")))
    Path(folder, f"{number}-{os.getpid()}").touch()
    if number == 3 and not tries:
        time.sleep(20)
    return number


def long_list(length: int) -> NDArray[np.float64]:
    return np.zeros(length)


def noted_in_folder(item: tuple[int, str]) -> int:
    """Leaves a sign that it was asked."""
    Path(item[1], str(item[0])).touch()
    return item[0]


class Vector:
    """A task that has something large with it."""

    def __init__(self, vector: Any) -> None:
        self.vector = vector

    def __call__(self, number: float) -> float:
        return abs(number)

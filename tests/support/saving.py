"""Processes that save over one model while they are killed, or others read it.

Run by `python -m support.saving`: a process of its own, which imports torch once and then forks.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from random import Random

import torch

from mrflearn.models.storage import StoredModel, read_model, write_model

ROUNDS = 30
SECONDS = 0.7


def save(target: Path, number: int) -> None:
    """Saves a model whose settings and tensors say the same number."""
    stored = StoredModel("Example", {"n": number}, {"x": torch.full((20_000,), float(number))})
    write_model(target, stored, overwrite=True)


def load(target: Path) -> int:
    """The number; an error unless the model is whole."""
    assert target.is_dir()
    stored = read_model(target)
    assert bool((stored.tensors["x"] == stored.settings["n"]).all())
    return int(stored.settings["n"])


def saving(target: Path) -> int:
    """The id of a process that saves until it is killed."""
    child = os.fork()
    if not child:
        try:
            for number in range(10**9):
                save(target, number)
        finally:
            os._exit(1)
    return child


def end(child: int) -> None:
    """Kills a process, which must have lived until then."""
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def kill(target: Path) -> None:
    """Kills a saving process at random moments; the model is whole every time."""
    random = Random(0)
    for _ in range(ROUNDS):
        child = saving(target)
        time.sleep(random.uniform(0, 0.03))
        end(child)
        load(target)


def race(target: Path) -> None:
    """Reads while two processes save; the model is there and whole every time."""
    children = [saving(target), saving(target)]
    seen, until = set(), time.monotonic() + SECONDS
    while time.monotonic() < until or len(seen) < 2:
        seen.add(load(target))
    for child in children:
        end(child)


if __name__ == "__main__":
    place = Path(sys.argv[2])
    save(place, -1)
    {"kill": kill, "race": race}[sys.argv[1]](place)

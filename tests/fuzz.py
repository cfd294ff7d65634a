"""Damaged inputs for every reader, by the million: `make fuzz`, or `python tests/fuzz.py --help`.

Each input must be read, or refused by an error of the library, within 5 s and 1 GB.  Input i of a
seed is always the same, whatever the number of processes; those that fail are kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch

from mrflearn.errors import MrflearnError
from support.readers import LIGHT_MODELS, Reader, every_reader

SECONDS = 5.0
BYTES = 1 << 30
GRACE = 3.0  # seconds that a process has to notice by itself that its time is over


class Overdue(BaseException):
    """The time of an input is over; no reader catches this."""


@dataclass
class Findings:
    """What went wrong, and how many inputs were tried."""

    tried: int = 0
    refused: int = 0
    slowest: float = 0.0
    wrong: list[tuple[int, str, str]] = field(default_factory=list)  # input, reader, problem

    def add(self, other: Findings) -> None:
        """Takes in what another process found."""
        self.tried += other.tried
        self.refused += other.refused
        self.slowest = max(self.slowest, other.slowest)
        self.wrong += other.wrong


def make(readers: list[Reader], seed: int, index: int, folder: Path) -> tuple[Reader, Path]:
    """The input of that number on disk, and the reader that it is for."""
    random = Random((seed << 40) + index)
    reader = readers[index % len(readers)]
    return reader, reader.put(folder, random)


def problem_of(reader: Reader, path: Path) -> str | None:
    """What is wrong with how the input is read: None, or "" where it is refused as it should be."""
    try:
        with limited_time():
            reader.read(path)
    except MrflearnError:
        return ""
    except Overdue:
        return f"more than {SECONDS:g} s"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


@contextmanager
def limited_time() -> Iterator[None]:
    """Raises `Overdue` in the block when it takes too long."""

    def over(*_: object) -> None:
        raise Overdue

    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def limit_memory() -> None:
    """An allocation beyond what is in use now and the limit fails."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            in_use = int(line.split()[1]) * 1024
            resource.setrlimit(resource.RLIMIT_DATA, (in_use + BYTES, in_use + BYTES))


def work(readers: list[Reader], seed: int, indices: range, progress: Any, answer: Any) -> None:
    """Tries inputs one by one; `progress` says which, and since when."""
    torch.set_num_threads(1)
    limit_memory()
    warnings.simplefilter("error")  # a warning from the depths tells users nothing
    found = Findings()
    with tempfile.TemporaryDirectory(dir=fast_folder()) as name:
        folder = Path(name)
        for index in indices:
            reader, path = make(readers, seed, index, folder)
            began = time.monotonic()
            progress[0], progress[1] = index, began
            problem = problem_of(reader, path)
            found.tried += 1
            found.slowest = max(found.slowest, time.monotonic() - began)
            if problem:
                found.wrong.append((index, reader.name, problem))
            found.refused += problem == ""
    answer.send(found)


def fast_folder() -> str | None:
    """A folder in memory, where there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def watched(readers: list[Reader], seed: int, indices: range, jobs: int) -> Findings:
    """All findings, of so many processes at once; one that dies or hangs is replaced."""
    context = multiprocessing.get_context("fork")
    total, began, said = Findings(), time.monotonic(), 0.0
    share = 2_000
    waiting = [indices[start : start + share] for start in range(0, len(indices), share)][::-1]
    running: list[tuple[Any, Any, Any, range]] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            part = waiting.pop()
            progress = context.RawArray("d", 2)
            progress[0], progress[1] = part[0], time.monotonic()
            answers, answer = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(readers, seed, part, progress, answer))
            process.start()
            answer.close()
            running.append((process, progress, answers, part))
        time.sleep(0.01)
        for own in list(running):
            process, progress, answers, part = own
            late = time.monotonic() - progress[1] > SECONDS + GRACE
            if answers.poll():
                try:
                    total.add(answers.recv())
                    process.join()
                    running.remove(own)
                    continue
                except EOFError:
                    process.join()
            elif not late:
                continue
            # It hangs where no signal is heard, or has died; the rest is for another process.
            process.kill()
            process.join()
            running.remove(own)
            index = int(progress[0])
            told = "hangs" if late else f"the process died ({process.exitcode})"
            # What it had found before is found again.
            before, after = part[: part.index(index)], part[part.index(index) + 1 :]
            waiting += [rest for rest in (after, before) if len(rest)]
            total.add(Findings(1, wrong=[(index, readers[index % len(readers)].name, told)]))
        if time.monotonic() - said > 30:
            said = time.monotonic()
            speed = total.tried / (said - began)
            say(f"{total.tried:,} inputs, {len(total.wrong)} wrong, {speed:,.0f}/s")
    return total


def keep(readers: list[Reader], seed: int, index: int, folder: Path) -> Path:
    """The input once more, in a folder of its own."""
    place = folder / f"{seed}-{index}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return make(readers, seed, index, place)[1]


def say(text: str) -> None:
    """One line, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Tries all inputs; 1 if some were not read as they should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--light", action="store_true", help="fewer kinds of model")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    told = parser.parse_args()
    readers = every_reader(LIGHT_MODELS if told.light else None)
    began = time.monotonic()
    found = watched(readers, told.seed, range(told.first, told.first + told.inputs), told.jobs)
    seconds = time.monotonic() - began
    say(
        f"{found.tried:,} inputs for {len(readers)} readers in {seconds:,.0f} s "
        f"({found.tried / seconds:,.0f}/s), slowest {found.slowest:.2f} s; {found.refused:,} were "
        f"refused as they should be, {len(found.wrong):,} were not."
    )
    kinds = Counter((reader, problem.partition(":")[0]) for _, reader, problem in found.wrong)
    for (reader, kind), times in kinds.most_common():
        index, problem = next(
            (i, p) for i, r, p in sorted(found.wrong) if (r, p.partition(":")[0]) == (reader, kind)
        )
        path = keep(readers, told.seed, index, told.findings)
        say(f"{times} x {reader}: {problem}\n    first: {path} (--first {index} --inputs 1)")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
import torch

from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.loop import interruptible
from support.functions import minimise
from support.problems import rosenbrock

START = torch.full((50,), -1.0, dtype=torch.float64)
PROGRAM = """
    import sys, time, torch
    from mrflearn.training.lbfgs import LBFGS
    from support.functions import minimise

    def slow(x):
        bend, rest = x[1:] - x[:-1] ** 2, 1 - x[:-1]
        gradient = torch.zeros_like(x)
        gradient[1:] += 200 * bend
        gradient[:-1] += -400 * x[:-1] * bend - 2 * rest
        print("evaluation", flush=True)
        until = time.monotonic() + {seconds}
        while time.monotonic() < until:
            pass
        return (100 * bend**2 + rest**2).sum(), gradient

    start = torch.full((50,), -1.0, dtype=torch.float64)
    outcome = minimise(slow, start, LBFGS(2000), checkpoint=sys.argv[1], progress=True)
    print(outcome.ending, outcome.iterations, outcome.value, flush=True)
"""


def begin(seconds, path):
    """A training in a process of its own, some evaluations under way."""
    root = Path(__file__).parents[2]
    source = os.pathsep.join([str(root / "src"), str(root / "tests")])
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM.format(seconds=seconds)), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": source},
    )
    for _ in range(5):
        assert process.stdout.readline() == "evaluation\n"
    return process


def test_ctrl_c_ends_training_with_what_was_reached(tmp_path):
    process = begin(0.05, tmp_path / "c")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Ctrl-C again stops at once" in errors
    assert "interrupted" in errors
    ending, iterations, value = output.splitlines()[-1].split()
    assert ending == "interrupted"
    assert float(value) < float(rosenbrock(START)[0])
    options = {"checkpoint": tmp_path / "c", "resume": True}
    resumed = minimise(rosenbrock, START, LBFGS(2000), **options)
    straight = minimise(rosenbrock, START, LBFGS(2000))
    assert int(iterations) < resumed.iterations == straight.iterations
    assert torch.equal(resumed.model, straight.model)


def test_a_second_ctrl_c_interrupts_at_once(tmp_path):
    process = begin(0.3, tmp_path / "c")
    process.send_signal(signal.SIGINT)
    assert "stopping" in process.stderr.readline() + process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors


def test_the_handler_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    with interruptible() as interrupt:
        assert signal.getsignal(signal.SIGINT) is not before
        signal.raise_signal(signal.SIGINT)
        assert interrupt.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(ZeroDivisionError), interruptible():
        _ = 1 / 0
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_of_someone_else_stays():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible() as interrupt:
            signal.raise_signal(signal.SIGINT)
            assert not interrupt.is_set()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_training_runs_in_other_threads():
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(minimise(rosenbrock, START, LBFGS(5))))
    thread.start()
    thread.join()
    assert outcomes[0].iterations == 5

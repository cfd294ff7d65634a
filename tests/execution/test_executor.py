"""Every executor of this machine: order, sums to the bit, errors, lost workers, Ctrl-C."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import torch

from mrflearn import MarkovField
from mrflearn.errors import DataError, ExecutionError, SettingsError
from mrflearn.execution.executor import Executor, Processes, Serial, executor_for
from support import tasks


@pytest.fixture(params=["serial", "processes"])
def place(request: pytest.FixtureRequest, processes: Processes) -> Executor:
    return Serial() if request.param == "serial" else processes


def one_by_one(numbers: Iterable[float]) -> float:
    """Their sum from the first to the last; `sum` compensates rounding from Python 3.12 on."""
    return reduce(operator.add, numbers)


def test_results_come_in_order_and_sums_have_the_same_bits(place: Executor) -> None:
    assert list(place.map(tasks.third, range(50))) == [n / 3 for n in range(50)]
    assert list(place.map(tasks.third, iter([]))) == []
    assert place.total(tasks.third, range(50)) == one_by_one(n / 3 for n in range(50))


def test_an_error_comes_back_whole(place: Executor) -> None:
    with pytest.raises(DataError, match="here:3: three is no number") as caught:
        list(place.map(tasks.complain, range(9)))
    assert caught.value.line == 3
    assert list(place.map(tasks.complain, [1, 2])) == [1, 2]  # the place is still good


def test_no_items_have_no_sum(place: Executor) -> None:
    with pytest.raises(ExecutionError, match="nothing to add up"):
        place.total(tasks.third, [])
    with pytest.raises(ExecutionError, match="nothing to add up"):
        list(place.map_totals(tasks.powers, [], tasks.weighed))


def test_parts_are_added_up_and_worked_on(place: Executor) -> None:
    thirds, squares = ([n**k / 3 for n in range(50)] for k in (1, 2))
    expected = [50.0, 10 * one_by_one(thirds), 100 * one_by_one(squares)]
    assert list(place.map_totals(tasks.powers, range(50), tasks.weighed)) == expected
    with pytest.raises(DataError, match="here:3: three is no number"):
        list(place.map_totals(tasks.complain_of_parts, range(9), tasks.weighed))


def test_a_sum_changes_no_result(place: Executor) -> None:
    held = [torch.ones(2), torch.ones(2)]
    assert place.total(torch.clone, held).tolist() == [2, 2]
    assert Serial().total(lambda tensor: tensor, held).tolist() == [2, 2]
    assert held[0].tolist() == [1, 1]


def test_processes_are_others_and_use_one_thread(processes: Processes) -> None:
    found = set(processes.map(tasks.worker, range(12)))
    assert os.getpid() not in {pid for pid, _ in found}
    assert {threads for _, threads in found} == {1}
    assert len(found) <= 2


def test_workers_of_a_script_that_loads_torch_use_one_thread_too(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "from mrflearn.execution import Processes\n"
        "def threads(_):\n    return torch.get_num_threads()\n"
        "if __name__ == '__main__':\n"
        "    with Processes(1) as place:\n        print(*place.map(threads, [0]))\n"
    )
    ended = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"},
    )
    assert ended.stdout == "1\n"


def test_what_cannot_travel_is_told(processes: Processes) -> None:
    with pytest.raises(ExecutionError, match="not a lambda"):
        list(processes.map(lambda n: n, [1]))


def test_a_killed_worker_is_told_and_the_next_call_works() -> None:
    with Processes(1) as place:
        with pytest.raises(ExecutionError, match="ended in the middle"):
            list(place.map(tasks.die, range(4)))
        assert list(place.map(tasks.third, [3])) == [1.0]


@pytest.mark.parametrize("count", [0, -2])
def test_no_processes_are_refused(count: int) -> None:
    with pytest.raises(ExecutionError):
        Processes(count)
    with pytest.raises(SettingsError), executor_for(count):
        pass


@pytest.mark.usefixtures("shared_processes")
def test_lap_by_processes_is_lap_here() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (400, 9))
    here = MarkovField("grid:3x3", estimator="lap").fit(rows)
    there = MarkovField("grid:3x3", estimator="lap", n_jobs=2).fit(rows)
    np.testing.assert_array_equal(there.couplings_, here.couplings_)


INTERRUPTED = """
import sys
from support import tasks
from mrflearn.execution.executor import Processes
if __name__ == "__main__":
    with Processes(1) as place:
        print("pid", list(place.map(tasks.process, [0]))[0], flush=True)
        list(place.map(tasks.sleep, [60.0]))
"""


def test_ctrl_c_ends_all_processes_at_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    paths = os.pathsep.join(sys.path)
    child = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    with child:
        assert child.stdout is not None
        worker = int(child.stdout.readline().split()[1])
        time.sleep(0.3)
        started = time.monotonic()
        child.send_signal(signal.SIGINT)
        child.wait(30)
    assert time.monotonic() - started < 30
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


@pytest.mark.parametrize(
    "work",
    [
        "MarkovField('grid:2x3', estimator='lap', n_jobs=2).fit(rows)",
        "with Processes(2) as place:\n    list(place.map(abs, [1, 2, 3]))",
    ],
    ids=["n_jobs", "processes"],
)
def test_a_script_without_a_guard_is_told_to_have_one(tmp_path: Path, work: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\n"
        "from mrflearn import MarkovField\n"
        "from mrflearn.execution import Processes\n"
        f"rows = np.random.default_rng(0).integers(0, 2, (50, 6))\n{work}\n"
    )
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 1
    assert '__name__ == "__main__"' in ended.stderr.splitlines()[-1]
    assert "freeze_support" not in ended.stderr

from __future__ import annotations

import io
import math
import subprocess
import sys

import pytest
import torch

from mrflearn.training import outcome as progress
from mrflearn.training.lbfgs import LBFGS
from mrflearn.training.outcome import (
    EarlyStopping,
    Outcome,
    Reporter,
    Row,
    StopRule,
    clock,
    summary,
)
from support.functions import minimise
from support.problems import rosenbrock

START = torch.full((20,), -1.0, dtype=torch.float64)


def test_silence_is_silent(capfd):
    minimise(rosenbrock, START, LBFGS(5))
    assert capfd.readouterr() == ("", "")


def test_lines_go_to_standard_error_alone(capfd, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    minimise(rosenbrock, START, LBFGS(6), progress=True, callbacks=[EarlyStopping(lambda v: 0.25)])
    output, errors = capfd.readouterr()
    assert output == ""
    lines = errors.splitlines()
    assert len(lines) == 7
    assert lines[3].startswith("iteration 4: value ")
    for word in ("|gradient|", "validation 0.25", "evaluations/s", "left"):
        assert word in lines[3]
    assert lines[-1].startswith("the limit of 6 iterations is reached. value ")


def test_lines_are_seconds_apart(capsys):
    lines = Reporter(StopRule(10))
    for i in range(10):
        lines.show(Row(i, 1.0, 1.0, 1.0, i, float(i)))
    assert capsys.readouterr().err == ""
    lines.last -= 5.1
    lines.show(Row(10, 1.0, 1.0, 1.0, 10, 10.0))
    assert capsys.readouterr().err.count("\n") == 1


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_live_line(capsys, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    minimise(rosenbrock, START, LBFGS(6), progress=True)
    assert capsys.readouterr().out == ""
    assert "6 iterations" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()


def test_the_pace_counts_this_run_alone():
    report = Reporter(StopRule(100))
    assert report.pace(Row(40, 1.0, 1.0, 1.0, 50, 1000.0)) == "first iteration"
    # 10 iterations and 20 evaluations in 5 seconds; 50 iterations to go.
    text = report.pace(Row(50, 1.0, 1.0, 1.0, 70, 1005.0))
    assert "4 evaluations/s" in text
    assert "25.0 s left" in text


@pytest.mark.parametrize("limit", [{"max_seconds": 1006.0}, {"max_evaluations": 74}])
def test_the_nearest_limit_tells_the_time_left(limit):
    report = Reporter(StopRule(100, **limit), first=Row(40, 1.0, 1.0, 1.0, 50, 1000.0))
    assert "1.0 s left" in report.pace(Row(50, 1.0, 1.0, 1.0, 70, 1005.0))


def test_a_limit_that_is_never_reached_tells_nothing():
    report = Reporter(StopRule(1_000_000_000), first=Row(40, 1.0, 1.0, 1.0, 50, 1000.0))
    text = report.pace(Row(50, 1.0, 1.0, 1.0, 70, 1005.0))
    assert "4 evaluations/s" in text
    assert "left" not in text


@pytest.mark.parametrize(("most", "count"), [(2000, "1234/2000"), (1_000_000_000, "1234/?")])
def test_the_bar_keeps_its_width_on_a_narrow_terminal(most, count):
    from rich.console import Console

    console = Console(file=io.StringIO(), width=80)
    bar = progress.live_bar(console)
    live = Reporter(StopRule(most), bar, Row(0, 1.0, 1.0, 1.0, 0, 0.0))
    live.show(Row(1234, 15476.672, 4271.0, 1.0, 1300, 600.0))
    with console.capture() as shown:
        console.print(bar.get_renderable())
    (line,) = shown.get().splitlines()
    assert 1 <= line.index(count) - progress.BAR_WIDTH <= 2  # as wide a gap as this rich leaves
    assert "value 15476.672" in line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (-3, "0.0 s"), (59.94, "59.9 s"), (61, "1:01"), (3723, "1:02:03")],
)
def test_clock(seconds, text):
    assert clock(seconds) == text


def test_a_training_without_rows_has_a_summary():
    ended = Outcome(None, math.pi, 3, 9, "stuck", "nothing.", (), 4.0)
    assert summary(ended) == "nothing."


def test_a_summary_counts_what_the_last_iteration_tried_in_vain():
    row = Row(3, math.pi, 0.5, 1.0, 4, 2.0)
    ended = Outcome(None, math.pi, 3, 9, "stuck", "done.", (row,), 4.0)
    assert summary(ended).endswith("3 iterations, 9 evaluations, 4.0 s")


def test_importing_training_does_not_import_rich():
    check = "import sys, mrflearn.training.loop; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0

"""The EM loop, on a mixture of two coins: stops, checks, checkpoints, Ctrl-C."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path

import pytest
import torch

from mrflearn.errors import SettingsError, StorageError, TrainingError
from mrflearn.training.checkpoint import Checkpoint
from mrflearn.training.em import EM, Parameters

HEADS = torch.tensor([9.0, 8, 2, 1, 7, 3], dtype=torch.float64)
THROWS = 10.0
START = {"coins": torch.tensor([0.6, 0.5], dtype=torch.float64)}


def step(parameters: Parameters) -> tuple[float, Parameters]:
    """One EM step for a fair draw of one of two coins, thrown ten times."""
    coins = parameters["coins"]
    logs = HEADS[:, None] * coins.log() + (THROWS - HEADS[:, None]) * (1 - coins).log()
    joint = logs + math.log(0.5)
    value = -float(torch.logsumexp(joint, dim=1).sum())
    share = torch.softmax(joint, dim=1)
    return value, {"coins": (share * HEADS[:, None]).sum(0) / (share * THROWS).sum(0)}


def test_it_converges_and_every_value_is_noted() -> None:
    outcome = EM(200, 1e-10).fit(step, START)
    assert outcome.converged
    assert outcome.model["coins"].tolist() == pytest.approx([0.7994, 0.2006], abs=1e-3)
    values = [row.value for row in outcome.history]
    assert values == sorted(values, reverse=True)
    assert outcome.value == values[-1] == pytest.approx(step(outcome.model)[0])


def test_limits_are_kept() -> None:
    outcome = EM(3, 0.0).fit(step, START)
    assert (outcome.ending, outcome.iterations) == ("limit", 3)
    expected = START
    for _ in range(3):
        expected = step(expected)[1]
    assert torch.equal(outcome.model["coins"], expected["coins"])
    assert EM(0).fit(step, START).model is START


def test_a_value_that_rises_is_an_error() -> None:
    def wrong(parameters: Parameters) -> tuple[float, Parameters]:
        value, new = step(parameters)
        return value, {"coins": 1 - 0.5 * new["coins"]}

    with pytest.raises(TrainingError, match="fell from"):
        EM(50, 0.0).fit(wrong, START)
    with pytest.raises(TrainingError, match="cannot be produced"):
        EM(5).fit(lambda p: (math.inf, p), START)


def test_resuming_is_going_on(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "c")
    EM(3, 0.0).fit(step, START, checkpoint=checkpoint, identity={"coins": 2})
    resumed = EM(6, 0.0).fit(step, START, checkpoint=checkpoint, identity={"coins": 2}, resume=True)
    straight = EM(6, 0.0).fit(step, START)
    assert torch.equal(resumed.model["coins"], straight.model["coins"])
    assert [row.value for row in resumed.history] == [row.value for row in straight.history]
    with pytest.raises(TrainingError, match="another training"):
        EM(6).fit(step, START, checkpoint=checkpoint, identity={"coins": 3}, resume=True)
    with pytest.raises(SettingsError, match="resume needs"):
        EM(6).fit(step, START, resume=True)
    with pytest.raises(StorageError, match="cannot be written"):
        EM(6).fit(step, START, checkpoint=Checkpoint(tmp_path / "no" / "c"))


def test_ctrl_c_ends_after_the_step() -> None:
    calls = []

    def interrupted(parameters: Parameters) -> tuple[float, Parameters]:
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return step(parameters)

    outcome = EM(50, 0.0).fit(interrupted, START)
    assert (outcome.ending, outcome.iterations) == ("interrupted", 2)

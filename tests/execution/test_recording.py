"""Recorded functions answer as the functions themselves."""

from __future__ import annotations

import pytest
import torch

from mrflearn.execution.recording import recorded


def test_nothing_is_recorded_on_a_cpu():
    def function(vector):
        return vector.sum(), vector

    assert recorded(function, torch.zeros(2)) is function


@pytest.mark.gpu
def test_replays_answer_anew():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")

    def function(vector):
        return vector.square().sum(), 2 * vector

    replay = recorded(function, torch.zeros(3, device="cuda"))
    for start in (1.0, 5.0):
        vector = torch.arange(3, device="cuda") + start
        value, gradient = replay(vector)
        torch.testing.assert_close(value, vector.square().sum())
        torch.testing.assert_close(gradient, 2 * vector)

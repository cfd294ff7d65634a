"""What travels between the driver and those who evaluate parts of the data."""

from __future__ import annotations

import pickle

import pytest
import torch

from mrflearn import CRF
from mrflearn.objectives.base import Evaluation
from mrflearn.objectives.distributed import _Answer, without_weights


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_gradient_arrives_as_it_was(share: float) -> None:
    gradient = torch.randn(1001, dtype=torch.float64, generator=torch.manual_seed(0))
    gradient[torch.rand(1001) >= share] = 0
    sent = _Answer(Evaluation(torch.tensor(2.0), gradient, 0.5), False, {"3": {}})
    content = pickle.dumps(sent)
    assert len(content) < 9 * share * 1001 + 2000
    found = pickle.loads(content)
    assert torch.equal(found.found.gradient, gradient)
    assert (found.found.value, found.found.noise) == (2.0, 0.5)
    assert (found.converged, found.states) == (False, {"3": {}})


def test_models_travel_without_names_and_weights() -> None:
    X = [[f"word-{n}-{k}" for k in range(5)] for n in range(200)]
    model = CRF(features="words", max_iterations=1).fit(X, [list("ababa")] * 200).model_
    content = pickle.dumps(without_weights(model))
    assert b"word-" not in content
    found = pickle.loads(content)
    assert {k: own.shape for k, own in found.parameters().items()} == {
        k: own.shape for k, own in model.parameters().items()
    }
    assert found.dtype == model.dtype
    for mine, other in zip(found.templates, model.templates, strict=True):
        assert len(mine.names) == len(other.names)
        assert torch.equal(mine.codes, other.codes)
    assert len(content) < 12 * sum(map(len, model.templates)) + 5000

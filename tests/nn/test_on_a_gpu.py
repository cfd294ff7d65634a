"""Modules on a GPU give what they give on the processor."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.testing import assert_close

from mrflearn.graph import FactorGraph, FactorGroup
from mrflearn.nn import ChainCRF, FactorGraphCRF, SemiMarkovCRF, TreeCRF, legal_chunks

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def both(module, compute, *tensors):
    """Values and gradients on the processor in double, and on the GPU in single precision."""
    found = []
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.float32)):
        own = copy.deepcopy(module).to(device, dtype)
        leaves = [part.detach().to(device, dtype).requires_grad_() for part in tensors]
        value = compute(own, *leaves)
        gradients = torch.autograd.grad(
            value.sum(), [*leaves, *own.parameters()], allow_unused=True
        )
        found.append([value, *(part for part in gradients if part is not None)])
    for slow, fast in zip(*found, strict=True):
        assert_close(fast.double().cpu(), slow, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("labels", [5, 25, 200])
def test_chains(order, labels):
    if order * labels > 100:
        pytest.skip("order 2 is for few labels")
    torch.manual_seed(0)
    crf = ChainCRF(labels, batch_first=True, order=order)
    emissions, tags = torch.randn(4, 30, labels), torch.randint(-1, labels, (4, 30))
    mask = torch.rand(4, 30) < 0.8
    both(crf, lambda own, e: own(e, tags.to(e.device), mask.to(e.device), "none"), emissions)
    there = copy.deepcopy(crf).cuda()
    given = emissions.cuda(), mask.cuda()
    assert there.decode(*given) == crf.decode(emissions, mask)
    assert_close(
        there.marginals(*given).cpu(), crf.marginals(emissions, mask), rtol=1e-4, atol=1e-5
    )
    assert_close(there.entropy(*given).cpu(), crf.entropy(emissions, mask), rtol=1e-4, atol=1e-4)
    paths, scores = there.n_best(given[0], 3, given[1])
    slow_paths, slow_scores = crf.n_best(emissions, 3, mask)
    assert_close(scores.cpu(), slow_scores, rtol=1e-4, atol=1e-3)
    assert torch.equal(paths[0].cpu(), slow_paths[0])
    assert there.sample(given[0], 2, given[1]).shape == (2, 4, 30)


def test_constraints_and_scores_of_steps():
    torch.manual_seed(1)
    crf = ChainCRF(3, constraints=legal_chunks(["O", "B-X", "I-X"], "IOB2"))
    emissions, steps = torch.randn(9, 4, 3), torch.randn(9, 4, 3, 3)
    unknown = torch.full((9, 4), -1)
    unknown[2] = 1
    both(crf, lambda own, e, s: own(e, unknown.to(e.device), None, "none", s), emissions, steps)


def test_local_losses():
    torch.manual_seed(2)
    crf, emissions, tags = ChainCRF(6), torch.randn(9, 4, 6), torch.randint(6, (9, 4))
    for kind in ("pl", "pw", "pwpl"):
        both(crf, lambda own, e, k=kind: own.loss(e, tags.to(e.device), estimator=k), emissions)


def test_segments_trees_and_graphs():
    torch.manual_seed(3)
    both(SemiMarkovCRF(3, 4), lambda own, e: own.log_partition(e), torch.randn(12, 2, 3))
    both(TreeCRF(3, 4), lambda own, w: own.log_partition(w), torch.randn(2, 6, 4))
    groups = FactorGroup("node", [[0], [1], [2]]), FactorGroup("edge", [[0, 1], [1, 2], [0, 2]])
    graph, labels = FactorGraph([3, 3, 3], groups), torch.tensor([0, 2, 1])
    crf = FactorGraphCRF({"node": (3,), "edge": (3, 3)})
    for kind in ("ml", "bp", "pl", "edge-pl", "pw", "pwpl", "lap"):
        both(
            crf,
            lambda own, e, k=kind: own.loss(
                graph.to(e.device), {"node": e}, labels.to(e.device), "none", k
            ),
            torch.randn(3, 3),
        )

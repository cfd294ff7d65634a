"""Words summed out by matrix products against the plain log-sum, values and gradients."""

from __future__ import annotations

import pytest
import torch

from mrflearn.kernels import log_product


def scores(*shape: int, seed: int, impossible: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = 3 * torch.randn(shape, generator=generator, dtype=torch.float64)
    if impossible:
        drawn[0, 1:] = -torch.inf
        drawn[1:, 0] = -torch.inf
    return drawn


def plain_sums(before, at, after):
    """Every term held at once."""
    scores = before[:, :, None, None] + at[:, None, :, None] + after[:, None, None, :]
    return torch.logsumexp(scores, dim=0)


@pytest.mark.parametrize("impossible", [False, True], ids=["any", "separator"])
@pytest.mark.parametrize("tags", [(1, 4, 1), (1, 4, 4), (4, 4, 1), (4, 4, 4), (2, 3, 4)], ids=str)
def test_fast_sums_agree_with_plain_ones(tags, impossible, monkeypatch):
    monkeypatch.setattr(log_product, "LARGEST_BLOCK", 40)  # several blocks of words
    parts = [
        scores(11, count, seed=place, impossible=impossible and place == 1)
        for place, count in enumerate(tags)
    ]
    weight = scores(*tags, seed=9)
    answers = []
    for function in (log_product.sum_out_words, plain_sums):
        leaves = [part.clone().requires_grad_() for part in parts]
        table = function(*leaves)
        answers.append([table.detach(), *torch.autograd.grad((weight * table).sum(), leaves)])
    for fast, plain in zip(*answers, strict=True):
        torch.testing.assert_close(fast, plain)


def test_tags_that_no_word_allows_are_impossible_and_have_no_slope():
    at = scores(5, 3, seed=2)
    at[:, 1] = -torch.inf
    leaves = [scores(5, 3, seed=1).requires_grad_(), at.requires_grad_()]
    table = log_product.sum_out_words(leaves[0], leaves[1], scores(5, 3, seed=3))
    assert bool((table[:, 1] == -torch.inf).all())
    slopes = torch.autograd.grad(table[:, [0, 2]].sum(), leaves)
    assert all(bool(slope.isfinite().all()) for slope in slopes)

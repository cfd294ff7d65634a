"""The plain twin of `word_sums`: every score at once, in log space."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def sum_out_words(
    before: Float[Tensor, "w i"], at: Float[Tensor, "w j"], after: Float[Tensor, "w k"]
) -> Float[Tensor, "i j k"]:
    """log sum_w exp( before(w, i) + at(w, j) + after(w, k) )."""
    scores = before[:, :, None, None] + at[:, None, :, None] + after[:, None, None, :]
    return torch.logsumexp(scores, dim=0)

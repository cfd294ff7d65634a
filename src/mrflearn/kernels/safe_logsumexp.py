"""Log-sum-exp that autograd can differentiate where nothing is summed."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def safe_logsumexp(scores: Float[Tensor, " n *rest"]) -> Float[Tensor, "*rest"]:
    """Log-sum-exp over the first axis; -inf, of gradient zero, where all entries are -inf.

    The gradient of `torch.logsumexp` is not a number there.
    """
    empty = (scores == -torch.inf).all(0)
    # Twice `where`: the gradient of the branch that is not taken must be finite too.
    safe = torch.where(empty, 0.0, scores)
    return torch.where(empty, -torch.inf, safe.logsumexp(0))

"""What every training principle offers: a model and a batch in, one number out."""

from __future__ import annotations

from typing import Any, Protocol

from jaxtyping import Float
from torch import Tensor


class Objective(Protocol):
    """A number to make small, differentiable in the model's parameters.

    It is in nats and summed over the examples of the batch, so that the values of several batches
    add up to the value of them all.  It holds no penalty: training adds that once.
    """

    def __call__(self, model: Any, batch: Any, /) -> Float[Tensor, ""]: ...

"""A function of weights as a function of other, free ones that they are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from mrflearn.objectives.objective import Evaluation, Objective, ValueAndGradient, evaluate


@final
@dataclass(frozen=True, eq=False)
class Reparametrised:
    """`function` at `weights(free)`, with its gradient pulled back to the free weights.

    `pull_back` takes that gradient and the free weights.
    """

    function: ValueAndGradient
    weights: Callable[[Tensor], Tensor]
    pull_back: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, free: Float[Tensor, "q"]) -> Evaluation:
        found = evaluate(self.function, self.weights(free))
        return replace(found, gradient=self.pull_back(found.gradient, free))

    @property
    def branches(self) -> bool:
        """Whether the value may leap from one branch of solutions to another."""
        return isinstance(self.function, Objective) and self.function.branches

    def commit(self) -> None:
        """Keep the warm start of the last evaluation."""
        if isinstance(self.function, Objective):
            self.function.commit()

    def state(self) -> dict[str, Tensor]:
        """The committed warm start."""
        return self.function.state() if isinstance(self.function, Objective) else {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""
        if isinstance(self.function, Objective):
            self.function.restore(state)


def tied(function: ValueAndGradient, number: Int64[Tensor, "p"]) -> Reparametrised:
    """The function of free weights where weight i is free weight `number[i]`."""
    return Reparametrised(
        function,
        lambda free: free[number],
        lambda gradient, free: torch.zeros_like(free).index_add_(0, number, gradient),
    )


def shifted(function: ValueAndGradient, origin: Float[Tensor, "p"]) -> Reparametrised:
    """The function of the difference from `origin`."""
    return Reparametrised(
        function, lambda free: free + origin.to(free), lambda gradient, _free: gradient
    )

"""The left-context log-bilinear language model, the baseline of Jernite, Rush & Sontag 2015.

A. Mnih & G. Hinton, Three new graphical models for statistical language modelling, ICML 2007.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, final

import torch
from jaxtyping import Float, Int
from torch import Tensor


@final
@dataclass(frozen=True, eq=False)
class LogBilinearModel:
    """p(w | context) ~ exp(q . vector(w) + bias(w)), q = sum over l of vector(w_l) transition(l).

    w_l is the word at distance l to the left; words have one vector for both roles.
    """

    vectors: Float[Tensor, "v d"]
    transitions: Float[Tensor, "k d d"]
    bias: Float[Tensor, "v"]

    @classmethod
    def start(
        cls, log_frequency: Float[Tensor, "v"], context: int, dims: int, generator: torch.Generator
    ) -> Self:
        """Small random vectors around the unigram model."""

        def small(*shape: int) -> Tensor:
            return 0.1 * torch.randn(*shape, generator=generator, dtype=log_frequency.dtype)

        return cls(small(len(log_frequency), dims), small(context, dims, dims), log_frequency)

    def parameters(self) -> dict[str, Tensor]:
        return {"vectors": self.vectors, "transitions": self.transitions, "bias": self.bias}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> Self:
        return type(self)(**parameters)

    def predictions(self, contexts: Int[Tensor, "b k"]) -> Float[Tensor, "b d"]:
        """The vector that each context expects to come next."""
        return torch.einsum("bki,kij->bj", self.vectors[contexts], self.transitions)

    def scores(self, contexts: Int[Tensor, "b k"]) -> Float[Tensor, "b v"]:
        """Unnormalised log-probabilities of every next symbol."""
        return torch.addmm(self.bias, self.predictions(contexts), self.vectors.T)

    def log_probabilities(
        self, contexts: Int[Tensor, "b k"], targets: Int[Tensor, "b"]
    ) -> Float[Tensor, "b"]:
        """The log-probability of each target after its context, in nats."""
        scores = self.scores(contexts)
        return scores.gather(1, targets[:, None])[:, 0] - scores.logsumexp(1)

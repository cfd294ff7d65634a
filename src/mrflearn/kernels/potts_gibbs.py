"""Gibbs sampling of a complete Potts field: sites in turn, all chains at once.

The scores of a site's states in all chains are (one-hot states) @ (couplings of the site): sums of
looked-up rows on the CPU, a matrix product on a GPU.  Letters: n chains, v variables, s states.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from mrflearn.execution.recording import recorded

Chains = Int[Tensor, "n v"]


class PottsGibbs:
    """Sweeps over all variables of complete fields of one size, with buffers of their own.

    On a GPU the launches of a sweep are recorded once, and replayed.
    """

    def __init__(self, chains: int, fields: Float[Tensor, "v s"]) -> None:
        (variables, states), device = fields.shape, fields.device
        self.first = torch.arange(variables, device=device) * states
        self.fields = torch.zeros_like(fields)
        self.sites = fields.new_zeros(variables, variables * states, states)
        self.codes = self.first.expand(chains, -1).clone()
        size = variables * states
        self.ones = one_hot(self.codes, size, fields.dtype) if fields.is_cuda else None
        self.uniform = fields.new_zeros(variables, chains, 1)
        self.below = 1 - 4 * torch.finfo(fields.dtype).eps
        self.sweep = recorded(self._sweep, self.uniform)

    def __call__(
        self,
        fields: Float[Tensor, "v s"],
        couplings: Float[Tensor, "v s v s"],
        chains: Chains,
        sweeps: int,
        generator: torch.Generator,
    ) -> Chains:
        """The chains after so many sweeps; `couplings` as in `spread`, those to itself zero."""
        variables, states = fields.shape
        # The couplings of each site with all others, one site after the other.
        blocks = couplings.reshape(variables * states, variables, states).transpose(0, 1)
        self.fields.copy_(fields)
        self.sites.copy_(blocks)
        self.codes.copy_(chains + self.first)
        if self.ones is not None:
            self.ones.zero_().scatter_(1, self.codes, 1)
        for _ in range(sweeps):
            self.sweep(self.uniform.uniform_(0, self.below, generator=generator))
        return (self.codes - self.first).to(chains.dtype)

    def _sweep(self, uniform: Float[Tensor, "v n 1"]) -> tuple[Tensor, Tensor]:
        """Every variable of every chain drawn again, in place."""
        codes, ones, (variables, states) = self.codes, self.ones, self.fields.shape
        for site in range(variables):
            if ones is None:
                scores = embedding_bag(codes, self.sites[site], mode="sum").add_(self.fields[site])
            else:
                scores = torch.addmm(self.fields[site], ones, self.sites[site])
            weights = scores.sub_(scores.amax(dim=1, keepdim=True)).exp_().cumsum(dim=1)
            chosen = (weights <= uniform[site] * weights[:, -1:]).sum(dim=1, keepdim=True)
            torch.add(chosen, site * states, out=codes[:, site : site + 1])
            if ones is not None:
                ones[:, site * states : (site + 1) * states].zero_().scatter_(1, chosen, 1)
        return codes, uniform


def one_hot(codes: Int[Tensor, "n v"], size: int, dtype: torch.dtype) -> Float[Tensor, "n c"]:
    """A one for each code of a row."""
    return torch.zeros(len(codes), size, dtype=dtype, device=codes.device).scatter_(1, codes, 1)


def joint_frequencies(
    rows: Chains, states: int, weights: Float[Tensor, " n"] | None = None
) -> Float[Tensor, "v s v s"]:
    """How often two variables are in two states together; the diagonal blocks hold those of one.

    Rows with one of both missing (-1) count for neither.
    """
    variables = rows.shape[1]
    codes = rows.long() + states * torch.arange(variables, device=rows.device)
    codes = codes.masked_fill_(rows < 0, variables * states)
    ones = one_hot(codes, variables * states + 1, torch.float32)[:, :-1]
    own = ones.new_ones(len(rows)) if weights is None else weights.to(ones)
    weighted = ones * (own / own.sum()).unsqueeze(1)
    return (weighted.t() @ ones).view(variables, states, variables, states)

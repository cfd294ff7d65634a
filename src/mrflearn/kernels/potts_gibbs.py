"""Gibbs sampling of a complete Potts field: sites in turn, all chains at once.

The scores of a site's states in all chains are (one-hot states) @ (couplings of the site): sums of
looked-up rows on the CPU, a matrix product on a GPU.  Letters: n chains, v variables, s states.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

Chains = Int[Tensor, "n v"]


def potts_sweeps(
    fields: Float[Tensor, "v s"],
    couplings: Float[Tensor, "v s v s"],
    chains: Chains,
    sweeps: int,
    generator: torch.Generator,
) -> Chains:
    """The chains after so many sweeps over all variables; `couplings` as in `spread`.

    A variable's own block must be zero.
    """
    (count, variables), states = chains.shape, fields.shape[1]
    first = torch.arange(variables, device=chains.device) * states
    codes = chains.long() + first
    # The couplings of each site with all others, one after the other.
    sites = couplings.reshape(variables * states, variables, states).transpose(0, 1).contiguous()
    ones = one_hot(codes, variables * states, fields.dtype) if chains.is_cuda else None
    below = 1 - 4 * torch.finfo(fields.dtype).eps
    for _ in range(sweeps):
        uniform = torch.rand(
            (variables, count, 1), generator=generator, dtype=fields.dtype, device=chains.device
        )
        uniform.mul_(below)
        for site in range(variables):
            if ones is None:
                scores = embedding_bag(codes, sites[site], mode="sum").add_(fields[site])
            else:
                scores = torch.addmm(fields[site], ones, sites[site])
            weights = scores.sub_(scores.amax(dim=1, keepdim=True)).exp_().cumsum(dim=1)
            chosen = (weights <= uniform[site] * weights[:, -1:]).sum(dim=1, keepdim=True)
            codes[:, site : site + 1] = chosen + site * states
            if ones is not None:
                ones[:, site * states : (site + 1) * states].zero_().scatter_(1, chosen, 1)
    return (codes - first).to(chains.dtype)


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

"""Whether chains agree, and how many independent draws theirs are worth."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.errors import InferenceError

LEAST_DRAWS = 4  # of each chain


def split_r_hat(traces: Float[Tensor, "d n *x"]) -> Float[Tensor, "*x"]:
    """Potential scale reduction of d draws of n chains, each cut in two halves.

    [Gelman et al., Bayesian Data Analysis, eq. 11.4].  1 where nothing ever varies, infinite where
    chains differ and none of them moves.
    """
    half = len(traces) // 2
    if len(traces) < LEAST_DRAWS:
        raise InferenceError(
            f"R-hat needs at least {LEAST_DRAWS} draws of a chain, not {len(traces)}."
        )
    halves = torch.cat([traces[:half], traces[len(traces) - half :]], dim=1)
    within = halves.var(dim=0).mean(dim=0)
    between = halves.mean(dim=0).var(dim=0)
    ratio = torch.where(between > 0, between / within, 0.0)
    return ((half - 1) / half + ratio).sqrt().clamp(min=1.0)


def effective_draws(traces: Float[Tensor, "d n *x"]) -> Float[Tensor, "*x"]:
    """How many independent draws d draws of n chains are worth for estimating a mean.

    Autocorrelations are summed in pairs for as long as the pairs are positive, and not allowed to
    rise again [Geyer 1992, section 3.3]; n d where nothing ever varies.
    """
    draws, chains = traces.shape[:2]
    if draws < LEAST_DRAWS:
        raise InferenceError(
            f"effective draws need at least {LEAST_DRAWS} draws of a chain, not {draws}."
        )
    centred = traces - traces.mean(dim=0, keepdim=True)
    spectrum = torch.fft.rfft(centred, n=2 * draws, dim=0)
    covariance = torch.fft.irfft(spectrum.abs().square(), n=2 * draws, dim=0)[:draws].mean(1)
    covariance = covariance / draws
    within = covariance[0] * draws / (draws - 1)
    between = traces.mean(dim=0).var(dim=0) if chains > 1 else torch.zeros_like(within)
    spread = covariance[0] + between
    correlation = 1 - (within - covariance) / spread
    pairs = correlation[: draws // 2 * 2].unflatten(0, (-1, 2)).sum(dim=1)
    positive = (pairs > 0).cumprod(dim=0)
    pairs = torch.where(positive > 0, pairs.cummin(dim=0).values, 0.0)
    worth = chains * draws / (2 * pairs.sum(dim=0) - 1).clamp(min=1 / draws)
    return torch.where(spread > 0, worth.clamp(max=float(chains * draws)), chains * draws)

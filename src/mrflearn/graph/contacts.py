"""How strongly two columns of an alignment are coupled, corrected for what each has with all."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import GraphError

Matrix = Float[Tensor, "v v"]


def contact_scores(
    edges: Int[Tensor, "e 2"],
    couplings: Float[Tensor, "e s s"],
    variables: int,
    *,
    gap: int | None = 0,
) -> Matrix:
    """Symmetric scores of all pairs of variables, zero on the diagonal, none below zero.

    Frobenius norm of the zero-sum coupling without the state of the `gap` [Ekeberg et al. 2013,
    eq. 31], then the average product correction [Dunn et al. 2008]; the least score is made 0, as
    CCMpred's.
    """
    if variables < 3:
        raise GraphError(f"{variables} columns have no contacts to compare; at least 3 are needed.")
    table = couplings.double()
    table = table - table.mean(dim=1, keepdim=True) - table.mean(dim=2, keepdim=True)
    table = table + couplings.double().mean(dim=(1, 2), keepdim=True)
    norms = table.new_zeros(variables, variables)
    if gap is not None:
        table[:, gap] = table[:, :, gap] = 0
    norms[edges[:, 0], edges[:, 1]] = table.square().sum(dim=(1, 2)).sqrt()
    return average_product_corrected(norms + norms.t())


def average_product_corrected(norms: Matrix) -> Matrix:
    """Norms minus (row mean * column mean / mean), shifted so that the least pair has 0."""
    mean = norms.mean()
    if float(mean) == 0:
        return norms
    means = norms.mean(dim=0)
    corrected = norms - means.unsqueeze(1) * means / mean
    diagonal = torch.eye(len(norms), dtype=torch.bool, device=norms.device)
    least = corrected.masked_fill(diagonal, torch.inf).min()
    return (corrected - least).masked_fill(diagonal, 0.0)


def strongest_pairs(scores: Matrix, count: int, *, apart: int = 4) -> Int[Tensor, "k 2"]:
    """The `count` pairs of highest score among those at least `apart` columns from each other."""
    scores = torch.as_tensor(scores)
    first, second = torch.triu_indices(len(scores), len(scores), apart, device=scores.device)
    order = scores[first, second].argsort(descending=True, stable=True)[:count]
    return torch.stack((first[order], second[order]), dim=1)

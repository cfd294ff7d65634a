"""Weights that make up for near copies: a sequence counts 1 / (how many are as good as the same).

Families in databases are sampled unevenly; without this, relatives of much-studied species would
speak many times.  [Morcos et al. 2011, eq. 2 of the supplement]
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.kernels.potts_pseudolikelihood import CodedRows

Rule = Literal["ccmpred", "plmc"]
BLOCK = 64  # sequences compared with all others at once; keeps the sums in cache


def agreeing_columns(identity: float, columns: int, rule: Rule = "ccmpred") -> int:
    """In how many columns two sequences must agree to count as copies.

    CCMpred asks for *more than* ceil(identity * columns), plmc for at least identity * columns.
    """
    if not 0 < identity <= 1:
        raise DataError(f"an identity of {identity} is no share of columns; 0.8 is usual.")
    # Shares such as 0.8 are not exact in binary: 0.8 * 75 must not be rounded up to 61.
    at_least = math.ceil(identity * columns - 1e-9 * columns)
    return at_least + 1 if rule == "ccmpred" else at_least


def sequence_weights(
    rows: Int[Tensor, "n v"], states: int, identity: float = 0.8, rule: Rule = "ccmpred"
) -> Float[Tensor, " n"]:
    """1 / (how many sequences, itself included, agree with it in that share of columns)."""
    needed = agreeing_columns(identity, rows.shape[1], rule)
    coded = CodedRows.of(rows, states)
    copies = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    for start in range(0, len(rows), BLOCK):
        codes = coded.codes[start : start + BLOCK].long()
        ones = torch.zeros(len(coded.starts), len(codes), device=rows.device)
        ones.scatter_(0, codes.t(), 1)
        copies += (coded.times(ones) >= needed).sum(dim=1)
    # Where "more than the share" is more than all columns, a sequence is still its own copy.
    return 1 / copies.clamp_(min=1)

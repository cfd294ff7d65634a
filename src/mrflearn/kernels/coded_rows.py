"""Rows of states as positions in one long one-hot vector, and sums over them by table look-up.

A row with states x_1 .. x_v is a one-hot vector of v * s entries with v ones; its entry for state a
of variable k stands at k * s + a.  Products with that matrix need no multiplication: they add up
the v rows of the other factor that the ones name.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows by their ones (`codes`), and for each one the rows that have it (`holders`)."""

    codes: Int[Tensor, "n v"]
    states: int
    holders: Int[Tensor, " m"]  # m = n v; rows grouped by code
    starts: Int[Tensor, " c"]  # c = v s; where each code's group begins

    @classmethod
    def of(cls, rows: Int[Tensor, "n v"], states: int) -> CodedRows:
        """The same rows, indexed both ways."""
        variables = rows.shape[1]
        codes = rows.long() + states * torch.arange(variables, device=rows.device)
        holders = codes.reshape(-1).argsort(stable=True) // max(variables, 1)
        sizes = torch.bincount(codes.reshape(-1), minlength=variables * states)
        # Look-ups by 32-bit positions read half the memory.
        narrow = torch.int32 if codes.numel() < 2**31 else torch.int64
        return cls(
            codes.to(narrow), states, holders.to(narrow), (sizes.cumsum(0) - sizes).to(narrow)
        )

    def __len__(self) -> int:
        return len(self.codes)

    def times(self, matrix: Float[Tensor, "c k"]) -> Float[Tensor, "n k"]:
        """One-hot rows @ matrix: for each row the sum of the matrix's rows that it names."""
        return embedding_bag(self.codes, matrix, mode="sum")

    def transposed_times(self, matrix: Float[Tensor, "n k"]) -> Float[Tensor, "c k"]:
        """(One-hot rows)^T @ matrix: for each code the sum over the rows that have it."""
        return embedding_bag(self.holders, matrix, self.starts, mode="sum")

    def one_hot(self, dtype: torch.dtype) -> Float[Tensor, "n c"]:
        """The matrix itself."""
        ones = torch.zeros(len(self), len(self.starts), dtype=dtype, device=self.codes.device)
        return ones.scatter_(1, self.codes.long(), 1)

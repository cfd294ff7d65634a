"""Pseudolikelihood of a complete Potts field and its gradient, one block of variables at a time.

Scores of all states of some variables are (one-hot rows) @ (couplings); the gradient is
(one-hot rows)^T @ (expected - observed).  On the CPU both are sums of looked-up rows, narrow enough
to stay in cache; on a GPU they are matrix products.  Letters: n rows, v variables, s states.

A row with states x_1 .. x_v is a one-hot vector of v * s entries with v ones; its entry for state a
of variable k stands at k * s + a.  Products with that matrix need no multiplication: they add up
the v rows of the other factor that the ones name.  A missing value (-1) has no one: its conditional
does not count, and it says nothing to others (plmc's -g, where the gap is no state).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

from mrflearn.kernels.chain_sums import row_maxima

CACHED_COLUMNS = 84  # of the coupling matrix at once: 4 amino-acid positions, half a megabyte
GPU_COLUMNS = 4096


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows by their ones (`codes`), and for each one the rows that have it (`holders`).

    Missing values have one code more, the last, whose row of any matrix is nothing.
    """

    codes: Int[Tensor, "n v"]
    states: int
    holders: Int[Tensor, " m"]  # m = n v; rows grouped by code
    starts: Int[Tensor, " c"]  # c = v s, or one more; where each code's group begins
    missing: Bool[Tensor, "n v"] | None = None

    @classmethod
    def of(cls, rows: Int[Tensor, "n v"], states: int) -> CodedRows:
        """The same rows, indexed both ways."""
        variables = rows.shape[1]
        codes = rows.long() + states * torch.arange(variables, device=rows.device)
        missing, size = rows < 0, variables * states
        gaps = bool(missing.any())
        codes = codes.masked_fill_(missing, size)
        holders = codes.reshape(-1).argsort(stable=True) // max(variables, 1)
        sizes = torch.bincount(codes.reshape(-1), minlength=size + gaps)
        # Look-ups by 32-bit positions read half the memory.
        narrow = torch.int32 if codes.numel() < 2**31 else torch.int64
        starts = (sizes.cumsum(0) - sizes).to(narrow)
        return cls(codes.to(narrow), states, holders.to(narrow), starts, missing if gaps else None)

    def __len__(self) -> int:
        return len(self.codes)

    def times(self, matrix: Float[Tensor, "c k"]) -> Float[Tensor, "n k"]:
        """One-hot rows @ matrix: for each row the sum of the matrix's rows that it names."""
        return embedding_bag(self.codes, self._padded(matrix), mode="sum")

    def transposed_times(self, matrix: Float[Tensor, "n k"]) -> Float[Tensor, "c k"]:
        """(One-hot rows)^T @ matrix: for each code the sum over the rows that have it."""
        found = embedding_bag(self.holders, matrix, self.starts, mode="sum")
        return found if self.missing is None else found[:-1]

    def one_hot(self, dtype: torch.dtype) -> Float[Tensor, "n c"]:
        """The matrix itself."""
        ones = torch.zeros(len(self), len(self.starts), dtype=dtype, device=self.codes.device)
        ones.scatter_(1, self.codes.long(), 1)
        return ones if self.missing is None else ones[:, :-1]

    def _padded(self, matrix: Float[Tensor, "c k"]) -> Tensor:
        """The matrix with a row of zeros for missing values, where there are any."""
        return matrix if self.missing is None else pad(matrix, (0, 0, 0, 1))

    def block(self, block: slice) -> tuple[Int[Tensor, "n k 1"], Bool[Tensor, "n k 1"] | None]:
        """The states of some variables in each row, and which are missing (their state is 0)."""
        absent = None if self.missing is None else self.missing[:, block].unsqueeze(-1)
        return (self.codes[:, block].long() % self.states).unsqueeze(-1), absent


def potts_pseudolikelihood(
    fields: Float[Tensor, "v s"],
    couplings: Float[Tensor, "v s v s"],
    rows: CodedRows,
    weights: Float[Tensor, " n"],
) -> tuple[Float[Tensor, " v"], Float[Tensor, "v s"], Float[Tensor, "v s v s"]]:
    """-sum over rows of weight * log p(variable | others), by variable; the gradients of their sum.

    `couplings[k, b, j, a]` is added to the score of state a of variable j where variable k is in
    state b; blocks of a variable with itself must be zero, and their gradient means nothing.
    """
    variables, states = fields.shape
    matrix = couplings.reshape(variables * states, variables * states)
    gradient = torch.empty_like(matrix)
    field_gradient = torch.empty_like(fields)
    losses = torch.empty(variables, dtype=torch.float64, device=fields.device)
    times, transposed_times, columns = _products(rows, fields)
    width = max(1, columns // states)
    for start in range(0, variables, width):
        block = slice(start, min(start + width, variables))
        flat = slice(block.start * states, block.stop * states)
        scores = times(matrix[:, flat].contiguous()).view(len(rows), -1, states)
        scores = scores.add_(fields[block])
        losses[block] = _loss(scores, *rows.block(block), weights)
        field_gradient[block] = scores.sum(dim=0)
        gradient[:, flat] = transposed_times(scores.view(len(rows), -1))
    return losses, field_gradient, gradient.view_as(couplings)


def _loss(
    scores: Float[Tensor, "n k s"],
    seen: Int[Tensor, "n k 1"],
    absent: Bool[Tensor, "n k 1"] | None,
    weights: Float[Tensor, " n"],
) -> Float[Tensor, " k"]:
    """The weighted losses of the block; `scores` become its gradient with respect to them."""
    chosen = scores.gather(-1, seen)
    highest = row_maxima(scores.flatten(0, 1)).view_as(chosen)
    scores.sub_(highest).exp_()
    total = scores.sum(dim=-1, keepdim=True)
    losses = (total.log() + highest - chosen).squeeze(-1)
    column = weights.view(-1, 1, 1)
    if absent is not None:
        losses = losses.masked_fill_(absent.squeeze(-1), 0.0)
        column = column.masked_fill(absent, 0.0)
    scores.mul_(column / total)
    scores.scatter_add_(-1, seen, -column.expand_as(seen))
    return weights.double() @ losses.double()


Product = Callable[[Tensor], Tensor]


def _products(rows: CodedRows, like: Tensor) -> tuple[Product, Product, int]:
    """Both products with the one-hot rows, and how many columns to hand them at once."""
    if like.device.type == "cpu":
        return rows.times, rows.transposed_times, CACHED_COLUMNS
    ones = rows.one_hot(like.dtype)
    return (lambda matrix: ones @ matrix), (lambda matrix: ones.t() @ matrix), GPU_COLUMNS

"""The kernels of packed chains on padded batches, as enumeration and the plain twin have them.

Letters in shapes: b: sequences; n: positions; s: states; m: assignments kept; d: draws.
A transition table is shared by all positions (s s) or belongs to the step from position t to
t + 1 (b n-1 s s).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mrflearn.kernels import chain_search, chain_sums
from mrflearn.kernels.chain_sums import Steps


def log_partition(
    unary: Float[Tensor, "b n s"], transition: Float[Tensor, "*b_n s s"], lengths: Int[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """log Z of each sequence, differentiable in both tables; 0 for a sequence of length 0."""
    return chain_sums.log_partition(*_rows(unary, transition, lengths))


def marginals(
    unary: Float[Tensor, "b n s"], transition: Float[Tensor, "*b_n s s"], lengths: Int[Tensor, " b"]
) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n s"], Float[Tensor, "b n-1 s s"]]:
    """log Z, the probability of each state, and of each pair of neighbouring states.

    Both are zero beyond a sequence's length, and all zero where no assignment is possible.
    """
    rows, table, steps = _rows(unary, transition, lengths)
    value, single, pair = chain_sums.marginals(rows, table, steps)
    b, n, s = unary.shape
    padded = pair.new_zeros(b * max(n - 1, 0), s, s)
    padded[_step_source(steps, n)] = pair
    return value, steps.unpack(single, b * n).view(b, n, s), padded.view(b, max(n - 1, 0), s, s)


def entropy(
    unary: Float[Tensor, "b n s"], transition: Float[Tensor, "*b_n s s"], lengths: Int[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """The entropy of each sequence's distribution, in nats."""
    return chain_sums.entropy(*_rows(unary, transition, lengths))


def viterbi(
    unary: Float[Tensor, "b n s"], transition: Float[Tensor, "*b_n s s"], lengths: Int[Tensor, " b"]
) -> tuple[Int[Tensor, "b n"], Float[Tensor, " b"]]:
    """A best assignment of each sequence (0 beyond its length) and its score."""
    rows, table, steps = _rows(unary, transition, lengths)
    path, score = chain_search.viterbi(rows, table, steps)
    return steps.unpack(path, unary.shape[:2].numel()).view(unary.shape[:2]), score


def n_best(
    unary: Float[Tensor, "b n s"],
    transition: Float[Tensor, "*b_n s s"],
    lengths: Int[Tensor, " b"],
    count: int,
) -> tuple[Int[Tensor, "b m n"], Float[Tensor, "b m"]]:
    """The `count` best assignments of each sequence, best first; -inf where there are fewer."""
    rows, table, steps = _rows(unary, transition, lengths)
    paths, scores = chain_search.n_best(rows, table, steps, count)
    b, n = unary.shape[:2]
    return steps.unpack(paths, b * n).view(b, n, count).transpose(1, 2), scores


def sample(
    unary: Float[Tensor, "b n s"],
    transition: Float[Tensor, "*b_n s s"],
    lengths: Int[Tensor, " b"],
    count: int,
    generator: torch.Generator,
) -> Int[Tensor, "d b n"]:
    """Independent draws of every sequence (0 beyond its length)."""
    rows, table, steps = _rows(unary, transition, lengths)
    drawn = chain_search.sample(rows, table, steps, count, generator)
    b, n = unary.shape[:2]
    return steps.unpack(drawn.t(), b * n).t().reshape(count, b, n)


def _rows(unary: Tensor, transition: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Steps]:
    steps = Steps.of(lengths, width=unary.shape[1])
    rows = steps.pack(unary.flatten(0, 1))
    if transition.ndim == 2:
        return rows, transition, steps
    return rows, transition.flatten(0, 1)[_step_source(steps, unary.shape[1])], steps


def _step_source(steps: Steps, width: int) -> Int[Tensor, " q"]:
    """Where the step into each later row stands among b x (n - 1) steps."""
    source = steps.source[steps.starting :]
    return source - source.div(max(width, 1), rounding_mode="floor") - 1

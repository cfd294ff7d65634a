"""Between terms in the reference gauge, scores of joint states, and moments.

A table over n variables is held as (x, q): x joint states, the last variable changing fastest, and
q problems side by side.  In the reference gauge a field is a sum of *terms*: the term at index a
counts in the joint state x if every variable has a_i = x_i or a_i = 0, so that 0 reads "absent".
The *moment* at index a is, with the same reading, the mass of all states that agree with a where a
is not 0.  The two maps are each other's adjoints, and take n passes instead of x^2 steps:

    scores = Z terms        moments = Z' masses        E[f_a f_b] = moment at the join of a, b
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def scores_of_terms(terms: Float[Tensor, "x q"], sizes: Sequence[int]) -> Float[Tensor, "x q"]:
    """The score of every joint state: all terms that count there, summed."""
    scores = terms.clone()
    for block in _axes(scores, sizes):
        block[:, 1:] += block[:, :1]
    return scores


def moments(
    masses: Float[Tensor, "k*x q"], sizes: Sequence[int], tables: int = 1
) -> Float[Tensor, "k*x q"]:
    """The mass of all joint states in which each term counts, for k tables end to end."""
    summed = masses.clone()
    for block in _axes(summed, sizes, tables):
        for state in range(1, block.shape[1]):
            block[:, 0] += block[:, state]
    return summed


def with_missing(masses: Float[Tensor, "x q"], sizes: Sequence[int]) -> Float[Tensor, "z q"]:
    """Masses with one more state a variable, its last: "not seen", the sum of all its states."""
    problems = masses.shape[-1]
    before, after = 1, len(masses)
    for size in sizes:
        after //= size
        block = masses.reshape(before, size, after * problems)
        masses = torch.cat([block, block.sum(dim=1, keepdim=True)], dim=1)
        before *= size + 1
    return masses.reshape(-1, problems)


def without_missing(masses: Float[Tensor, "z q"], sizes: Sequence[int]) -> Float[Tensor, "x q"]:
    """The adjoint of `with_missing`: what was not seen counts for every state."""
    problems = masses.shape[-1]
    before, after = 1, len(masses)
    for size in sizes:
        after //= size + 1
        block = masses.reshape(before, size + 1, after * problems)
        masses = block[:, :-1] + block[:, -1:]
        before *= size
    return masses.reshape(-1, problems)


def _axes(
    table: Float[Tensor, "k*x q"], sizes: Sequence[int], tables: int = 1
) -> Iterator[Float[Tensor, "b s r"]]:
    """Views of the tables, one a variable, with that variable's states on the middle axis."""
    before = tables
    for size in sizes:
        yield table.view(before, size, len(table) // (before * size) * table.shape[1])
        before *= size

"""What the rules of a normalised grammar say about sentences of which only the beginning is known.

Letters in shapes: a: phrases; s: symbols; r: rules.  Probabilities, not logarithms.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.rules import RuleShape

STEPS = (
    100  # Newton's method doubles the right digits, or gains one bit where a grammar is critical
)


def ending(rules: Float[Tensor, " r"], shape: RuleShape) -> Float[Tensor, " s"]:
    """The probability that what a symbol is rewritten to is finite; 1 for preterminals.

    The least solution of e(A) = sum of p(A -> B C) e(B) e(C), by Newton's method from 0, which
    climbs towards it from below [Etessami and Yannakakis 2009].
    """
    if _is_consistent(rules, shape):
        return rules.new_ones(shape.symbols)
    found = torch.cat([rules.new_zeros(shape.phrases), rules.new_ones(shape.preterminals)])
    one = torch.eye(shape.phrases, dtype=rules.dtype, device=rules.device)
    for _ in range(STEPS):
        left, right = found[shape.left], found[shape.right]
        value = rules.new_zeros(shape.phrases).index_add(0, shape.parent, rules * left * right)
        slope = rules.new_zeros(shape.phrases, shape.symbols)
        slope.index_put_((shape.parent, shape.left), rules * right, accumulate=True)
        slope.index_put_((shape.parent, shape.right), rules * left, accumulate=True)
        now = found[: shape.phrases]
        step = torch.linalg.solve(one - slope[:, : shape.phrases], value - now)
        found[: shape.phrases] = (now + step).clamp(max=1.0)
        if not len(step) or float(step.abs().max()) < 1e-15:
            break
    return found


def _is_consistent(rules: Float[Tensor, " r"], shape: RuleShape) -> bool:
    """Whether the mean number of phrases shrinks from one generation to a later one.

    True is certain; False may be said of a grammar close to the border.
    """
    phrases = torch.cat([rules.new_ones(shape.phrases), rules.new_zeros(shape.preterminals)])
    for _ in range(STEPS):
        below = rules * (phrases[shape.left] + phrases[shape.right])
        phrases = torch.zeros_like(phrases).index_add(0, shape.parent, below)
        if float(phrases.max()) < 1:
            return True
    return False


def left_corners(
    rules: Float[Tensor, " r"], shape: RuleShape, ends: Float[Tensor, " s"]
) -> Float[Tensor, "s s"]:
    """From a symbol to the symbols that its first words may come from, itself among them.

    I + L + L^2 + ... with L(A, B) the summed probability of rules A -> B C whose C ends
    [Jelinek and Lafferty 1991, "Computation of the probability of initial substring generation"].
    """
    step = rules.new_zeros(shape.symbols, shape.symbols)
    step.index_put_((shape.parent, shape.left), rules * ends[shape.right], accumulate=True)
    one = torch.eye(shape.symbols, dtype=rules.dtype, device=rules.device)
    found: Tensor = torch.linalg.solve(one - step, one)
    return found.clamp(min=0)  # round-off may fall below 0, of which there is no logarithm

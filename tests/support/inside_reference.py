"""Sums over all parses, span by span in plain probabilities: the plain twin of `inside`.

Letters in shapes: b: sentences of one length n; p: preterminals; s: symbols; r: rules.
Everything is differentiable by autograd, so that expected counts are what the paper says they are,
theta / p * dp / dtheta [Wang 2005, section 3].  For small grammars and short sentences.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.kernels.rules import RuleShape


def probability(
    words: Float[Tensor, "b n p"],
    rules: Float[Tensor, " r"],
    start: Float[Tensor, " s"],
    shape: RuleShape,
) -> Float[Tensor, " b"]:
    """The summed weight of all parses of each sentence; nothing is in logarithms."""
    b, n, _ = words.shape
    if not n:
        return words.new_zeros(b)
    above = words.new_zeros(b, n, shape.phrases)
    inside = {(i, i + 1): torch.cat([above, words], dim=2)[:, i] for i in range(n)}
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            # [Wang 2005, section 3], with alpha_ik(B) where the paper prints alpha_ik(A).
            parts = [
                rules * inside[i, k][:, shape.left] * inside[k, j][:, shape.right]
                for k in range(i + 1, j)
            ]
            empty = words.new_zeros(b, shape.symbols)
            inside[i, j] = empty.index_add(1, shape.parent, torch.stack(parts).sum(dim=0))
    return inside[0, n] @ start


def expected_counts(
    words: Float[Tensor, "b n p"],
    rules: Float[Tensor, " r"],
    start: Float[Tensor, " s"],
    shape: RuleShape,
) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n p"], Float[Tensor, " r"], Float[Tensor, " s"]]:
    """Log-likelihoods and expected counts of preterminals, rules and start symbols, from logs.

    Counts of a sentence that has no parse are zero.
    """
    leaves = [x.detach().exp().requires_grad_() for x in (words, rules, start)]
    with torch.enable_grad():
        value = probability(leaves[0], leaves[1], leaves[2], shape)
        possible = value > 0
        total = torch.where(possible, value, 1.0).log().sum()
        slopes = torch.autograd.grad(total, leaves, allow_unused=True)
    counts = [
        leaf.detach() * (torch.zeros_like(leaf) if slope is None else slope)
        for leaf, slope in zip(leaves, slopes, strict=True)
    ]
    return value.detach().log(), counts[0], counts[1], counts[2]

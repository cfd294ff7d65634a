"""New sentences of given lengths from a neighbour model, by Gibbs sampling.

[Jernite, Rush, Sontag 2015, section 3]  The length comes first; then words between separators.
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from mrflearn.graph.neighbour_scores import NeighbourScores


@torch.no_grad()
def gibbs_sentences(
    scores: NeighbourScores,
    separator: int,
    lengths: Int[Tensor, "n"],
    sweeps: int,
    generator: torch.Generator,
) -> list[Int[Tensor, "m"]]:
    """One sentence for each length; every sweep draws each word anew given its neighbours.

    Sentences start from independent words and do not touch, so all are swept together.
    """
    offsets, longest = scores.offsets, int(lengths.max()) if len(lengths) else 0
    single = scores.unary.clone()
    single[separator] = -torch.inf
    rows = scores.unary.new_zeros(len(lengths), 1, dtype=torch.int64)
    lines = torch.full_like(rows.expand(-1, longest + 2 * offsets), separator)
    places = torch.arange(offsets, device=lines.device)
    for sweep in range(sweeps + 1):
        for position in range(longest):
            here = (lengths > position).nonzero().squeeze(1).to(lines.device)
            at = position + offsets
            if sweep == 0:
                choice = single.expand(len(here), -1)
            else:
                own = lines[here]
                choice = scores.conditional(own[:, at - 1 - places], own[:, at + 1 + places])
                choice[:, separator] = -torch.inf
            lines[here, at] = _draw(choice, generator)
    return [
        line[offsets : offsets + length]
        for line, length in zip(lines, lengths.tolist(), strict=True)
    ]


def _draw(scores: Tensor, generator: torch.Generator) -> Int[Tensor, "n"]:
    chances = torch.softmax(scores, dim=1)
    return torch.multinomial(chances, 1, generator=generator).squeeze(1)

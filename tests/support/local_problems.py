"""Local problems small enough to write out: tables of scores by plain loops, random counts."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from mrflearn.graph.neighbourhood import LocalShape

# A pair with two neighbours, the same with a structure among them, three states, a triple.
SHAPES = {
    "given": LocalShape((2, 2, 2, 2), 2, ((0, 1), (0,), (1,), (0, 2), (1, 3))),
    "joint": LocalShape((2, 2, 2, 2), 2, ((0, 1), (0,), (1,), (0, 2), (1, 3)), ((2,), (3,))),
    "potts given": LocalShape((3, 2, 3), 1, ((0,), (0, 1), (0, 2))),
    "potts joint": LocalShape((2, 3, 3), 1, ((0,), (0, 1), (0, 2)), ((1,), (2,), (1, 2))[:2]),
    "partly given": LocalShape(
        (2, 2, 3, 2, 2), 2, ((0, 1), (0,), (0, 2), (1, 3), (1, 4)), ((2,), (2, 4)), 2
    ),
    "triple": LocalShape((2, 2, 3, 2), 2, ((0, 1), (0, 1, 2), (1, 3))),
    "alone": LocalShape((3,), 1, ((0,),)),
}


def random_counts(shape: LocalShape, problems: int, seed: int) -> Tensor:
    """Positive counts, different for each problem."""
    generator = torch.Generator().manual_seed(seed)
    return 5 * torch.rand(shape.cells, problems, generator=generator, dtype=torch.float64) + 0.1


def features(shape: LocalShape) -> Tensor:
    """One row a joint state, one column a term: 1 where the term counts."""
    states = list(itertools.product(*(range(size) for size in shape.sizes)))
    terms = shape.terms.tolist()
    rows = [[all(a in (0, x) for a, x in zip(t, s, strict=True)) for t in terms] for s in states]
    return torch.tensor(rows, dtype=torch.float64)


def plain_loss(shape: LocalShape, counts: Tensor, terms: Tensor) -> Tensor:
    """Minus the log-likelihood of every problem, by autograd-friendly plain operations."""
    scores = (features(shape) @ terms).reshape(-1, shape.contexts, terms.shape[1])
    log_p = scores - scores.logsumexp(dim=0)
    return -(counts.reshape(log_p.shape) * log_p).sum(dim=(0, 1))

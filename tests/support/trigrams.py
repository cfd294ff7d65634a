"""Small trigram fields, and what their definition says of them, term by term."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import Tensor

from mrflearn.features.moments import Moments, moments_of
from mrflearn.models.trigrams import TrigramModel

EDGE = 0


def letters(count: int, seed: int, kinds: str = "abc") -> list[list[str]]:
    """Short sentences of a few words."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 5, count)
    return [[kinds[k] for k in generator.integers(0, len(kinds), size)] for size in sizes]


def random_trigrams(
    seed: int, size: float = 0.7, dtype: torch.dtype = torch.float64, order: int = 3
) -> tuple[TrigramModel, Moments]:
    """A field of 5 words with sparse scores for what 12 sentences have, and their moments."""
    moments = moments_of(letters(12, seed), 2, triples=True, order=order)
    model = TrigramModel.start(moments, 2, seed, torch.zeros(1, dtype=dtype), order)
    generator = torch.Generator().manual_seed(seed)
    drawn = {
        name: size * torch.randn(own.shape, generator=generator, dtype=torch.float64).to(dtype)
        for name, own in model.parameters().items()
    }
    return model.with_parameters(drawn), moments


def score_table(model: TrigramModel) -> Tensor:
    """The score of every triple from the definition, sparse scores as tables."""
    c, vectors = model.states, model.vectors
    sparse = {}
    for name, axes in (("pairs", 2), ("skips", 2), ("triples", 3)):
        full = torch.zeros(c**axes, dtype=torch.float64)
        full[model.codes[name]] = model.sparse[name].double()
        sparse[name] = full.view((c,) * axes)
    near = vectors["left"] @ vectors["right"].T + sparse["pairs"]
    far = vectors["far_left"] @ vectors["far_right"].T + sparse["skips"]
    table = model.unary + near.unsqueeze(0) + far.unsqueeze(1) + sparse["triples"]
    table[1:, EDGE, :] = -math.inf
    table[1:, EDGE, EDGE] = 0.0
    table[EDGE, EDGE, EDGE] = -math.inf
    return table


def window_matrix(model: TrigramModel) -> Tensor:
    """T, with a row and a column for every window of two words."""
    table, c = score_table(model).exp(), model.states
    whole = torch.zeros(c, c, c, c, dtype=torch.float64)
    for x, y, z in itertools.product(range(c), repeat=3):
        whole[x, y, y, z] = table[x, y, z]
    return whole.view(c * c, c * c)


def line_score(table: Tensor, line: list[int]) -> float:
    """The score of words between separators, the second one at the end left out."""
    full = [EDGE, EDGE, *line, EDGE]
    return sum(float(table[three]) for three in zip(full, full[1:], full[2:], strict=False))


def long_scores(model: TrigramModel) -> dict[tuple[int, ...], float]:
    """The scores of n-grams of order 4 and up, by their words."""
    found, c = {}, model.states
    words = [(own // c**2, own // c % c, own % c) for own in model.codes["triples"].tolist()]
    for name in ("order4", "order5")[: model.offsets - 2]:
        words = [(*words[own // c], own % c) for own in model.codes[name].tolist()]
        found |= zip(words, model.sparse[name].tolist(), strict=True)
    return found


def history_table(model: TrigramModel) -> Tensor:
    """The score of every word after every history of K words, an axis each."""
    c, reach, longer = model.states, model.offsets, long_scores(model)
    table = score_table(model).expand((c,) * (reach + 1)).clone()
    for line in itertools.product(range(c), repeat=reach + 1):
        table[line] += sum(longer.get(line[-n:], 0.0) for n in range(4, reach + 2))
    return table


def history_matrix(table: Tensor) -> Tensor:
    """T, with a row and a column for every history."""
    c, reach = len(table), table.dim() - 1
    rows = torch.arange(c**reach).unsqueeze(1)
    columns = rows % c ** (reach - 1) * c + torch.arange(c)
    whole = torch.zeros(c**reach, c**reach, dtype=torch.float64)
    whole[rows, columns] = table.exp().view(-1, c)
    return whole

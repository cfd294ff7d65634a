"""How often each weight counts in the scores of known labels.

Letters in shapes: f: factors of one group; p: all weights of a model.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from mrflearn.models.field_batch import FieldBatch
from mrflearn.models.loglinear import LogLinearField
from mrflearn.models.templates import attributes_of, cells_of
from mrflearn.objectives.local_problems import Problems


def observed_counts(
    model: LogLinearField, batch: FieldBatch, counts: list[Float[Tensor, "f"]]
) -> Float[Tensor, "p"]:
    """How often each weight counts in the scores of known labels, given how often factors do."""
    pieces: list[Tensor] = []
    for index, (count, template) in enumerate(zip(counts, model.templates, strict=True)):
        seen = count.nonzero().squeeze(1)
        scope = batch.graph.groups[index].scope[seen]
        cell = cells_of(batch.states[scope], template.shape)
        pieces.extend(_observed(model, batch, index, seen, cell, count[seen]))
    return torch.cat(pieces)


def times_of(batch: FieldBatch, problems: list[Problems]) -> list[Float[Tensor, "f"]]:
    """How often each factor takes part in problems."""
    counts = [torch.zeros(len(own), dtype=torch.float64) for own in batch.graph.groups]
    for own in problems:
        for part in own.parts:
            counts[part.group].index_add_(0, part.factor, own.weight[part.problem])
    return counts


def _observed(
    model: LogLinearField,
    batch: FieldBatch,
    index: int,
    seen: Tensor,
    cell: Tensor,
    count: Tensor,
) -> Iterator[Tensor]:
    template, features = model.templates[index], batch.features[index]
    row = batch.graph.groups[index].table[seen]
    place, owner = attributes_of(features, row)
    code = features.attributes[place].long() * template.cells + cell[owner]
    value = count[owner]
    if features.values is not None:
        value = value * features.values[place]
    codes = template.attribute * template.cells + template.cell
    total = torch.zeros(len(codes), dtype=torch.float64)
    if len(codes):
        found = torch.searchsorted(codes, code).clamp(max=len(codes) - 1)
        kept = codes[found] == code
        total.index_add_(0, found[kept], value[kept])
    yield total
    if len(model.dense[index]):
        dense = torch.zeros(template.cells, len(template.columns), dtype=torch.float64)
        assert features.dense is not None  # noqa: S101 - its columns have weights
        dense.index_add_(0, cell, features.dense[row].double() * count[:, None])
        yield dense.t().flatten()

"""Piecewise likelihood with pieces of several factors: exact likelihood on the node-split graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Int64
from torch import Tensor

from mrflearn.errors import GraphError
from mrflearn.graph.splitting import split_nodes
from mrflearn.models.field_batch import FieldBatch


def named_pieces(batch: FieldBatch, names: Sequence[Sequence[str]]) -> list[Int64[Tensor, "f"]]:
    """The piece of every factor: in each example, the factors of one list of templates are one."""
    owner = {name: number for number, own in enumerate(names) for name in own}
    known = [group.name for group in batch.graph.groups]
    if sorted(owner) != sorted(known) or sum(map(len, names)) != len(owner):
        raise GraphError(
            f"pieces {[list(own) for own in names]} must name each of the factors {known} once."
        )
    return [
        batch.graph.component_of(group) * len(names) + owner[group.name]
        for group in batch.graph.groups
    ]


def split_batch(batch: FieldBatch, pieces: Sequence[Int64[Tensor, "f"]]) -> FieldBatch:
    """The same labels and features on the node-split graph, whose examples are the pieces."""
    graph, origin = split_nodes(batch.graph, pieces)
    place = torch.full((batch.graph.variables,), -1)
    place[batch.uncertain] = torch.arange(len(batch.uncertain))
    uncertain = (place[origin] >= 0).nonzero().squeeze(1)
    weight = None
    if batch.weight is not None:
        weight = torch.zeros(graph.components, dtype=batch.weight.dtype)
        weight[graph.component] = batch.weight[batch.graph.component[origin]]
    return replace(
        batch,
        graph=graph,
        states=batch.states[origin],
        uncertain=uncertain,
        allowed=batch.allowed[place[origin[uncertain]]],
        weight=weight,
    )

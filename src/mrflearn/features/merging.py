"""The union of two supports, for learning on with new attributes and labels."""

from __future__ import annotations

import torch
from jaxtyping import Int64
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.features import Numbering
from mrflearn.features.support import Support


def merged(first: Support, second: Support) -> Support:
    """All pairs of both; what `first` numbers keeps its number."""
    if first.columns != second.columns and first.columns and second.columns:
        raise DataError("the dense blocks differ from those learned from before.")
    if (first.triples is None) != (second.triples is None):
        raise DataError("the order of the chain differs from that learned before.")
    attributes = Numbering(
        [*first.attributes, *(n for n in second.attributes if n not in first.attributes)]
    )
    labels = Numbering([*first.labels, *(n for n in second.labels if n not in first.labels)])
    attributes.closed = labels.closed = True
    parts = [_renumbered(support, attributes, labels) for support in (first, second)]
    size = len(labels)
    state = torch.unique(torch.cat([a * size + b for a, b, *_ in parts]))
    pair = torch.unique(torch.cat([a * size + b for _, _, a, b, *_ in parts]))
    edge = torch.unique(torch.cat([_code(edges, size) for *_, edges in parts]))
    triples = None
    if first.triples is not None:
        triples = torch.unique(torch.cat([t for *_, t, _ in parts]), dim=0)
    return Support(
        attributes,
        first.columns or second.columns,
        labels,
        state // size,
        state % size,
        pair // size,
        pair % size,
        triples,
        torch.stack([edge // size**2, edge // size % size, edge % size], dim=1),
    )


def positions(support: Support, within: Support) -> tuple[Int64[Tensor, " f"], Int64[Tensor, " e"]]:
    """Where the state and transition weights of one support stand in another; -1: nowhere."""
    attribute, label, source, target, triples, _ = _renumbered(
        support, within.attributes, within.labels
    )
    size = len(within.labels)
    state = _find(attribute * size + label, within.attribute * size + within.label)
    state = state.where((attribute >= 0) & (label >= 0), -1)
    pair = _find(source * size + target, within.source * size + within.target)
    pair = pair.where((source >= 0) & (target >= 0), -1)
    if within.triples is None:
        return state, pair
    place = _find(_code(triples, size), _code(within.triples, size))
    place = torch.where((triples >= 0).all(dim=1) & (place >= 0), place + len(within.source), -1)
    return state, torch.cat([pair, place])


def edge_positions(support: Support, within: Support) -> Int64[Tensor, " h"]:
    """Where the weights of attributes of transitions stand in another support; -1: nowhere."""
    *_, edges = _renumbered(support, within.attributes, within.labels)
    size = len(within.labels)
    place = _find(_code(edges, size), _code(within.edges, size))
    return place.where((edges >= 0).all(dim=1), -1)


def label_places(support: Support, within: Support) -> Int64[Tensor, " s"]:
    """The number of each label of one support in another; -1: it has none."""
    return torch.tensor([within.labels[name] for name in support.labels], dtype=torch.int64)


def _renumbered(
    support: Support, attributes: Numbering, labels: Numbering
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    attribute = torch.tensor([attributes[name] for name in support.attributes], dtype=torch.int64)
    label = torch.tensor([labels[name] for name in support.labels], dtype=torch.int64)
    triples = torch.zeros(0, 3, dtype=torch.int64) if support.triples is None else support.triples
    return (
        attribute[support.attribute],
        label[support.label],
        label[support.source],
        label[support.target],
        label[triples],
        torch.stack([attribute[support.edges[:, 0]], *label[support.edges[:, 1:]].t()], dim=1),
    )


def _code(rows: Int64[Tensor, "n 3"], size: int) -> Int64[Tensor, " n"]:
    return (rows[:, 0] * size + rows[:, 1]) * size + rows[:, 2]


def _find(code: Int64[Tensor, " n"], known: Int64[Tensor, " m"]) -> Int64[Tensor, " n"]:
    """Where each code stands in an ascending list; -1: nowhere."""
    place = torch.searchsorted(known, code)
    found = place < len(known)
    found &= known[place.clamp(max=max(len(known) - 1, 0))] == code if len(known) else False
    return torch.where(found, place, -1)

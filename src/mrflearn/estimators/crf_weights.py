"""The weights of a chain CRF by name: as dicts, the largest of them, and as text to read or edit.

The text has a line a weight, cells set apart by tabs:

    state       ATTRIBUTE  LABEL   WEIGHT
    dense       COLUMN     LABEL   WEIGHT
    transition  LABEL      LABEL   WEIGHT
    triple      LABEL      LABEL   LABEL   WEIGHT
    edge        ATTRIBUTE  LABEL   LABEL   WEIGHT
    label       LABEL                       (once a label, in the order of the model)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.edges import MARK
from mrflearn.features.features import CompiledFeatures, Numbering
from mrflearn.features.support import NO_EDGES, Support
from mrflearn.io.files import PathLike, read_lines, write_text
from mrflearn.models.chain_crf import ChainCRF

StateWeights = dict[tuple[str, str], float]
EdgeWeights = dict[tuple[str, str, str], float]


def state_features(model: ChainCRF) -> StateWeights:
    """{(attribute, label): weight} of all weights that are not 0, dense columns included."""
    support, labels = model.support, list(model.support.labels)
    names = list(support.attributes)
    pairs = zip(support.attribute.tolist(), support.label.tolist(), strict=True)
    weights = _floats(model.state)
    found = {(names[a], labels[s]): w for (a, s), w in zip(pairs, weights, strict=True) if w}
    for column, row in zip(support.columns, model.dense.tolist(), strict=True):
        found |= {(column, label): w for label, w in zip(labels, row, strict=True) if w}
    return found


def transition_features(model: ChainCRF) -> dict[tuple[str, ...], float]:
    """{(label, next label): weight} of all weights that are not 0; triples in a second order."""
    support, labels = model.support, list(model.support.labels)
    rows = torch.stack([support.source, support.target], dim=1).tolist()
    if support.triples is not None:
        rows += support.triples.tolist()
    weights = _floats(model.transition)
    return {
        tuple(labels[s] for s in row): weight
        for row, weight in zip(rows, weights, strict=True)
        if weight
    }


def edge_features(model: ChainCRF) -> EdgeWeights:
    """{(attribute, label before, label): weight} of all weights that are not 0."""
    support, labels = model.support, list(model.support.labels)
    names = list(support.attributes) if len(support.edges) else []
    rows = zip(support.edges.tolist(), _floats(model.edge), strict=True)
    return {
        (names[a].removeprefix(MARK), labels[s], labels[t]): weight
        for (a, s, t), weight in rows
        if weight
    }


def contributions(
    model: ChainCRF, sequence: CompiledFeatures, position: int, label: str
) -> list[tuple[str, float]]:
    """(attribute, value * weight) for one label at one token, the weightiest first."""
    token = sequence.taken(torch.tensor([position]))
    support, number = model.support, model.support.labels[label]
    mine = (support.label == number) & torch.isin(support.attribute, token.attributes.long())
    chosen = mine.nonzero().squeeze(1)
    weight = dict(
        zip(support.attribute[chosen].tolist(), _floats(model.state.cpu()[chosen]), strict=True)
    )
    values = [1.0] * len(token.attributes) if token.values is None else token.values.tolist()
    names = list(support.attributes)
    parts: dict[str, float] = {}
    for attribute, value in zip(token.attributes.tolist(), values, strict=True):
        if attribute in weight:
            name = names[attribute]
            parts[name] = parts.get(name, 0.0) + value * weight[attribute]
    if token.dense is not None:
        products = (token.dense[0] * model.dense[:, number].float().cpu()).tolist()
        parts |= dict(zip(support.columns, products, strict=True))
    return sorted(parts.items(), key=lambda part: -abs(part[1]))


def write_weights(path: PathLike, model: ChainCRF) -> None:
    """Writes every weight with all its digits."""
    columns = set(model.support.columns)
    with write_text(path) as stream:
        for label in model.support.labels:
            stream.write(f"label\t{_cell(label, path)}\n")
        for (name, label), weight in state_features(model).items():
            kind = "dense" if name in columns else "state"
            stream.write(f"{kind}\t{_cell(name, path)}\t{label}\t{weight!r}\n")
        for names, weight in transition_features(model).items():
            kind = "transition" if len(names) == 2 else "triple"
            stream.write("\t".join([kind, *names, repr(weight)]) + "\n")
        for (name, *pair), weight in edge_features(model).items():
            stream.write("\t".join(["edge", _cell(name, path), *pair, repr(weight)]) + "\n")


def read_weights(path: PathLike) -> ChainCRF:
    """The model that `write_weights` wrote; lines may have been edited, added or dropped."""
    tables: dict[str, dict[tuple[str, ...], float]] = {
        kind: {} for kind in ("state", "dense", "transition", "triple", "edge")
    }
    labels: list[str] = []
    for number, line in read_lines(path):
        kind, *cells = line.split("\t")
        if kind == "label" and len(cells) == 1:
            labels.append(cells[0])
        elif kind in tables and len(cells) == (4 if kind in ("triple", "edge") else 3):
            tables[kind][tuple(cells[:-1])] = _weight(cells[-1], path, number)
        elif line:
            raise DataError(f"no line of weights: {line[:80]!r}.", path=path, line=number)
    try:
        return from_weights(labels, **tables)
    except DataError as error:
        raise DataError(error.problem, path=path) from None


def from_weights(
    labels: list[str],
    state: Mapping[Any, float],
    transition: Mapping[Any, float],
    dense: Mapping[Any, float] | None = None,
    triple: Mapping[Any, float] | None = None,
    edge: Mapping[Any, float] | None = None,
) -> ChainCRF:
    """The model that has these weights; labels not listed come after those that are."""
    dense, triple, edge = dense or {}, triple or {}, edge or {}
    if triple and edge:
        raise DataError("there are weights of three labels and of edges: a chain has either.")
    known = _label_numbers(
        labels, [*(n[1:] for n in (*state, *dense, *edge)), *transition, *triple]
    )
    marked = (MARK + names[0] for names in edge)
    attributes = Numbering(dict.fromkeys([*(name for name, _ in state), *marked]))
    columns = tuple(dict.fromkeys(name for name, _ in dense))
    attributes.closed = True
    states = _sorted((attributes[a], known[s], w) for (a, s), w in state.items())
    pairs = _sorted((known[a], known[b], w) for (a, b), w in transition.items())
    triples = _sorted((*(known[s] for s in names), w) for names, w in triple.items())
    edges = _sorted((attributes[MARK + a], known[s], known[t], w) for (a, s, t), w in edge.items())
    table = torch.zeros(len(columns), len(known), dtype=torch.float64)
    place = {column: number for number, column in enumerate(columns)}
    for (column, label), weight in dense.items():
        table[place[column], known[label]] = weight
    support = Support(
        attributes,
        columns,
        known,
        attribute=_column(states, 0),
        label=_column(states, 1),
        source=_column(pairs, 0),
        target=_column(pairs, 1),
        triples=torch.tensor([row[:3] for row in triples]) if triples else None,
        edges=torch.tensor([row[:3] for row in edges]) if edges else NO_EDGES,
    )
    transitions = [row[-1] for row in (*pairs, *triples)]
    return ChainCRF(
        support,
        torch.tensor([row[-1] for row in states], dtype=torch.float64),
        torch.tensor(transitions, dtype=torch.float64),
        table,
        torch.tensor([row[-1] for row in edges], dtype=torch.float64),
    )


def _label_numbers(labels: list[str], used: list[tuple[str, ...]]) -> Numbering:
    return Numbering(dict.fromkeys([*labels, *chain.from_iterable(used)]), closed=True)


def _sorted(rows: Iterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows)


def _column(rows: list[tuple[Any, ...]], place: int) -> Tensor:
    return torch.tensor([row[place] for row in rows], dtype=torch.int64)


def _floats(weights: Tensor) -> list[float]:
    return [float(weight) for weight in weights.detach().cpu().double().tolist()]


def _cell(name: str, path: PathLike) -> str:
    if any(sign in name for sign in "\t\n\r"):
        raise DataError(f"{name!r} has a tab or a line end in it; text cannot hold it.", path=path)
    return name


def _weight(text: str, path: PathLike, number: int) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise DataError(f"'{text[:40]}' is no weight.", path=path, line=number)
    return weight

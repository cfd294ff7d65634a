"""The weights of CRFs: by name, and as text to read or edit.

The text of a chain has a line a weight, cells set apart by tabs:

    state       ATTRIBUTE  LABEL   WEIGHT
    dense       COLUMN     LABEL   WEIGHT
    transition  LABEL      LABEL   WEIGHT
    triple      LABEL      LABEL   LABEL   WEIGHT
    edge        ATTRIBUTE  LABEL   LABEL   WEIGHT
    label       LABEL                       (once a label, in the order of the model)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.features import UNKNOWN, CompiledFeatures, Numbering
from mrflearn.features.index import BIAS, MARK, FactorTemplate, cells_of
from mrflearn.io.files import PathLike, read_lines, write_text
from mrflearn.models.loglinear import LogLinearField, weights_of

Labels = Sequence[str]


def attributes(model: LogLinearField) -> list[str]:
    """The attributes of tokens that have weights, dense columns last."""
    own = model.templates[0]
    return [*(name for name in own.names if not name.startswith(MARK)), *own.columns]


def state_features(model: LogLinearField, labels: Labels) -> dict[tuple[str, str], float]:
    """{(attribute, label): weight} of all weights that are not 0, dense columns included."""
    return {(name, label): w for (name, label), w in weights_of(model, 0, [labels]).items()}


def transition_features(model: LogLinearField, labels: Labels) -> dict[tuple[str, ...], float]:
    """{(label, next label): weight} of all weights that are not 0; triples in a second order."""
    found: dict[tuple[str, ...], float] = {}
    for index, template in enumerate(model.templates[1:], start=1):
        own = weights_of(model, index, [labels] * len(template.shape))
        found |= {tuple(names): w for (name, *names), w in own.items() if name == BIAS}
    return found


def edge_features(model: LogLinearField, labels: Labels) -> dict[tuple[str, str, str], float]:
    """{(attribute, label before, label): weight} of all weights that are not 0."""
    own = weights_of(model, 1, [labels] * 2).items()
    return {(a.removeprefix(MARK), s, t): weight for (a, s, t), weight in own if a != BIAS}


def contributions(
    model: LogLinearField, sequence: CompiledFeatures, position: int, label: int
) -> list[tuple[str, float]]:
    """(attribute, value * weight) for one label at one token, the weightiest first."""
    token, template = sequence.taken(torch.tensor([position])), model.templates[0]
    attributes = token.attributes.long()
    place = template.find(attributes, torch.full_like(attributes, label))
    known, names = place != UNKNOWN, list(template.names)
    values = torch.ones(len(place)) if token.values is None else token.values
    amounts = values[known].double() * model.weights[0].cpu()[place[known]]
    parts: dict[str, float] = defaultdict(float)
    for attribute, amount in zip(attributes[known].tolist(), amounts.tolist(), strict=True):
        parts[names[attribute]] += amount
    if token.dense is not None:
        products = (token.dense[0] * model.dense[0][:, label].float().cpu()).tolist()
        parts |= dict(zip(template.columns, products, strict=True))
    return sorted(parts.items(), key=lambda part: -abs(part[1]))


def write_weights(path: PathLike, model: LogLinearField, labels: Labels) -> None:
    """Writes every weight with all its digits."""
    columns = set(model.templates[0].columns)
    with write_text(path) as stream:
        for label in labels:
            stream.write(f"label\t{_cell(label, path)}\n")
        for (name, label), weight in state_features(model, labels).items():
            kind = "dense" if name in columns else "state"
            stream.write(f"{kind}\t{_cell(name, path)}\t{label}\t{weight!r}\n")
        for names, weight in transition_features(model, labels).items():
            kind = "transition" if len(names) == 2 else "triple"
            stream.write("\t".join([kind, *names, repr(weight)]) + "\n")
        for (name, *pair), weight in edge_features(model, labels).items():
            stream.write("\t".join(["edge", _cell(name, path), *pair, repr(weight)]) + "\n")


def read_weights(path: PathLike) -> tuple[LogLinearField, Numbering]:
    """The model that `write_weights` wrote, and its labels; lines may have been edited or added."""
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
) -> tuple[LogLinearField, Numbering]:
    """The model that has these weights, and all labels; those not listed come after the others."""
    dense, triple, edge = dense or {}, triple or {}, edge or {}
    if triple and edge:
        raise DataError("there are weights of three labels and of edges: a chain has either.")
    used = [*(names[1:] for names in (*state, *dense, *edge)), *transition, *triple]
    known = Numbering(dict.fromkeys([*labels, *chain.from_iterable(used)]), closed=True)
    marked = dict.fromkeys(MARK + names[0] for names in edge)
    names = Numbering(dict.fromkeys([*(name for name, _ in state), *marked]), closed=True)
    columns = tuple(dict.fromkeys(name for name, _ in dense))
    moves = {(BIAS, *pair): weight for pair, weight in transition.items()}
    moves |= {(MARK + name, *pair): weight for (name, *pair), weight in edge.items()}
    found = [
        _template("state", 1, names, columns, known, state),
        _template("transition", 2, Numbering([BIAS, *marked], closed=True), (), known, moves),
    ]
    if triple:
        three = {(BIAS, *own): weight for own, weight in triple.items()}
        found.append(_template("triple", 3, Numbering([BIAS], closed=True), (), known, three))
    templates, weights = zip(*found, strict=True)
    model = replace(LogLinearField.zeros(templates, torch.float64), weights=weights)
    for (column, label), weight in dense.items():
        model.dense[0][columns.index(column), known[label]] = weight
    return model, known


def _template(
    name: str,
    arity: int,
    names: Numbering,
    columns: tuple[str, ...],
    labels: Numbering,
    weights: Mapping[Any, float],
) -> tuple[FactorTemplate, Tensor]:
    """The template of weights by (attribute, label, ...), and the weights in its order."""
    rows = [[names[key[0]], *(labels[own] for own in key[1:])] for key in weights]
    place, shape = torch.tensor(rows).long().reshape(-1, 1 + arity), (len(labels),) * arity
    attribute, cell = place[:, 0], cells_of(place[:, 1:], shape)
    order = (attribute * max(len(labels), 1) ** arity + cell).argsort()
    template = FactorTemplate(name, shape, names, columns, attribute[order], cell[order])
    return template, torch.tensor(list(weights.values()), dtype=torch.float64)[order]


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

"""The weights of CRFs: by name, as text to read or edit, and on disk.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.estimators.base import Parts
from mrflearn.features.features import UNKNOWN, CompiledFeatures, Numbering
from mrflearn.features.index import BIAS, MARK, FactorTemplate, cells_of
from mrflearn.io.files import PathLike, read_lines, write_text
from mrflearn.models.loglinear import FieldPlans, LogLinearField, weights_of
from mrflearn.models.storage import texts

StateWeights = dict[tuple[str, str], float]
MoveWeights = dict[tuple[str, ...], float]
EdgeWeights = dict[tuple[str, str, str], float]
Labels = Sequence[str]


def attributes(model: LogLinearField) -> list[str]:
    """The attributes of tokens that have weights, dense columns last."""
    own = model.templates[0]
    return [*(name for name in own.names if not name.startswith(MARK)), *own.columns]


def state_features(model: LogLinearField, labels: Labels) -> StateWeights:
    """{(attribute, label): weight} of all weights that are not 0, dense columns included."""
    return {(name, label): w for (name, label), w in weights_of(model, 0, [labels]).items()}


def transition_features(model: LogLinearField, labels: Labels) -> MoveWeights:
    """{(label, next label): weight} of all weights that are not 0; triples in a second order."""
    found: MoveWeights = {}
    for index, template in enumerate(model.templates[1:], start=1):
        own = weights_of(model, index, [labels] * len(template.shape))
        found |= {tuple(names): w for (name, *names), w in own.items() if name == BIAS}
    return found


def edge_features(model: LogLinearField, labels: Labels) -> EdgeWeights:
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
    values = torch.ones(len(place)) if token.values is None else token.values
    names, weights = list(template.names), model.weights[0].cpu()
    parts: dict[str, float] = {}
    for attribute, where, value in zip(
        attributes.tolist(), place.tolist(), values.tolist(), strict=True
    ):
        if where != UNKNOWN:
            name = names[attribute]
            parts[name] = parts.get(name, 0.0) + value * float(weights[where])
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


# Fields on disk and back: names as bytes, pairs and weights as numbers.


def stored(model: LogLinearField) -> Parts:
    """The plain values and the tensors to write; names that templates share are stored once."""
    tensors = {}
    templates, owners = [], list[Numbering]()
    for k, (own, weights, dense) in enumerate(
        zip(model.templates, model.weights, model.dense, strict=True)
    ):
        place = next((i for i, names in enumerate(owners) if names is own.names), len(owners))
        if place == len(owners):
            owners.append(own.names)
            tensors[f"names{place}"], tensors[f"ends{place}"] = packed(own.names)
        templates.append(
            {
                "name": own.name,
                "shape": list(own.shape),
                "names": place,
                "columns": list(own.columns),
            }
        )
        tensors |= {
            f"attribute{k}": own.attribute.int(),
            f"cell{k}": own.cell.int(),
            f"weights{k}": weights,
            f"dense{k}": dense,
        }
    return {"templates": templates}, tensors


def restored(learned: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LogLinearField:
    """The field that `stored` was given; templates lie on the host."""
    if "attribute_names" in tensors:
        learned, tensors = _of_chain(learned, tensors)
    known: dict[int, Numbering] = {}
    templates, weights, dense = [], [], []
    for k, entry in enumerate(learned["templates"]):
        place = entry["names"]
        if place not in known:
            names = unpacked(tensors[f"names{place}"], tensors[f"ends{place}"])
            known[place] = Numbering(names, closed=True)
        pairs = (tensors[f"{part}{k}"].cpu().long() for part in ("attribute", "cell"))
        columns = texts(entry, "columns")
        own = FactorTemplate(entry["name"], tuple(entry["shape"]), known[place], columns, *pairs)
        templates.append(own)
        weights.append(tensors[f"weights{k}"])
        dense.append(tensors[f"dense{k}"])
        _check(own, weights[-1].shape, dense[-1].shape)
    return LogLinearField(FieldPlans(tuple(templates)), tuple(weights), tuple(dense))


def _of_chain(learned: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Parts:
    """A linear chain as it was stored at first, with attributes of edges among all others."""
    size, host = len(learned["labels"]), {name: own.cpu().long() for name, own in tensors.items()}
    pairs, edges = torch.stack([host["source"], host["target"]], dim=1), host["edges"]
    names = unpacked(tensors["attribute_names"], tensors["attribute_ends"])
    used, number = edges[:, 0].unique(return_inverse=True)
    moves, triples = tensors["transition"], host.get("triples", edges[:0])
    known = [names, [BIAS, *(names[k] for k in used.tolist())], [BIAS]]
    attribute = [host["attribute"], torch.cat([torch.zeros_like(pairs[:, 0]), 1 + number])]
    cell = [host["label"], cells_of(torch.cat([pairs, edges[:, 1:]]), (size, size))]
    weights = [tensors["state"], torch.cat([moves[: len(pairs)], tensors["edge"]])]
    if "triples" in host:
        attribute.append(torch.zeros_like(triples[:, 0]))
        cell.append(cells_of(triples, (size,) * 3))
        weights.append(moves[len(pairs) :])
    templates, found = [], dict[str, Tensor]()
    for k, kind in enumerate(("state", "transition", "triple")[: len(weights)]):
        columns = list(learned["columns"]) if k == 0 else []
        templates.append({"name": kind, "shape": [size] * (k + 1), "names": k, "columns": columns})
        found[f"names{k}"], found[f"ends{k}"] = packed(known[k])
        found |= {f"attribute{k}": attribute[k], f"cell{k}": cell[k], f"weights{k}": weights[k]}
        found[f"dense{k}"] = tensors["dense"] if k == 0 else moves.new_zeros(0, size ** (k + 1))
    return {"templates": templates}, found


def _check(own: FactorTemplate, weights: tuple[int, ...], dense: tuple[int, ...]) -> None:
    sound = (
        len(own.attribute) == len(own.cell)
        and weights == (len(own),)
        and dense == (len(own.columns), own.cells)
        and bool((own.attribute < len(own.names)).all())
        and bool((own.cell < own.cells).all())
    )
    if not sound:
        raise DataError("weights and names do not match")


def packed(names: Iterable[str]) -> tuple[Tensor, Tensor]:
    """Names end to end as bytes, and where each ends."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    ends = torch.tensor([len(name) for name in encoded], dtype=torch.int64).cumsum(0)
    joined = bytearray(b"".join(encoded))
    text = torch.frombuffer(joined, dtype=torch.uint8) if joined else torch.zeros(0).byte()
    return text, ends


def unpacked(text: Tensor, ends: Tensor) -> list[str]:
    """The names that were `packed`."""
    if text.ndim != 1 or ends.ndim != 1:
        raise DataError("names are not stored as bytes")
    joined, begin, names = text.cpu().numpy().tobytes(), 0, []
    for end in ends.tolist():
        names.append(joined[begin:end].decode("utf-8", "surrogatepass"))
        begin = end
    return names

"""Log-linear fields on disk and back: names as bytes, pairs and weights as numbers.

`stored` and `restored` serve CRFs on any graphs.  Linear chains have a layout of their own
(`stored_chain`, `restored_chain`), in which attributes of transitions stand among all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.features import Numbering
from mrflearn.features.index import BIAS, FactorTemplate, cells_of
from mrflearn.models.loglinear import FieldPlans, LogLinearField
from mrflearn.models.storage import texts


def stored(model: LogLinearField) -> tuple[dict[str, Any], dict[str, Tensor]]:
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


def restored(learned: dict[str, Any], tensors: dict[str, Tensor]) -> LogLinearField:
    """The field that `stored` was given."""
    known: dict[int, Numbering] = {}
    templates, weights, dense = [], [], []
    for k, told in enumerate(learned["templates"]):
        place = told["names"]
        if place not in known:
            names = unpacked(tensors[f"names{place}"], tensors[f"ends{place}"])
            known[place] = Numbering(names, closed=True)
        pairs = (tensors[f"{part}{k}"].cpu().long() for part in ("attribute", "cell"))
        columns = texts(told, "columns")
        own = FactorTemplate(told["name"], tuple(told["shape"]), known[place], columns, *pairs)
        templates.append(own)
        weights.append(tensors[f"weights{k}"])
        dense.append(tensors[f"dense{k}"])
        _check(own, weights[-1].shape, dense[-1].shape)
    return LogLinearField(FieldPlans(tuple(templates)), tuple(weights), tuple(dense))


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


def stored_chain(
    model: LogLinearField, labels: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The plain values and the tensors to write."""
    state, transition, *triple = model.templates
    names, ends = packed(state.names)
    size, pairs = state.cells, int((transition.attribute == 0).sum())
    number = torch.tensor([0, *(state.names[name] for name in list(transition.names)[1:])])
    source, target = torch.unravel_index(transition.cell, transition.shape)
    edges = torch.stack([number[transition.attribute], source, target], dim=1)[pairs:]
    numbers = {
        "attribute": state.attribute,
        "label": state.cell,
        "source": source[:pairs],
        "target": target[:pairs],
        "edges": edges,
    }
    for own in triple:
        numbers["triples"] = torch.stack(torch.unravel_index(own.cell, (size,) * 3), dim=1)
    tensors = {name: own.int() for name, own in numbers.items()}
    tensors |= {
        "attribute_names": names,
        "attribute_ends": ends,
        "state": model.weights[0],
        "transition": torch.cat([model.weights[1][:pairs], *model.weights[2:]]),
        "dense": model.dense[0],
        "edge": model.weights[1][pairs:].clone(),
    }
    return {"labels": list(labels), "columns": list(state.columns)}, tensors


def restored_chain(
    learned: dict[str, Any], tensors: dict[str, Tensor]
) -> tuple[LogLinearField, Numbering]:
    """The model that `stored_chain` was given, and its labels; templates lie on the host."""
    labels = Numbering(texts(learned, "labels"), closed=True)
    names = unpacked(tensors["attribute_names"], tensors["attribute_ends"])
    columns, size = texts(learned, "columns"), len(labels)
    host = {name: own.cpu() for name, own in tensors.items()}
    pairs, edges = (
        torch.stack([host["source"], host["target"]], dim=1).long(),
        host["edges"].long(),
    )
    triples = host["triples"].long() if "triples" in host else None
    joint = [pairs, edges[:, 1:], *([] if triples is None else [triples])]
    sound = (
        len(host["attribute"]) == len(host["label"]) == len(host["state"])
        and len(host["transition"]) == len(pairs) + (0 if triples is None else len(triples))
        and host["dense"].shape == (len(columns), size)
        and edges.shape == (len(host["edge"]), 3)
        and all(bool((own < len(names)).all()) for own in (host["attribute"], edges[:, 0]))
        and all(bool((own < size).all()) for own in (host["label"], *joint))
    )
    if not sound:
        raise DataError("weights and names do not match")
    used, number = edges[:, 0].unique(return_inverse=True)
    on_edges = Numbering([BIAS, *(names[k] for k in used.tolist())], closed=True)
    moves = torch.cat([torch.zeros(len(pairs), dtype=torch.int64), 1 + number])
    cells = cells_of(torch.cat([pairs, edges[:, 1:]]), (size, size))
    known = Numbering(names, closed=True)
    pair = host["attribute"].long(), host["label"].long()
    weights, own = [tensors["state"]], tensors["transition"]
    weights.append(torch.cat([own[: len(pairs)], tensors["edge"]]))
    templates = [
        FactorTemplate("state", (size,), known, columns, *pair),
        FactorTemplate("transition", (size, size), on_edges, (), moves, cells),
    ]
    if triples is not None:
        code = cells_of(triples, (size,) * 3)
        bias = Numbering([BIAS], closed=True)
        templates.append(
            FactorTemplate("triple", (size,) * 3, bias, (), torch.zeros_like(code), code)
        )
        weights.append(own[len(pairs) :])
    dense = tuple(own.new_zeros(0, template.cells) for template in templates[1:])
    plans = FieldPlans(tuple(templates))
    return LogLinearField(plans, tuple(weights), (tensors["dense"], *dense)), labels


def packed(names: Iterable[str]) -> tuple[Tensor, Tensor]:
    """Names end to end as bytes, and where each ends."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    ends = torch.tensor([len(name) for name in encoded], dtype=torch.int64).cumsum(0)
    joined = bytearray(b"".join(encoded))
    text = torch.frombuffer(joined, dtype=torch.uint8) if joined else torch.zeros(0).byte()
    return text, ends


def unpacked(text: Tensor, ends: Tensor) -> list[str]:
    """The names that `packed` laid out."""
    if text.ndim != 1 or ends.ndim != 1:
        raise DataError("names are not stored as bytes")
    joined, begin, names = text.cpu().numpy().tobytes(), 0, []
    for end in ends.tolist():
        names.append(joined[begin:end].decode("utf-8", "surrogatepass"))
        begin = end
    return names

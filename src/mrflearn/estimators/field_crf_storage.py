"""A log-linear field on disk and back: names as bytes, pairs and weights as numbers."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.estimators.crf_storage import packed, unpacked
from mrflearn.features.features import Numbering
from mrflearn.models.loglinear import FactorTemplate, LogLinearField
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
    return LogLinearField(tuple(templates), tuple(weights), tuple(dense))


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

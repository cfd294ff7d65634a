"""A chain CRF on disk and back: names as bytes, pairs and weights as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from mrflearn.errors import DataError
from mrflearn.features.features import Numbering
from mrflearn.features.support import Support
from mrflearn.models.chain_crf import ChainCRF
from mrflearn.models.storage import texts

PAIRS = ("attribute", "label", "source", "target")


def stored(model: ChainCRF) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The plain values and the tensors to write."""
    support = model.support
    names, ends = packed(support.attributes)
    tensors = {name: getattr(support, name).int() for name in PAIRS} | model.parameters()
    tensors |= {"attribute_names": names, "attribute_ends": ends, "edges": support.edges.int()}
    if support.triples is not None:
        tensors["triples"] = support.triples.int()
    return {"labels": list(support.labels), "columns": list(support.columns)}, tensors


def restored(learned: dict[str, Any], tensors: dict[str, Tensor]) -> ChainCRF:
    """The model that `stored` was given; its support always lies on the host."""
    labels = Numbering(texts(learned, "labels"), closed=True)
    names = unpacked(tensors["attribute_names"], tensors["attribute_ends"])
    pairs = {name: tensors[name].cpu().long() for name in (*PAIRS, "edges")}
    triples = tensors["triples"].cpu().long() if "triples" in tensors else None
    attributes, columns = Numbering(names, closed=True), texts(learned, "columns")
    support = Support(attributes, columns, labels, **pairs, triples=triples)
    weights = (tensors[name] for name in ("state", "transition", "dense", "edge"))
    model = ChainCRF(support, *weights)
    _check(model)
    return model


def _check(model: ChainCRF) -> None:
    support, size = model.support, len(model.support.labels)
    sound = (
        len(support.attribute) == len(support.label) == len(model.state)
        and len(model.transition) == support.transitions
        and model.dense.shape == (len(support.columns), size)
        and support.edges.shape == (len(model.edge), 3)
        and all(
            bool((part < len(support.attributes)).all())
            for part in (support.attribute, support.edges[:, 0])
        )
        and all(
            bool((part < size).all())
            for part in (support.label, support.source, support.target, support.edges[:, 1:])
        )
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
    """The names that `packed` laid out."""
    if text.ndim != 1 or ends.ndim != 1:
        raise DataError("names are not stored as bytes")
    joined, begin, names = text.cpu().numpy().tobytes(), 0, []
    for end in ends.tolist():
        names.append(joined[begin:end].decode("utf-8", "surrogatepass"))
        begin = end
    return names

"""A chain CRF as a stored model and back: names as bytes, pairs and weights as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from mrflearn.errors import StorageError
from mrflearn.models.chain_crf import ChainCRF
from mrflearn.models.storage import StoredModel
from mrflearn.statistics.features import Numbering
from mrflearn.statistics.support import Support

PAIRS = ("attribute", "label", "source", "target")


def to_stored(kind: str, settings: dict[str, Any], model: ChainCRF) -> StoredModel:
    """What to write."""
    support = model.support
    names, ends = packed(support.attributes)
    tensors = {name: getattr(support, name).int() for name in PAIRS} | model.parameters()
    tensors |= {"attribute_names": names, "attribute_ends": ends, "edges": support.edges.int()}
    if support.triples is not None:
        tensors["triples"] = support.triples.int()
    lists = {"labels": list(support.labels), "columns": list(support.columns)}
    return StoredModel(kind, settings | lists, tensors)


def from_stored(stored: StoredModel) -> tuple[dict[str, Any], ChainCRF]:
    """The settings and the model; its support always lies on the host."""
    settings, tensors = dict(stored.settings), stored.tensors
    try:
        labels = Numbering(settings.pop("labels"), closed=True)
        columns = tuple(settings.pop("columns"))
        names = unpacked(tensors["attribute_names"], tensors["attribute_ends"])
        pairs = {name: tensors[name].cpu().long() for name in PAIRS}
        triples = tensors["triples"].cpu().long() if "triples" in tensors else None
        pairs["edges"] = tensors["edges"].cpu().long()
        support = Support(Numbering(names, closed=True), columns, labels, **pairs, triples=triples)
        weights = (tensors[name] for name in ("state", "transition", "dense", "edge"))
        model = ChainCRF(support, *weights)
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise StorageError(f"the stored CRF contradicts itself ({error}).") from error
    _check(model)
    return settings, model


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
        raise StorageError("the stored CRF contradicts itself: weights and names do not match.")


def packed(names: Iterable[str]) -> tuple[Tensor, Tensor]:
    """Names end to end as bytes, and where each ends."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    ends = torch.tensor([len(name) for name in encoded], dtype=torch.int64).cumsum(0)
    joined = bytearray(b"".join(encoded))
    text = torch.frombuffer(joined, dtype=torch.uint8) if joined else torch.zeros(0).byte()
    return text, ends


def unpacked(text: Tensor, ends: Tensor) -> list[str]:
    """The names that `packed` laid out."""
    joined, begin, names = text.cpu().numpy().tobytes(), 0, []
    for end in ends.tolist():
        names.append(joined[begin:end].decode("utf-8", "surrogatepass"))
        begin = end
    return names

"""Moments on disk: one safetensors file whose header holds the rest as JSON; written atomically."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from mrflearn.errors import DataError, StorageError
from mrflearn.features.moments import Moments, PairCounts
from mrflearn.features.triples import TripleCounts
from mrflearn.io.files import PathLike, read_bytes, write_binary
from mrflearn.io.vocabulary import Vocabulary

FORMAT = "mrflearn moments"
FORMAT_VERSION = 1
PAIR_FIELDS = ("left", "right", "count")


def save_moments(moments: Moments, path: PathLike) -> None:
    """Writes the moments, their vocabulary included; a name that ends in `.gz` is gzipped."""
    tensors: dict[str, NDArray[Any]] = {
        "unary": moments.unary,
        "lengths": moments.lengths,
        "length_counts": moments.length_counts,
    }
    for number, pair in enumerate(moments.pairs):
        tensors |= {f"{field}.{number}": getattr(pair, field) for field in PAIR_FIELDS}
    if moments.triples is not None:
        tensors |= {"triples": moments.triples.codes, "triple_counts": moments.triples.count}
    if moments.vocabulary is not None:
        tensors["vocabulary"] = _bytes_of_words(moments.vocabulary)
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "offsets": moments.offsets,
        "separator": moments.separator,
        "filler": moments.filler,
    }
    with write_binary(path) as stream:
        stream.write(safetensors.numpy.save(tensors, {"mrflearn": json.dumps(header)}))


def load_moments(path: PathLike) -> Moments:
    """The saved moments; `StorageError` says what is wrong with a file that holds none."""
    content = read_bytes(path)
    header = _header(content, path)
    try:
        return _moments(header, safetensors.numpy.load(content))
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"{path}: its numbers are not those of moments ({error}). Is the file complete?"
        ) from error


def _header(content: bytes, path: PathLike) -> dict[str, Any]:
    # safetensors: eight bytes of length, then JSON, whose __metadata__ maps text to text.
    size = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["mrflearn"])
        kind, version = header["format"], header["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StorageError(
            f"{path}: not a file of moments. `mrflearn count` makes one of text, `mrflearn "
            "convert` of counts in the layout of MRF-LM."
        ) from error
    if kind != FORMAT or version != FORMAT_VERSION:
        raise StorageError(
            f"{path}: holds {kind!r}, version {version!r}; this release reads {FORMAT!r}, "
            f"version {FORMAT_VERSION}."
        )
    return dict(header)


def _moments(header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Moments:
    for name, tensor in tensors.items():
        kind = np.uint8 if name == "vocabulary" else np.int64
        if tensor.dtype != kind or tensor.ndim != 1:
            raise DataError(f"{name} is {tensor.dtype} of shape {tensor.shape}")
    words = tensors.get("vocabulary")
    offsets = tuple(tuple(map(int, offset)) for offset in header["offsets"])
    pairs = tuple(
        PairCounts(*(tensors[f"{field}.{number}"] for field in PAIR_FIELDS))
        for number in range(len(offsets))
    )
    return Moments(
        offsets=offsets,
        unary=tensors["unary"],
        pairs=pairs,
        lengths=tensors["lengths"],
        length_counts=tensors["length_counts"],
        separator=header["separator"],
        vocabulary=None if words is None else _words_of_bytes(words),
        filler=int(header["filler"]),
        triples=_triples(tensors),
    )


def _triples(tensors: dict[str, NDArray[Any]]) -> TripleCounts | None:
    if "triples" not in tensors:
        return None
    return TripleCounts(tensors["triples"], tensors["triple_counts"])


def _bytes_of_words(vocabulary: Vocabulary) -> NDArray[np.uint8]:
    text = json.dumps(vocabulary.words, ensure_ascii=False, separators=(",", ":"))
    return np.frombuffer(text.encode("utf-8"), np.uint8)


def _words_of_bytes(array: NDArray[np.uint8]) -> Vocabulary:
    return Vocabulary(tuple(json.loads(array.tobytes().decode("utf-8"))))

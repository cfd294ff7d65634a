"""Moments on disk: our own files and those of MRFLM.

Whole numbers set apart by white space: N, the number of variables K + 1, their K + 1 sizes; then
for each offset 1..K the number of distinct pairs and, a line each, `left right count`.  A second
file lists the words as `id word count`.  Checked against the program that writes this layout and
the one that reads it; its README alone transposes the pair, the programs put the left word first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from mrflearn.errors import DataError, SettingsError, StorageError
from mrflearn.features.moments import Counts, Moments, PairCounts, TripleCounts, sum_by_key
from mrflearn.io.corpus import Vocabulary
from mrflearn.io.files import (
    Lines,
    PathLike,
    located,
    read_bytes,
    split_tokens,
    write_binary,
    write_text,
)

# Moments on disk: one safetensors file whose header holds the rest as JSON; written atomically.


ENDING = ".moments"
FORMAT = "mrflearn moments"
FORMAT_VERSION = 1
COUNTS = ("unary", "lengths", "length_counts")
PAIR_FIELDS = ("left", "right", "count")


def save_moments(moments: Moments, path: PathLike) -> None:
    """Writes the moments, their vocabulary included; a name that ends in `.gz` is gzipped."""
    tensors: dict[str, NDArray[Any]] = {name: getattr(moments, name) for name in COUNTS}
    for number, pair in enumerate(moments.pairs):
        tensors |= {f"{field}.{number}": getattr(pair, field) for field in PAIR_FIELDS}
    if moments.triples is not None:
        tensors |= {"triples": moments.triples.codes, "triple_counts": moments.triples.count}
    if moments.vocabulary is not None:
        words = json.dumps(moments.vocabulary.words, ensure_ascii=False, separators=(",", ":"))
        tensors["vocabulary"] = np.frombuffer(words.encode("utf-8"), np.uint8)
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
    if (kind, version) != (FORMAT, FORMAT_VERSION):
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
    words, triples = tensors.get("vocabulary"), tensors.get("triples")
    vocabulary = None if words is None else Vocabulary(tuple(json.loads(words.tobytes())))
    offsets = tuple(tuple(map(int, offset)) for offset in header["offsets"])
    pairs = tuple(
        PairCounts(*(tensors[f"{field}.{number}"] for field in PAIR_FIELDS))
        for number in range(len(offsets))
    )
    return Moments(
        offsets=offsets,
        pairs=pairs,
        separator=header["separator"],
        vocabulary=vocabulary,
        filler=int(header["filler"]),
        triples=None if triples is None else TripleCounts(triples, tensors["triple_counts"]),
        unary=tensors["unary"],
        lengths=tensors["lengths"],
        length_counts=tensors["length_counts"],
    )


# The plain-text moments and vocabulary of MRF-LM, the authors' own program (srush/MRF-LM).


LONGEST_NUMBER = 20  # of 64 bits, with its sign


def write_mrflm(moments: Moments, path: PathLike) -> None:
    """Writes the pairs as MRF-LM reads them; sentence lengths and words are not part of it."""
    if moments.offsets != tuple((step,) for step in range(1, moments.context + 1)):
        problem = f"MRF-LM knows the offsets 1, 2, ... K of a text; these are {moments.offsets}."
        raise DataError(problem, path=path)
    variables = len(moments.offsets) + 1
    with write_text(path) as stream:
        stream.write(f"{moments.positions} {variables}\n")
        stream.write(f"{moments.states}\n" * variables)
        for pair in moments.pairs:
            stream.write(f"{len(pair.count)}\n")
            # Most frequent first, as the authors' program writes them.
            order = np.argsort(-pair.count, kind="stable")
            np.savetxt(stream, np.stack([pair.left, pair.right, pair.count], 1)[order], "%d")


def read_mrflm(path: PathLike, vocabulary: Vocabulary | None = None) -> Moments:
    """Moments of a file in MRF-LM's layout; sentence lengths stay unknown.

    The file does not name its separator: without a vocabulary there is none, and N cannot be
    rounded up.  Word counts are those of the left ends of pairs, equal on a ring at each offset.
    """
    with located(path):
        numbers = _Numbers(read_bytes(path))
        positions, variables = numbers.take(2).tolist()
        if variables < 2:
            raise DataError(f"{variables} variables leave no pair; the layout needs 2 or more.")
        sizes = numbers.take(variables)
        states = int(sizes[0])
        if (sizes != states).any() or (vocabulary is not None and len(vocabulary) != states):
            given = "" if vocabulary is None else f", and the one given has {len(vocabulary)} words"
            raise DataError(
                f"states {sizes.tolist()} for the variables; a language model has one "
                f"vocabulary{given}."
            )
        pairs = tuple(_read_pairs(numbers, states) for _ in range(variables - 1))
        if left := len(numbers.values) - numbers.position:
            raise DataError(f"there are {left} numbers too many at the end.")
        unary = np.bincount(pairs[0].left, pairs[0].count, minlength=states).astype(np.int64)
        if unary.sum() != positions:
            raise DataError(f"N is {positions}, but there are {unary.sum()} pairs.")
    return Moments(
        offsets=tuple((step,) for step in range(1, variables)),
        unary=unary,
        pairs=pairs,
        separator=None if vocabulary is None else vocabulary.separator,
        vocabulary=vocabulary,
    )


def write_mrflm_vocabulary(moments: Moments, path: PathLike) -> None:
    """Writes the words as `id word count`, a line each."""
    if moments.vocabulary is None:
        raise DataError("these moments have no vocabulary to write.", path=path)
    words = zip(moments.vocabulary.words, moments.unary.tolist(), strict=True)
    with write_text(path) as stream:
        stream.writelines(f"{k} {word} {count}\n" for k, (word, count) in enumerate(words))


def read_mrflm_vocabulary(path: PathLike) -> Vocabulary:
    """The words of MRF-LM's vocabulary file (`id word count` a line), in the order of their ids."""
    words: list[str] = []
    with Lines(path) as lines:
        for text in lines:
            fields = split_tokens(text)
            if len(fields) != 3 or fields[0] != str(len(words)):
                raise DataError(f"expected '{len(words)} word count', found {text[:80]!r}.")
            words.append(fields[1])
    with located(path):
        return Vocabulary(tuple(words))


def convert_moments(source: Path, target: Path, vocabulary: Path | None) -> None:
    """Writes counts in the layout of MRF-LM, or those in it as a file of our own."""
    if vocabulary is None or {source.suffix, target.suffix} != {ENDING, ".dat"}:
        raise SettingsError(
            f"{source} -> {target}: counts are converted between {ENDING} and the .dat of MRF-LM, "
            "whose words stand in a file of their own: vocabulary=FILE."
        )
    if target.suffix == ENDING:
        save_moments(read_mrflm(source, read_mrflm_vocabulary(vocabulary)), target)
    else:
        moments = load_moments(source)
        write_mrflm(moments, target)
        write_mrflm_vocabulary(moments, vocabulary)


class _Numbers:
    """The whole numbers of a file, taken from front to back."""

    def __init__(self, content: bytes) -> None:
        self.position = 0
        fields = content.split()
        try:
            # An array of bytes has room for the longest in every place.
            if max(map(len, fields), default=0) > LONGEST_NUMBER:
                raise ValueError("one is too long")
            self.values: Counts = np.array(fields, dtype=np.bytes_).astype(np.int64)
        except (ValueError, OverflowError) as error:
            problem = f"MRF-LM moments are whole numbers alone ({error}). Is this the moments file?"
            raise DataError(problem) from error

    def take(self, count: int) -> Counts:
        start = self.position
        self.position += count
        if count < 0 or self.position > len(self.values):
            raise DataError(
                f"the file ends after {len(self.values)} numbers, but {self.position} are "
                "announced. Is it complete?"
            )
        return self.values[start : self.position]


def _read_pairs(numbers: _Numbers, states: int) -> PairCounts:
    rows = int(numbers.take(1)[0])
    table = numbers.take(3 * rows).reshape(rows, 3)
    if (table < 0).any() or (table[:, :2] >= states).any():
        raise DataError(f"a pair has a state outside 0..{states - 1}.")
    codes, count = sum_by_key(table[:, 0] * states + table[:, 1], table[:, 2])
    return PairCounts.from_codes(codes, count, states)

"""Potts models in the files of other programs: plmc (which EVcouplings reads) and CCMpred.

`.model`: plmc's binary file of parameters, second version, little-endian, float32.
`.raw`: what CCMpred writes by its option -r: 20 fields a column as text, then a table a pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.files import Lines, PathLike, located, open_binary, write_binary, write_text

Array = NDArray[np.float64]
CCMPRED = "ARNDCQEGHILKMFPSTWYV-"  # its order of states
HEAD = 5  # numbers in each part of plmc's header


@dataclass(frozen=True, eq=False)
class CouplingsFile:
    """A Potts model with letters and positions, as programs for families exchange it.

    Tables are numbered as in `alphabet`; pairs are (0, 1), (0, 2) and so on.  `frequencies` are
    those of the sequences learned from, NaN where they are not known; `effective` is the sum of
    their weights.
    """

    alphabet: str
    target: str  # the focus sequence
    positions: tuple[int, ...]
    fields: Array  # columns, states
    couplings: NDArray[np.floating]  # pairs, states, states
    frequencies: Array
    pair_frequencies: NDArray[np.floating]
    effective: float = math.nan


def write_plmc(path: PathLike, model: CouplingsFile) -> None:
    """Writes plmc's file of parameters.

    It has no weights of sequences; numbers of iterations and penalties are 0.
    """
    columns, states = model.fields.shape
    parts = [
        np.array([columns, states, 0, 0, 0], dtype="<i4"),
        np.array([0.0, 0.0, 0.0, 0.0, model.effective], dtype="<f4"),
        np.frombuffer((model.alphabet + model.target).encode("ascii"), dtype="S1"),
        np.array(model.positions, dtype="<i4"),
        *(own.astype("<f4") for own in (model.frequencies, model.fields)),
        *(own.astype("<f4") for own in (model.pair_frequencies, model.couplings)),
    ]
    with write_binary(path) as stream:
        for part in parts:
            stream.write(part.tobytes())


def read_plmc(path: PathLike) -> CouplingsFile:
    """The model of a file that plmc's option -o, or `write_plmc`, wrote."""
    with open_binary(path) as stream:
        content = stream.read()
    place = 0

    def take(kind: str, *shape: int) -> NDArray[np.generic]:
        nonlocal place
        count = math.prod(shape)
        size = count * np.dtype(kind).itemsize
        if count < 0 or place + size > len(content):
            raise DataError("ends too early for plmc's parameters. Is it a file of plmc's -o?")
        found = np.frombuffer(content, kind, count, place).reshape(shape)
        place += size
        return found

    with located(path):
        columns, states, valid, invalid, _ = (int(own) for own in take("<i4", HEAD))
        if not (2 <= columns < 1 << 20 and 2 <= states <= 256 and min(valid, invalid) >= 0):
            raise DataError("is no file of plmc's parameters.")
        effective = float(take("<f4", HEAD)[4])
        alphabet = take("S1", states).tobytes().decode("ascii", "replace")
        take("<f4", valid + invalid)
        target = take("S1", columns).tobytes().decode("ascii", "replace")
        positions = tuple(int(own) for own in take("<i4", columns))
        pairs = columns * (columns - 1) // 2
        shapes = [(columns, states)] * 2 + [(pairs, states, states)] * 2
        seen, fields, pair_seen, couplings = (take("<f4", *shape) for shape in shapes)
        if place != len(content):
            raise DataError(f"has {len(content) - place} bytes more than plmc's parameters.")
    return CouplingsFile(
        alphabet,
        target,
        positions,
        fields=fields.astype(np.float64),
        couplings=couplings.astype(np.float64),
        frequencies=seen.astype(np.float64),
        pair_frequencies=pair_seen.astype(np.float64),
        effective=effective,
    )


def write_ccmpred(path: PathLike, model: CouplingsFile) -> None:
    """Writes what CCMpred's -r does: its gap has no field, so those of others are relative to it.

    States that the model lacks, such as the gap where gaps were ignored, have zeros.
    """
    unknown = set(model.alphabet) - set(CCMPRED)
    if unknown:
        raise DataError(f"CCMpred has states of proteins only, not {sorted(unknown)[0]!r}.")
    columns = len(model.fields)
    place = [CCMPRED.index(letter) for letter in model.alphabet]
    fields = np.zeros((columns, len(CCMPRED)))
    fields[:, place] = model.fields
    gap = model.alphabet.find("-")
    fields = fields if gap < 0 else fields - model.fields[:, [gap]]
    table = np.zeros((len(CCMPRED), len(CCMPRED)))
    with write_text(path) as stream:
        for row in fields[:, :-1].tolist():
            stream.write("".join(f"{value:.9g}\t" for value in row) + "\n")
        for (i, j), own in zip(_pairs(columns), model.couplings, strict=True):
            table[np.ix_(place, place)] = own
            stream.write(f"# {i} {j}\n")
            for row in table.tolist():
                stream.write("".join(f"{value:.9g}\t" for value in row) + "\n")


def read_ccmpred(path: PathLike) -> CouplingsFile:
    """The model of a file that CCMpred's -r, or `write_ccmpred`, wrote; it has no target."""
    fields: list[list[float]] = []
    tables: list[list[list[float]]] = []
    due: Iterator[tuple[int, int]] | None = None
    with Lines(path) as lines:
        for words in filter(None, map(str.split, lines)):
            if words[0] == "#":
                due = due or _pairs(len(fields))
                wanted = next(due, None)
                if tables and len(tables[-1]) != len(CCMPRED):
                    raise DataError(f"a table of {len(tables[-1])} rows ends here.")
                if wanted is None or words[1:3] != list(map(str, wanted)):
                    raise DataError(f"the pair {' '.join(words[1:])} is not due here.")
                tables.append([])
                continue
            own = tables[-1] if tables else fields
            width = len(CCMPRED) - (not tables)
            if len(words) != width or (tables and len(own) == len(CCMPRED)):
                raise DataError(f"a row of {len(words)} numbers, where CCMpred has {width}.")
            try:
                own.append([float(word) for word in words])
            except ValueError as error:
                raise DataError(f"not a row of numbers ({error}).") from error
    columns = len(fields)
    with located(path):
        whole = columns * (columns - 1) // 2
        if columns < 2 or len(tables) != whole or len(tables[-1]) != len(CCMPRED):
            raise DataError(f"holds {len(tables)} tables; {columns} columns have {whole} pairs.")
    full = np.pad(np.array(fields), ((0, 0), (0, 1)))
    unknown, pairs = np.full(full.shape, np.nan), np.array(tables)
    target, positions = "-" * columns, tuple(range(1, columns + 1))
    seen = np.full(pairs.shape, np.nan)
    return CouplingsFile(CCMPRED, target, positions, full, pairs, unknown, seen)


def _pairs(columns: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(columns) for j in range(i + 1, columns))

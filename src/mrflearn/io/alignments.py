"""Aligned sequences of proteins, RNA or DNA as integers: FASTA, Stockholm and others.

State 0 is the gap; the letters of the alphabet follow in alphabetical order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.alignment_records import sequence_records
from mrflearn.io.files import PathLike, write_text

Molecule = Literal["protein", "rna", "dna"]
ALPHABETS: dict[Molecule, str] = {
    "protein": "-ACDEFGHIKLMNPQRSTVWY",
    "rna": "-ACGU",
    "dna": "-ACGT",
}
MOST_UNKNOWN = 0.2  # of the letters; more than this means another alphabet
LINE_LETTERS = 60
UNKNOWN = 255
INSERTS = {ord(letter): None for letter in ".abcdefghijklmnopqrstuvwxyz"}


@dataclass(frozen=True, eq=False)
class Alignment:
    """`values[i, c]` numbers the letter of sequence i in column c in its `alphabet`; 0 is a gap.

    `names` is None where the file has none.  `unknown` counts the letters outside the alphabet
    (such as X and B in proteins), which were read as gaps.
    """

    molecule: Molecule
    names: tuple[str, ...] | None
    values: NDArray[np.int8]
    unknown: int = 0

    @property
    def alphabet(self) -> str:
        """The letter of each state."""
        return ALPHABETS[self.molecule]

    def __len__(self) -> int:
        return len(self.values)


def read_alignment(
    path: PathLike, molecule: Molecule = "protein", *, drop_inserts: bool = False
) -> Alignment:
    """The aligned sequences of a file: FASTA, a2m, a3m, Stockholm, Clustal or one a line.

    In an a2m file, lower case and `.` stand for insertions relative to the family; `drop_inserts`
    leaves them out, and of a file named `.a3m` they always are.  Else lower case is read like upper
    case and `.` is a gap.
    """
    drop_inserts = drop_inserts or str(path).removesuffix(".gz").lower().endswith(".a3m")
    names: list[str | None] = []
    sequences: list[str] = []
    for number, name, letters in sequence_records(path):
        sequence = letters.translate(INSERTS) if drop_inserts else letters
        if sequences and len(sequence) != len(sequences[0]):
            hint = "" if drop_inserts else " If lower case marks insertions, try drop_inserts=True."
            raise DataError(
                f"this sequence has {len(sequence)} columns, but the first has "
                f"{len(sequences[0])}: they are not aligned.{hint}",
                path=path,
                line=number,
            )
        names.append(name)
        sequences.append(sequence)
    if not sequences or not sequences[0]:
        raise DataError("holds no sequences.", path=path)
    values, unknown = _encode(sequences, molecule, path)
    given = tuple(name for name in names if name is not None)
    return Alignment(molecule, given or None, values, unknown)


def write_alignment(path: PathLike, alignment: Alignment) -> None:
    """Writes FASTA, or one sequence a line where the sequences have no names."""
    letters = np.frombuffer(alignment.alphabet.encode(), dtype=np.uint8)[alignment.values]
    sequences = [row.tobytes().decode() for row in letters]
    with write_text(path) as stream:
        if alignment.names is None:
            stream.writelines(f"{sequence}\n" for sequence in sequences)
            return
        for name, sequence in zip(alignment.names, sequences, strict=True):
            if "\n" in name or name != name.strip():
                raise DataError(f"the name {name!r} would not be read back as it is.", path=path)
            stream.write(f">{name}\n")
            for start in range(0, len(sequence), LINE_LETTERS):
                stream.write(sequence[start : start + LINE_LETTERS] + "\n")


def _states(molecule: Molecule) -> NDArray[np.uint8]:
    """The state of every byte that may stand in a sequence."""
    states = np.full(256, UNKNOWN, dtype=np.uint8)
    for state, letter in enumerate(ALPHABETS[molecule]):
        states[[ord(letter), ord(letter.lower())]] = state
    states[ord(".")] = 0
    if molecule != "protein":  # the same base, written for the other acid
        base = ALPHABETS[molecule].index("U" if molecule == "rna" else "T")
        states[np.frombuffer(b"TUtu", dtype=np.uint8)] = base
    return states


def _encode(
    sequences: list[str], molecule: Molecule, path: PathLike
) -> tuple[NDArray[np.int8], int]:
    content = np.frombuffer("".join(sequences).encode(), dtype=np.uint8)
    states = _states(molecule)[content]
    strange = states == UNKNOWN
    unknown = int(strange.sum())
    if unknown > MOST_UNKNOWN * np.count_nonzero(states):
        known = " ".join(ALPHABETS[molecule][1:])
        letters = "".join(sorted(set(content[strange].tobytes().decode())))
        raise DataError(
            f"{unknown} letters ({letters}) are not of the {molecule} alphabet ({known}). "
            f"Is this another molecule? There are {', '.join(ALPHABETS)}.",
            path=path,
        )
    states[strange] = 0
    return states.astype(np.int8).reshape(len(sequences), -1), unknown

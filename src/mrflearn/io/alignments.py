"""Alignments of sequences of proteins, RNA or DNA, as integers.

FASTA (and a2m, a3m), Stockholm, Clustal, and one sequence a line; the first line says which.  All
but Clustal are written too, as the ending of the name says.
State 0 is the gap; the letters of the alphabet follow in alphabetical order.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.files import Lines, PathLike, ending, located, open_binary, write_text

Record: TypeAlias = tuple[int, str | None, str]  # the line on which it begins, name, letters
Molecule = Literal["protein", "rna", "dna"]

NO_LETTER = re.compile(r"[^A-Za-z*.-]")
WRITTEN: dict[str, tuple[str, ...]] = {  # as what a file is written, by the ending of its name
    "fasta": (".fasta", ".fa", ".fas", ".faa", ".afa", ".a2m", ".a3m"),
    "stockholm": (".sto", ".stk"),
    "aln": (".aln",),  # one sequence a line, as CCMpred and PSICOV have it
}
ENDINGS = tuple(ending for endings in WRITTEN.values() for ending in endings)
STOCKHOLM = "# STOCKHOLM"
BLOCKS = ("CLUSTAL", "MUSCLE")
SIGNS = tuple(sign.encode() for sign in (">", STOCKHOLM, *BLOCKS))
BLANK = codecs.BOM_UTF8 + b" \t\r\n"
BEGINNING = 200  # bytes
ALPHABETS: dict[Molecule, str] = {
    "protein": "-ACDEFGHIKLMNPQRSTVWY",
    "rna": "-ACGU",
    "dna": "-ACGT",
}
MOST_UNKNOWN = 0.2  # of the letters; more than this means another alphabet
LINE_LETTERS = 60
UNKNOWN = 255
SPAN = re.compile(r"/(\d+)-\d+$")  # the residues of a whole protein that a sequence is
INSERTS = {ord(letter): None for letter in ".abcdefghijklmnopqrstuvwxyz"}


MOSTLY = 0.5  # of the sequences


@dataclass(frozen=True)
class Focus:
    """The sequence that a family is seen from: its name, and letter and position at each column.

    Positions count its residues from 1, or from 5 where its name ends in /5-134.
    """

    name: str
    letters: str
    positions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Alignment:
    """`values[i, c]` numbers the letter of sequence i in column c in its `alphabet`; 0 is a gap.

    `names` is None where the file has none.  `unknown` counts the letters outside the alphabet
    (such as X and B in proteins), which were read as gaps; `inserts` those in lower case that were
    left out, and `lowered` those that were read like upper case.  `focus` is the sequence whose
    residues the columns are, where one was chosen.
    """

    molecule: Molecule
    names: tuple[str, ...] | None
    values: NDArray[np.int8]
    unknown: int = 0
    inserts: int = 0
    lowered: int = 0
    focus: Focus | None = None

    @property
    def alphabet(self) -> str:
        """The letter of each state."""
        return ALPHABETS[self.molecule]

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, *_: object, **__: object) -> NDArray[np.int8]:
        """The numbers of the letters, as estimators take them."""
        return self.values

    def remarks(self, *, chosen: bool = False, dropped: bool = False) -> list[str]:
        """What was read otherwise than written, and which argument changes it.

        `chosen`: the molecule was not taken from the letters; `dropped`: insertions were left out.
        """
        found = []
        if self.molecule != "protein" and not chosen:
            found.append(f"all letters are bases: {self.molecule}; molecule= names other letters")
        if self.unknown:
            found.append(f"{self.unknown:,} letters outside the {self.molecule} alphabet are gaps")
        hollow = int(((self.values == 0).mean(axis=0) > MOSTLY).sum())
        if hollow and not (dropped or self.inserts):
            found.append(
                f"{hollow} of {self.values.shape[1]} columns are gaps in most sequences; "
                "where lower case marks insertions, drop_inserts=True leaves them out"
            )
        return found

    def sequences(self) -> list[str]:
        """The letters of each sequence."""
        letters = np.frombuffer(self.alphabet.encode(), dtype=np.uint8)[self.values]
        return [row.tobytes().decode() for row in letters]


def read_alignment(
    path: PathLike,
    molecule: Molecule | None = None,
    *,
    drop_inserts: bool = False,
    focus: str | None = None,
) -> Alignment:
    """The aligned sequences of a file: FASTA, a2m, a3m, Stockholm, Clustal or one a line.

    With None for the `molecule`, letters that are all bases (A, C, G, N, and T or U) are DNA or
    RNA; of others it is the one whose alphabet lacks the fewest.

    In an a2m file, lower case and `.` stand for insertions relative to the family; `drop_inserts`
    leaves them out, and of a file named `.a3m` they always are.  Else lower case is read like upper
    case and `.` is a gap.

    `focus` is the name of a sequence (or its number in the file, from 1): then only the columns
    are kept in which it has a letter in upper case, as by plmc's -f, and positions are counted
    along it.
    """
    drop_inserts = drop_inserts or ending(path) == ".a3m"
    names: list[str] = []
    sequences: list[str] = []
    seen_from: tuple[str, str] | None = None  # name and letters of the focus, as they are
    lower = 0
    with Lines(path) as lines:
        for number, name, letters in _records(lines):
            if focus is not None and seen_from is None and _is_called(name, len(sequences), focus):
                seen_from = name or focus, letters
            sequence = letters.translate(INSERTS) if drop_inserts else letters
            if sequences and len(sequence) != len(sequences[0]):
                hint = "If lower case marks insertions, try drop_inserts=True."
                raise DataError(
                    f"this sequence has {len(sequence)} columns, but the first has "
                    f"{len(sequences[0])}: they are not aligned. {'' if drop_inserts else hint}",
                    line=number,
                )
            names += [] if name is None else [name]
            sequences.append(sequence)
            lower += sum(map(str.islower, letters))
    with located(path):
        if not sequences or not sequences[0]:
            raise DataError("holds no sequences.")
        content = np.frombuffer("".join(sequences).encode(), dtype=np.uint8)
        kind = _nearest_molecule(content) if molecule is None else molecule
        states, unknown = _encode(content, kind)
        values = states.reshape(len(sequences), -1)
        counts = (lower, 0) if drop_inserts else (0, lower)
        found = Alignment(kind, tuple(names) or None, values, unknown, *counts)
        if focus is None:
            return found
        if seen_from is None:
            raise DataError(
                f"has no sequence called {focus!r}. The focus is a name in the file, or the number "
                f"of a sequence, 1 to {len(sequences)}."
            )
        aligned = seen_from[1].translate(INSERTS) if drop_inserts else seen_from[1]
        return _seen_from(found, *seen_from, aligned)


def _is_called(name: str | None, before: int, wanted: str) -> bool:
    """Whether a sequence has that name, with or without its range of residues, or that number."""
    if name is None or wanted.isdecimal():
        return wanted == str(before + 1) or name == wanted
    word = name.partition(" ")[0]
    return wanted in (name, word, word.partition("/")[0])


def _seen_from(alignment: Alignment, name: str, letters: str, aligned: str) -> Alignment:
    """The columns in which the focus has a residue; its letters with inserts count positions."""
    if not any(map(str.isupper, letters)):  # a file that does not tell columns by their case
        letters, aligned = letters.upper(), aligned.upper()
    span = SPAN.search(name.partition(" ")[0])
    start = 1 if span is None else int(span[1])
    residues = filter(str.isalpha, letters)
    numbers = (start + i for i, own in enumerate(residues) if own.isupper())
    upper = [column for column, own in enumerate(aligned) if own.isupper()]
    known = set(alignment.alphabet[1:]) | set("TU" if alignment.molecule != "protein" else "")
    pairs = zip(upper, numbers, strict=True)
    kept = [(column, at) for column, at in pairs if aligned[column] in known]
    if len(kept) < 2:
        raise DataError(f"the focus {name!r} has {len(kept)} residue(s); a family needs two.")
    columns = [column for column, _ in kept]
    own = "".join(aligned[column] for column in columns)
    base = {"rna": ("T", "U"), "dna": ("U", "T")}.get(alignment.molecule)
    own = own if base is None else own.replace(*base)
    focus = Focus(name, own, tuple(at for _, at in kept))
    return replace(alignment, values=alignment.values[:, columns], focus=focus)


def holds_alignment(path: PathLike) -> bool:
    """Whether the name of a file, or else how it begins, says that aligned sequences are in it."""
    if ending(path) in ENDINGS:
        return True
    if str(path) == "-":  # what is read off a pipe is gone
        return False
    with open_binary(path) as stream:
        return stream.read(BEGINNING).lstrip(BLANK).startswith(SIGNS)


def write_alignment(path: PathLike, alignment: Alignment, format: str = "auto") -> None:  # noqa: A002
    """Writes `fasta`, `stockholm` or `aln`, one sequence a line without names.

    `auto` goes by the ending of the name: .sto and .stk are Stockholm, .aln and .txt one sequence a
    line, .fasta, .fa, .a2m, .a3m and names without an ending FASTA.  Sequences without names are
    numbered in FASTA and Stockholm, whose names are the first words of those given.
    """
    chosen = _by_ending(path) if format == "auto" else format
    sequences = alignment.sequences()
    names = alignment.names or tuple(f"sequence-{i + 1}" for i in range(len(sequences)))
    with write_text(path) as stream:
        if chosen == "aln":
            stream.writelines(f"{sequence}\n" for sequence in sequences)
        elif chosen == "stockholm":
            stream.write(f"{STOCKHOLM} 1.0\n\n")
            words = _first_words(names)
            width = max(map(len, words), default=0)
            for word, sequence in zip(words, sequences, strict=True):
                stream.write(f"{word:<{width}} {sequence}\n")
            stream.write("//\n")
        else:
            for name, sequence in zip(names, sequences, strict=True):
                if "\n" in name or name != name.strip():
                    raise DataError(f"the name {name!r} would not be read back as it is.")
                stream.write(f">{name}\n")
                for start in range(0, len(sequence), LINE_LETTERS):
                    stream.write(sequence[start : start + LINE_LETTERS] + "\n")


def _by_ending(path: PathLike) -> str:
    suffix = ending(path)
    if suffix in ("", ".txt"):
        return "aln" if suffix else "fasta"
    for name, endings in WRITTEN.items():
        if suffix in endings:
            return name
    known = ", ".join((*ENDINGS, ".txt"))
    raise DataError(f"no alignment is written as '{suffix}'; there are {known}.", path=path)


def _first_words(names: Sequence[str]) -> list[str]:
    """What Stockholm calls the sequences: one word each, all different."""
    words = [name.partition(" ")[0] for name in names]
    for word, times in Counter(words).items():
        if times > 1 or word.split() != [word] or word.startswith(("#", "//")):
            problem = f"{times} sequences are called {word!r}"
            raise DataError(f"{problem}: Stockholm names each by one word of its own. Try FASTA.")
    return words


def _records(lines: Lines) -> Iterator[Record]:
    filled = filter(str.strip, lines)
    first = next(filled, None)
    if first is None:
        return iter(())
    if first.startswith(STOCKHOLM):
        return _blocks(_stockholm(filled), lines)
    if first.startswith(BLOCKS):
        return _blocks(filled, lines)
    return _fasta(chain([first], filled), lines)


def _fasta(filled: Iterator[str], lines: Lines) -> Iterator[Record]:
    name, start = None, 0
    parts: list[str] = []
    for line in map(str.strip, filled):
        if line[0] == ">" and (start or not parts):
            if start:
                yield start, name, "".join(parts)
            name, start, parts = line[1:].strip(), lines.number, []
        elif start:
            parts.append(_letters(line))
        else:
            parts = [_letters(line)]  # a file without names
            yield lines.number, None, parts[0]
    if start:
        yield start, name, "".join(parts)


def _stockholm(filled: Iterator[str]) -> Iterator[str]:
    """The lines that hold sequences, up to the `//` that ends the alignment."""
    for line in filled:
        if line.startswith("//"):
            break
        if not line.startswith("#"):  # #=GF, #=GC and so on annotate
            yield line
    for line in filled:
        if line.startswith(STOCKHOLM):
            raise DataError("a second alignment begins here. Write each to a file of its own.")


def _blocks(filled: Iterator[str], lines: Lines) -> Iterator[Record]:
    """Sequences written as `name letters` in blocks, each name's parts put together."""
    starts: dict[str, int] = {}
    parts: dict[str, list[str]] = {}
    for line in filled:
        if line[0].isspace():  # marks of agreement below a block of Clustal
            continue
        words = line.split()
        if len(words) < 2:
            raise DataError(f"{line[:40]!r} is no `name letters`. Is the line cut off?")
        starts.setdefault(words[0], lines.number)
        # A third word is Clustal's count of letters so far.
        parts.setdefault(words[0], []).append(_letters(words[1]))
    for name, start in starts.items():
        yield start, name, "".join(parts[name])


def _letters(line: str) -> str:
    letters = "".join(line.split())
    if wrong := NO_LETTER.search(letters):
        formats = "FASTA, a2m, a3m, Stockholm, Clustal, or one sequence a line"
        raise DataError(f"{wrong[0]!r} stands for no residue. Is this an alignment ({formats})?")
    return letters


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


def _nearest_molecule(content: NDArray[np.uint8]) -> Molecule:
    """DNA or RNA where all letters are bases, else that whose alphabet lacks the fewest of them."""
    bases = content.tobytes().upper()
    if not bases.translate(None, b"-.ACGNTU") and (b"T" in bases or b"U" in bases):
        return "rna" if bases.count(b"U") > bases.count(b"T") else "dna"
    return min(ALPHABETS, key=lambda own: np.count_nonzero(_states(own)[content] == UNKNOWN))


def _encode(content: NDArray[np.uint8], molecule: Molecule) -> tuple[NDArray[np.int8], int]:
    states = _states(molecule)[content]
    strange = states == UNKNOWN
    unknown = int(strange.sum())
    if unknown > MOST_UNKNOWN * np.count_nonzero(states):
        known = " ".join(ALPHABETS[molecule][1:])
        letters = "".join(sorted(set(content[strange].tobytes().decode())))
        raise DataError(
            f"{unknown} letters ({letters}) are not of the {molecule} alphabet ({known}). Is this "
            f"another molecule? There are {', '.join(ALPHABETS)}."
        )
    states[strange] = 0
    return states.astype(np.int8), unknown

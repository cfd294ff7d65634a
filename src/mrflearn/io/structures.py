"""Structures of molecules, as the Protein Data Bank has them: PDB and mmCIF files.

Contacts are those of one atom of each residue: the beta carbon of an amino acid (alpha of glycine,
and where the beta carbon is missing), and of a nucleotide the nitrogen in the middle of the edge
that pairs (N1 of A and G, N3 of C, U and T).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mrflearn.errors import DataError
from mrflearn.io.files import Lines, PathLike, located

AMINO_ACIDS = {
    "ALA": "A", "CYS": "C", "ASP": "D", "GLU": "E", "PHE": "F", "GLY": "G", "HIS": "H",
    "ILE": "I", "LYS": "K", "LEU": "L", "MET": "M", "ASN": "N", "PRO": "P", "GLN": "Q",
    "ARG": "R", "SER": "S", "THR": "T", "VAL": "V", "TRP": "W", "TYR": "Y",
    "MSE": "M", "SEC": "C", "PYL": "K",  # as modified residues are read in alignments
}  # fmt: skip
NUCLEOTIDES = {"A": "A", "C": "C", "G": "G", "U": "U", "DA": "A", "DC": "C", "DG": "G", "DT": "T"}
PAIRING = {"A": "N1", "G": "N1", "C": "N3", "U": "N3", "T": "N3"}
# A word of mmCIF; quotes end where white space follows.
WORD = re.compile(r"'((?:[^']|'(?=\S))*)'|\"((?:[^\"]|\"(?=\S))*)\"|(\S+)")
MMCIF = ("data_", "loop_", "_", "#")
ATOM_SITE = "_atom_site."
NEEDED = ("group_PDB", "label_atom_id", "label_comp_id", "Cartn_x", "Cartn_y", "Cartn_z")


class _Atom(NamedTuple):
    chain: str
    number: str  # of the residue, with its insertion code
    residue: str
    name: str
    place: tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Structure:
    """One chain: its letters, the numbers its residues have in the file, and where they are.

    `places` are in Angstrom; NaN where a residue's atom is missing.
    """

    chain: str
    letters: str
    numbers: tuple[str, ...]
    places: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.letters)

    def distances(self) -> NDArray[np.float64]:
        """Between the atoms of all pairs of residues, in Angstrom."""
        between: NDArray[np.float64] = self.places[:, None] - self.places[None]
        return np.asarray(np.sqrt((between**2).sum(axis=2)))


def read_structure(path: PathLike, chain: str | None = None) -> Structure:
    """A chain of a PDB or mmCIF file (or gzip); None takes the first that has residues.

    Of several models the first is read, of alternative places of an atom the first.
    """
    residues: dict[str, dict[str, tuple[str, dict[str, tuple[float, float, float]]]]] = {}
    with Lines(path) as lines:
        filled = filter(str.strip, lines)
        first = next(filled, "")
        records = _mmcif(first, filled) if first.startswith(MMCIF) else _pdb(first, filled)
        for atom in records:
            own = residues.setdefault(atom.chain, {})
            _, atoms = own.setdefault(atom.number, (atom.residue, {}))
            atoms.setdefault(atom.name, atom.place)
    with located(path):
        if not residues:
            raise DataError("holds no atoms of residues. Is it a PDB or mmCIF file?")
        chosen = next(iter(residues)) if chain is None else chain
        if chosen not in residues:
            raise DataError(f"has no chain {chosen!r}; there are {', '.join(residues)}.")
    found = residues[chosen]
    letters = [_letter(name) for name, _ in found.values()]
    places = [_place(letter, *own) for letter, own in zip(letters, found.values(), strict=True)]
    return Structure(chosen, "".join(letters), tuple(found), np.array(places))


def _letter(residue: str) -> str:
    return AMINO_ACIDS.get(residue) or NUCLEOTIDES[residue]


def _place(
    letter: str, residue: str, atoms: dict[str, tuple[float, float, float]]
) -> tuple[float, float, float]:
    names = ("CB", "CA") if residue in AMINO_ACIDS else (PAIRING[letter],)
    return next((atoms[name] for name in names if name in atoms), (np.nan,) * 3)


def _pdb(first: str, rest: Iterable[str]) -> Iterator[_Atom]:
    for line in chain([first], rest):
        if line.startswith("ENDMDL"):
            return
        if line.startswith(("ATOM  ", "HETATM")):
            residue = line[17:20].strip()
            if residue in AMINO_ACIDS or (residue in NUCLEOTIDES and line.startswith("ATOM")):
                words = line[30:38], line[38:46], line[46:54]
                number = line[22:27].strip()
                named = line[21].strip() or "-"
                yield _Atom(named, number, residue, line[12:16].strip(), _numbers(words))


def _mmcif(first: str, rest: Iterable[str]) -> Iterator[_Atom]:
    names: list[str] = []
    model = None
    for line in chain([first], rest):
        if line.startswith(ATOM_SITE):
            names.append(line.strip().removeprefix(ATOM_SITE))
            continue
        if not names or not line.startswith(("ATOM", "HETATM")):
            if names and line.startswith(("#", "loop_", "_")):
                return
            continue
        if missing := [name for name in NEEDED if name not in names]:
            raise DataError(f"the table of atoms has no column {ATOM_SITE}{missing[0]}.")
        words = ["".join(groups) for groups in WORD.findall(line)]
        if len(words) != len(names):
            problem = f"an atom has {len(words)} words, for {len(names)} columns"
            raise DataError(f"{problem}. Is the line cut off?")
        row = dict(zip(names, words, strict=True))
        own = row.get("pdbx_PDB_model_num")
        model = own if model is None else model
        residue = row["label_comp_id"]
        if own != model:
            return
        if residue in AMINO_ACIDS or (residue in NUCLEOTIDES and row["group_PDB"] == "ATOM"):
            code = row.get("pdbx_PDB_ins_code", "?").strip("?.")
            number = row.get("auth_seq_id") or row.get("label_seq_id", "")
            named = row.get("auth_asym_id") or row.get("label_asym_id", "-")
            place = _numbers((row["Cartn_x"], row["Cartn_y"], row["Cartn_z"]))
            yield _Atom(named, number + code, residue, row["label_atom_id"], place)


def _numbers(words: tuple[str, str, str]) -> tuple[float, float, float]:
    try:
        x, y, z = map(float, words)
    except ValueError as error:
        raise DataError(f"no place of an atom: {' '.join(words)!r}.") from error
    return x, y, z

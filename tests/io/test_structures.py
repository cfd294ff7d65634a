"""PDB and mmCIF files: the same structure from both, chains, alternatives, and damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrflearn.errors import DataError
from mrflearn.io.structures import read_structure

PDB = """\
HEADER    EXAMPLE
ATOM      1  CA  ALA A   5       0.000   0.000   0.000  1.00  0.00
ATOM      2  CB AALA A   5       1.000   0.000   0.000  0.50  0.00
ATOM      3  CB BALA A   5       9.000   0.000   0.000  0.50  0.00
ATOM      4  CA  GLY A   6       4.000   0.000   0.000  1.00  0.00
HETATM    5  CB  MSE A   6A      4.000   4.000   0.000  1.00  0.00
HETATM    6  O   HOH A   7       5.000   5.000   5.000  1.00  0.00
ATOM      7  N   TRP A   8       5.000   5.000   5.000  1.00  0.00
ATOM      8  N1    G B   1       0.000   0.000   0.000  1.00  0.00
ATOM      9  N3    C B   2       0.000   3.000   0.000  1.00  0.00
ENDMDL
ATOM     10  CA  ALA C   5       0.000   0.000   0.000  1.00  0.00
"""
CIF = """\
data_EXAMPLE
#
loop_
_atom_site.group_PDB
_atom_site.id
_atom_site.label_atom_id
_atom_site.label_comp_id
_atom_site.label_asym_id
_atom_site.pdbx_PDB_ins_code
_atom_site.Cartn_x
_atom_site.Cartn_y
_atom_site.Cartn_z
_atom_site.auth_seq_id
_atom_site.auth_asym_id
_atom_site.pdbx_PDB_model_num
ATOM   1 CA    ALA X ? 0.0 0.0 0.0 5 A 1
ATOM   2 CB    ALA X ? 1.0 0.0 0.0 5 A 1
ATOM   3 CB    ALA X ? 9.0 0.0 0.0 5 A 1
ATOM   4 CA    GLY X ? 4.0 0.0 0.0 6 A 1
HETATM 5 CB    MSE X A 4.0 4.0 0.0 6 A 1
HETATM 6 O     HOH X ? 5.0 5.0 5.0 7 A 1
ATOM   7 N     TRP X ? 5.0 5.0 5.0 8 A 1
ATOM   8 "C1'" G   Y ? 7.0 7.0 7.0 1 B 1
ATOM   9 N1    G   Y ? 0.0 0.0 0.0 1 B 1
ATOM  10 N3    C   Y ? 0.0 3.0 0.0 2 B 1
ATOM  11 CA    ALA Z ? 0.0 0.0 0.0 5 C 2
#
loop_
_other.thing
1
"""


@pytest.fixture(params=["pdb", "cif"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"x.{request.param}"
    path.write_text(PDB if request.param == "pdb" else CIF)
    return path


def test_both_formats_give_residues_and_where_they_are(file: Path) -> None:
    found = read_structure(file)
    assert (found.chain, found.letters, len(found)) == ("A", "AGMW", 4)
    assert found.numbers == ("5", "6", "6A", "8")
    # The first of two alternatives, glycine's alpha carbon, and nothing of tryptophan's place.
    distances = found.distances()
    np.testing.assert_allclose(distances[:3, :3], [[0, 3, 5], [3, 0, 4], [5, 4, 0]])
    assert np.isnan(distances[3, :3]).all()


def test_nucleotides_touch_where_they_pair(file: Path) -> None:
    found = read_structure(file, "B")
    assert found.letters == "GC"
    assert found.distances()[0, 1] == 3
    with pytest.raises(DataError, match="A, B"):  # the second model is not read
        read_structure(file, "C")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no atoms"),
        (
            PDB.replace("   4.000   0.000   0.000  1.00", "   4.0x0   0.000   0.000  1.00"),
            "x.pdb:5",
        ),
        (CIF.replace("4.0 0.0 0.0 6 A 1", "4.0 0.0"), "cut off"),
        (CIF.replace("_atom_site.Cartn_y\n", "_atom_site.other\n"), "Cartn_y"),
    ],
)
def test_damaged_files_are_told(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "x.pdb").write_text(text)
    with pytest.raises(DataError, match=complaint):
        read_structure(tmp_path / "x.pdb")

"""Alignments: six formats, insertions, unknown letters, complaints by line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io.alignments import (
    ALPHABETS,
    Alignment,
    holds_alignment,
    read_alignment,
    write_alignment,
)


def place(folder: Path, text: str) -> Path:
    path = folder / "family.fasta"
    path.write_text(text, encoding="utf-8")
    return path


def letters(alignment: Alignment) -> list[str]:
    return ["".join(alignment.alphabet[state] for state in row) for row in alignment.values]


@st.composite
def alignments(draw: st.DrawFn) -> Alignment:
    molecule = draw(st.sampled_from(["protein", "rna", "dna"]))
    rows, columns = draw(st.integers(1, 5)), draw(st.sampled_from([1, 7, 60, 61, 130]))
    seed = draw(st.integers(0, 999))
    states = len(ALPHABETS[molecule])
    values = np.random.default_rng(seed).integers(0, states, (rows, columns), dtype=np.int8)
    name = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]))
    names = tuple(draw(st.lists(name, min_size=rows, max_size=rows)))
    return Alignment(molecule, names if draw(st.booleans()) else None, values)


@given(alignments())
def test_round_trip(tmp_path_factory, alignment: Alignment) -> None:
    folder = tmp_path_factory.mktemp("alignment")
    numbered = tuple(f"sequence-{i + 1}" for i in range(len(alignment)))
    for name, sign, names in (
        ("family.gz", ">", alignment.names or numbered),
        ("family.a3m", ">", alignment.names or numbered),
        ("family.stk", "# STOCKHOLM 1.0\n", numbered),
        ("family.aln", "", None),
        ("family.txt", "", None),
    ):
        given = replace(alignment, names=None) if name == "family.stk" else alignment
        write_alignment(folder / name, given)
        again = read_alignment(folder / name, alignment.molecule)
        assert again.names == names
        assert again.unknown == 0
        np.testing.assert_array_equal(again.values, alignment.values)
        assert name.endswith(".gz") or (folder / name).read_text("utf-8").startswith(sign)


def test_stockholm_names_a_sequence_by_one_word(tmp_path: Path) -> None:
    path, values = tmp_path / "family.sto", np.zeros((2, 3), dtype=np.int8)
    write_alignment(path, Alignment("protein", ("P1/2-4 a kinase", "long/name"), values))
    assert read_alignment(path).names == ("P1/2-4", "long/name")
    for names in (("P1 a", "P1 b"), ("", "b"), ("#=GF", "b"), ("//", "b"), ("a\tb", "c")):
        with pytest.raises(DataError, match="one word"):
            write_alignment(path, Alignment("protein", names, values))


def test_an_ending_that_is_not_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'\.phylip'.*\.fasta.*\.a3m.*\.sto.*\.aln"):
        write_alignment(tmp_path / "a.phylip", Alignment("dna", None, np.zeros((1, 2), np.int8)))


@pytest.mark.parametrize(
    ("text", "molecule", "read"),
    [
        ("ACGUUN", "rna", "ACGUU-"),
        ("ac.gu-", "rna", "AC-GU-"),
        ("ACGT", "dna", "ACGT"),
        ("ACGTUU", "rna", "ACGUUU"),
        ("ACGUUR", "rna", "ACGUU-"),  # R is a base that is known in part
        ("ACGTR", "protein", "ACGTR"),
        ("WYFHKU", "protein", "WYFHK-"),
        ("ACG-", "protein", "ACG-"),
    ],
)
def test_letters_tell_the_molecule(tmp_path: Path, text: str, molecule: str, read: str) -> None:
    found = read_alignment(place(tmp_path, f"{text}\n"))
    assert (found.molecule, letters(found)) == (molecule, [read])


def test_gap_is_zero_and_letters_follow_the_alphabet(tmp_path: Path) -> None:
    alignment = read_alignment(place(tmp_path, "-ACDEFGHIKLMNPQRSTVWY\n"))
    assert alignment.values.tolist() == [list(range(21))]
    assert alignment.names is None


def test_sequences_may_run_over_lines_and_have_spaces(tmp_path: Path) -> None:
    text = ">first one\nACD EFG\nhik\n\n> second\nAC-\n.FGHIK\n"
    alignment = read_alignment(place(tmp_path, text))
    assert alignment.names == ("first one", "second")
    assert letters(alignment) == ["ACDEFGHIK", "AC--FGHIK"]


def test_insertions_are_dropped_on_request(tmp_path: Path) -> None:
    path = place(tmp_path, ">a\nACxyDE\n>b\nAC.D-\n")
    with pytest.raises(DataError, match="drop_inserts=True") as caught:
        read_alignment(path)
    assert caught.value.line == 3
    found = read_alignment(path, drop_inserts=True)
    assert letters(found) == ["ACDE", "ACD-"]
    assert (found.inserts, found.lowered) == (2, 0)
    aligned = read_alignment(place(tmp_path, ">a\nACxyDE\n>b\nAC..D-\n"))
    assert (aligned.inserts, aligned.lowered) == (0, 2)


def test_unknown_letters_become_gaps_and_are_counted(tmp_path: Path) -> None:
    alignment = read_alignment(place(tmp_path, "ACDEFGHIKX\nACDEFGHI*B\n"))
    assert letters(alignment) == ["ACDEFGHIK-", "ACDEFGHI--"]
    assert alignment.unknown == 3


def test_the_two_acids_write_one_base_differently(tmp_path: Path) -> None:
    path = place(tmp_path, "ACGTU\n")
    assert letters(read_alignment(path, "rna")) == ["ACGUU"]
    assert letters(read_alignment(path, "dna")) == ["ACGTT"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "no sequences"),
        (">only a name\n", None, "no sequences"),
        ("....\n", None, "no sequences"),
        ("ACD\nAC\n", 2, "2 columns"),
        (">a\nACD\n>b\n\nACDE\n", 3, "4 columns"),
        (">a\nACD\n>b\nA1D\n", 4, "'1'"),
        ("ACD\n>a\nACD\n", 2, "'>'"),
        ("ACDJJJJ\n", None, "another molecule"),
        ("ACé\n", 1, "'é'"),
    ],
)
def test_complaints_name_the_line(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_alignment(place(tmp_path, text), drop_inserts=text == "....\n")
    assert caught.value.line == line


def test_names_that_would_not_come_back(tmp_path: Path) -> None:
    for name in ("two\nlines", " spaced"):
        with pytest.raises(DataError, match="read back"):
            write_alignment(
                tmp_path / "out", Alignment("dna", (name,), np.zeros((1, 2), dtype=np.int8))
            )
    assert not list(tmp_path.iterdir())


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "molecule", "drop", "shape", "distinct"),
    [
        ("1atzA.aln", "protein", False, (3068, 75), 3068),
        ("PF00014.fasta", "protein", False, (4915, 219), 3644),
        ("PF00014.fasta", "protein", True, (4915, 53), 3617),
        ("RF00379.fasta", "rna", False, (3827, 136), 3646),
    ],
)
def test_real_families(data_folder: Path, name, molecule, drop, shape, distinct) -> None:
    alignment = read_alignment(data_folder / "protein-msa" / name, molecule, drop_inserts=drop)
    assert alignment.values.shape == shape
    assert (alignment.names is None) == name.endswith(".aln")
    assert len(np.unique(alignment.values, axis=0)) == distinct
    assert alignment.unknown < 0.001 * alignment.values.size


SAME = {
    "a.sto": "# STOCKHOLM 1.0\n#=GF ID x\n\none AC\ntwo/1-3 A.\n#=GC SS ..\n\n"
    "one DE\ntwo/1-3 -e\n//\n",
    "a.aln": "CLUSTAL W (1.83)\n\n\none     AC 2\ntwo/1-3 A- 1\n        *\n\n"
    "one     DE 4\ntwo/1-3 -E 2\n",
    "a.a3m": ">one\nAaCDgE\n>two/1-3\nA--E\n",
    "a.txt": "\ufeff>one\r\nACDE\r\n>two/1-3\r\nA--E",
}


@pytest.mark.parametrize("name", SAME)
def test_other_formats_hold_the_same(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(SAME[name], encoding="utf-8", newline="")
    assert holds_alignment(path)
    alignment = read_alignment(path)
    assert alignment.names == ("one", "two/1-3")
    assert letters(alignment) == ["ACDE", "A--E"]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("# STOCKHOLM 1.0\none ACD\ntwo\n//\n", 3, "cut off"),
        ("# STOCKHOLM 1.0\none AC\n//\n# STOCKHOLM 1.0\none AC\n//\n", 4, "a second alignment"),
        ("CLUSTAL\n\none AC\ntwo ACD\n", 4, "not aligned"),
        ("CLUSTAL\n\none A7\n", 3, "'7' stands for no residue"),
    ],
)
def test_blocks_that_cannot_be_read(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = place(tmp_path, text)
    with pytest.raises(DataError, match=says) as raised:
        read_alignment(path)
    assert f":{line}:" in str(raised.value)


def test_tables_and_pipes_are_no_alignments(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("0 1 0\n")
    assert not holds_alignment(tmp_path / "rows.txt")
    assert not holds_alignment("-")
    assert holds_alignment("absent.FASTA.gz")

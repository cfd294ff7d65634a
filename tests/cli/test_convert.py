"""Files become other files; broken ones become one clear line, exit code 1 and nothing else."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from mrflearn import MarkovField
from mrflearn.errors import DataError
from mrflearn.inference.junction_tree import JunctionTree
from mrflearn.io.formats import convert_file
from support.command import run

COLUMNS = "The DT B-NP\ncat NN I-NP\nsat VBD B-VP\n\nDogs NNS B-NP\nbark VBP B-VP\n\n"


def test_columns_become_text_tagged_text_and_other_schemes(tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text(COLUMNS)
    names = ["word", "pos", "chunk"]
    convert_file(source, tmp_path / "a.txt", columns=names)
    assert (tmp_path / "a.txt").read_text() == "The cat sat\nDogs bark\n"
    convert_file(source, tmp_path / "a.tagged", columns=names, keep=["word", "pos"])
    assert (tmp_path / "a.tagged").read_text() == "The/DT cat/NN sat/VBD\nDogs/NNS bark/VBP\n"
    convert_file(source, tmp_path / "b.conll.gz", columns=names, scheme="BIOES")
    convert_file(tmp_path / "b.conll.gz", tmp_path / "c.conll", columns=names, keep=["chunk"])
    chunks = (tmp_path / "c.conll").read_text().split()
    assert chunks == ["B-NP", "E-NP", "S-VP", "S-NP", "S-VP"]


def test_programs_read_what_was_converted(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text(COLUMNS)
    source, target = str(tmp_path / "a.conll"), str(tmp_path / "a.txt")
    found = run("convert", source, target, "--columns", "word,pos,chunk", "--json").json()
    assert found == {"source": source, "target": target, "from": "columns", "to": "text"}


def test_trees_become_columns(tmp_path: Path) -> None:
    (tmp_path / "a.mrg").write_text("( (S (NP (DT The) (NN cat)) (VP (VBD sat) (-NONE- *))) )\n")
    convert_file(tmp_path / "a.mrg", tmp_path / "a.conll")
    assert (tmp_path / "a.conll").read_text() == "The DT\ncat NN\nsat VBD\n\n"


def test_samples_alignments_and_vectors(tmp_path: Path) -> None:
    (tmp_path / "a.digits").write_text("0110\n1001\n")
    convert_file(tmp_path / "a.digits", tmp_path / "a.npy")
    convert_file(tmp_path / "a.npy", tmp_path / "a.csv")
    convert_file(tmp_path / "a.csv", tmp_path / "b.digits")
    assert (tmp_path / "b.digits").read_text() == "0110\n1001\n"
    (tmp_path / "a.vec").write_text("2 3\na 1 0 0.5\nb 0 -1 2\n")
    convert_file(tmp_path / "a.vec", tmp_path / "a.bin")
    convert_file(tmp_path / "a.bin", tmp_path / "b.vec")
    assert (tmp_path / "b.vec").read_text().splitlines()[0] == "2 3"


def test_alignments_are_written_as_their_ending_says(tmp_path: Path) -> None:
    rna = ">P1/1-5\nACGU-\n>P2\nACGUU\n"  # in which a U must not become a gap
    (tmp_path / "a.fasta").write_text(rna)
    for source, target in itertools.pairwise(["a.fasta", "a.sto", "a.a3m", "b.stk", "b.fa"]):
        run("convert", str(tmp_path / source), str(tmp_path / target))
    assert (tmp_path / "a.sto").read_text().startswith("# STOCKHOLM 1.0\n")
    assert (tmp_path / "a.a3m").read_text() == (tmp_path / "b.fa").read_text() == rna
    found = run("convert", str(tmp_path / "b.fa"), str(tmp_path / "b.aln"), "--json").json()
    assert (found["from"], found["to"]) == ("fasta", "aln")
    assert (tmp_path / "b.aln").read_text() == "ACGU-\nACGUU\n"


def test_what_conversion_changes_in_an_alignment_is_said(tmp_path: Path) -> None:
    for source, text, said in (
        ("a.a3m", ">a\nACklDE\n>b\nACDw-\n", ["3 letters", "insertions", "left out"]),
        ("a.a2m", ">a\nACkDE\n>b\nAC.D-\n", ["1 letters", "insertions", "left out"]),
        ("b.fasta", ">a\nACkDE\n>b\nAC.D-\n", ["1 letters", "upper case"]),
        ("c.fasta", ">a\nACKDEFGHIX\n", ["1 letters", "protein alphabet", "gaps"]),
        ("d.fasta", ">a\nACKDE\n>b\nAC-D-\n", []),
    ):
        (tmp_path / source).write_text(text)
        done = run("convert", str(tmp_path / source), str(tmp_path / "out.sto"))
        assert done.code == 0, done.err
        assert all(word in done.err for word in said), done.err
        assert ("letters" in done.err) == bool(said), done.err


@pytest.mark.parametrize(
    ("source", "target", "says"),
    [
        ("a.uai", "a.csv", "cannot become"),
        ("a.txt", "a.conll", "cannot become"),
        ("a.xyz", "a.csv", "stands for no format"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, source: str, target: str, says: str) -> None:
    (tmp_path / source).write_text("MARKOV 1 2 0")
    with pytest.raises(DataError, match=says):
        convert_file(tmp_path / source, tmp_path / target)
    assert not (tmp_path / target).exists()


@pytest.mark.parametrize("broken", ["columns", "conllu", "tagged", "ptb", "seminar", "crfsuite",
                                    "csv", "npy", "samples", "digits", "fasta", "stockholm",
                                    "aln", "vectors", "binary-vectors", "uai", "text",
                                    "arpa"])  # fmt: skip
def test_a_broken_file_of_each_format(tmp_path: Path, broken: str) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"\xff\xfe(( 1 / <stime> \x00\x01 \xf0\x28")
    found = run("convert", str(source), str(target), "--from", broken, "--to", broken)
    assert found.code == 1
    assert found.err.startswith(f"mrflearn: {source}")
    assert len(found.err.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_field_becomes_a_network_of_the_same_distribution(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 3, (60, 4))
    field = MarkovField("chain:4", l2=0.1).fit(rows)
    field.save(tmp_path / "field")
    target = tmp_path / "field.uai"
    assert run("convert", str(tmp_path / "field"), str(target)).code == 0
    found = run("infer", str(target), "--json").json()
    beliefs = JunctionTree()(field.potentials_)
    assert found["log_partition"] == pytest.approx(float(beliefs.log_partition.sum()))
    np.testing.assert_allclose(found["marginals"], beliefs.variables.numpy(), atol=1e-9)


@pytest.mark.parametrize(
    ("rest", "code", "says"),
    [
        (["field.csv"], 1, "a field is exported to a name in .uai"),
        (["field.uai", "--scheme", "IOB2"], 2, "--scheme: for files"),
        (["field.uai", "--to", "uai"], 2, "--to: for files"),
    ],
)
def test_models_become_what_they_can(tmp_path: Path, rest: list[str], code: int, says: str) -> None:
    MarkovField("chain:3", l2=0.1).fit([[0, 1, 0], [1, 1, 0]]).save(tmp_path / "field")
    name, *options = rest
    found = run("convert", str(tmp_path / "field"), str(tmp_path / name), *options)
    assert found.code == code
    assert says in found.err
    assert not (tmp_path / name).exists()

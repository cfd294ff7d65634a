"""Families on the command line: contacts over a structure, and effects of mutations."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from mrflearn import load
from mrflearn.describe import tasks_of
from mrflearn.io.potts_files import read_plmc
from mrflearn.io.structures import AMINO_ACIDS
from support.command import run

LETTERS = "ACDEFGHIKLMNPQRSTVWY"
THREE = {letter: name for name, letter in reversed(AMINO_ACIDS.items())}
OWN = "MKTAYIAKQR"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An alignment with a focus, its structure, and a field that ignores gaps."""
    path = tmp_path_factory.mktemp("family")
    random = np.random.default_rng(0)
    lines = [f">own/11-20\n{OWN}"]
    for i in range(60):
        row = [own if random.random() < 0.6 else random.choice(list(LETTERS)) for own in OWN]
        row[9] = row[1]  # columns that depend on each other, and touch
        lines.append(f">other{i}\n{''.join(row)}")
    (path / "x.fasta").write_text("\n".join(lines) + "\n")
    places = [(0.0 if i == 9 else 3.8 * (i - 1), 0.0, 4.0 * (i == 9)) for i in range(10)]
    atoms = [
        f"ATOM  {i:5}  CB  {THREE[own]} A{i + 1:4}    {x:8.3f}{y:8.3f}{z:8.3f}"
        for i, (own, (x, y, z)) in enumerate(zip(OWN, places, strict=True))
    ]
    (path / "x.pdb").write_text("\n".join(atoms) + "\n")
    train = ["train", "field", str(path / "x.fasta"), "--focus", "own", "--ignore-gaps", "-q"]
    result = run(*train, "-o", str(path / "m"), "--json")
    assert result.code == 0, result.err
    answer = result.json()
    assert (answer["focus"], answer["estimator"], answer["variables"]) == ("own/11-20", "pl", 10)
    return path


def test_contacts_over_a_structure(folder: Path, tmp_path: Path) -> None:
    picture, table, page = tmp_path / "x.png", tmp_path / "x.csv", tmp_path / "x.html"
    options = ["--structure", str(folder / "x.pdb"), "--plot", str(picture), "-o", str(table)]
    result = run("inspect", str(folder / "m"), *options, "--html", str(page), "--json")
    assert result.code == 0, result.err
    answer = result.json()
    assert (answer["columns_in_structure"], answer["chain"]) == (10, "A")
    assert answer["precision_L/10"] == 1.0  # columns 2 and 10
    assert answer["contacts"][0][:2] == [12, 20]
    assert picture.stat().st_size > 1000
    assert "over the pairs of residues of chain A" in page.read_text()
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == 45
    first = [rows[0][name] for name in ("i", "letter_i", "j", "letter_j")]
    assert first == ["12", "K", "20", "R"]
    assert run("inspect", str(folder / "m"), "--chain", "A").code == 2
    refused = run("inspect", str(folder / "m"), *options[:2], "--chain", "B")
    assert (refused.code, "A" in refused.err) == (1, True)


def test_effects_of_mutations(folder: Path, tmp_path: Path) -> None:
    model = load(folder / "m")
    answer = run("score", str(folder / "m"), "--mutants", "M11A,K12C:R20C", "--json").json()
    expected = model.score_mutants("M11A,K12C:R20C").tolist()
    assert [own["mutant"] for own in answer["mutants"]] == ["M11A", "K12C:R20C"]
    np.testing.assert_allclose([own["score"] for own in answer["mutants"]], expected)
    table, picture = tmp_path / "x.csv", tmp_path / "x.svg"
    result = run("score", str(folder / "m"), "--scan", "-o", str(table), "--plot", str(picture))
    assert result.code == 0, result.err
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert (len(rows), rows[0]["mutant"]) == (190, "M11A")
    assert float(rows[0]["score"]) == pytest.approx(expected[0])
    assert "svg" in picture.read_text()
    wrong = run("score", str(folder / "m"), "--mutants", "A11C")
    assert (wrong.code, "has M at position 11" in wrong.err) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--mutants", "M11A", "--scan"],
        ["--mutants", "M11A", "--method", "pl"],
        ["--plot", "x.png"],
    ],
)
def test_options_that_do_not_go_together(folder: Path, words: list[str]) -> None:
    assert run("score", str(folder / "m"), *words).code == 2


def test_the_report_and_the_page_show_effects(folder: Path) -> None:
    assert "The effect of every mutation" in (folder / "m" / "report.html").read_text()
    tasks = {task.name: task for task in tasks_of(load(folder / "m"))}
    (table,) = tasks["mutants"](tasks["mutants"].usual)
    assert [name for name, _ in table.rows] == tasks["mutants"].usual.split()


def test_other_programs_get_their_files(folder: Path, tmp_path: Path) -> None:
    assert run("convert", str(folder / "m"), str(tmp_path / "x.model")).code == 0
    found = read_plmc(tmp_path / "x.model")
    assert (found.target, found.positions[0], len(found.alphabet)) == (OWN, 11, 20)
    assert run("convert", str(folder / "m"), str(tmp_path / "x.raw")).code == 0


def test_a_generative_field_is_learned(folder: Path, tmp_path: Path) -> None:
    words = ["--estimator", "pcd", "--chains", "50", "--max-iterations", "3", "-q", "--json"]
    result = run("train", "field", str(folder / "x.fasta"), *words, "-o", str(tmp_path / "m"))
    assert result.code == 0, result.err
    assert (result.json()["class"], result.json()["estimator"]) == ("PottsField", "pcd")
    refused = run("train", "field", str(folder / "x.fasta"), "--chains", "9", "-o", "y")
    assert (refused.code, "--chains" in refused.err) == (2, True)

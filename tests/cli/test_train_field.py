"""`mrflearn train field` with every estimator, and what it says of bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mrflearn
from mrflearn.execution import resources
from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import random_ising
from mrflearn.inference.sampling import Drawing
from support.command import run


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = Drawing()(random_ising(grid(2, 3), seed=0), 2_000, seed=0).samples.numpy()
    path = tmp_path_factory.mktemp("samples") / "samples.txt"
    path.write_text("\n".join("".join(map(str, row)) for row in rows) + "\n")
    return path


@pytest.mark.parametrize("words", ["lap --auxiliary pairwise", "lap --l1 2", "consensus", "pw"])
def test_fields_are_learned_and_saved(samples: Path, tmp_path: Path, words: str) -> None:
    options = ["--graph", "grid:2x3", "--estimator", *words.split(), "-o", str(tmp_path / "m")]
    result = run("train", "field", str(samples), *options, "--quiet", "--json")
    assert (result.code, result.err) == (0, "")
    answer = result.json()
    assert answer["estimator"] == words.split()[0]
    assert answer["converged"]
    model = mrflearn.load(tmp_path / "m")
    assert np.isfinite(model.couplings_).all()
    assert len(model.edges_) == answer["couplings"] == 7


def test_spins_come_back_as_spins(samples: Path, tmp_path: Path) -> None:
    digits = np.array([list(map(int, line)) for line in samples.read_text().split()])
    np.savetxt(tmp_path / "spins.txt", 2 * digits - 1)
    folders = {"spins": tmp_path / "spins.txt", "states": samples}
    for name, file in folders.items():
        options = ["--graph", "grid:2x3", "-o", str(tmp_path / name), "-q"]
        assert run("train", "field", str(file), *options).code == 0
    drawn = {name: run("sample", str(tmp_path / name), "-n", "20").out for name in folders}
    assert drawn["spins"].replace("-1", "0") == drawn["states"]
    assert "-1" in drawn["spins"]
    for file in folders.values():  # a model of spins judges states too
        judged = run("evaluate", str(tmp_path / "spins"), str(file), "--json")
        assert judged.json()["samples"] == 2_000
    written = run("sample", str(tmp_path / "spins"), "-n", "20", "-o", str(tmp_path / "new.npy"))
    assert (written.code, set(np.load(tmp_path / "new.npy").ravel().tolist())) == (0, {-1, 1})


def test_a_state_that_no_row_has_is_named_and_a_penalty_advised(tmp_path: Path) -> None:
    rows = "\n".join(["0,0", "1,1", "1,2"] * 9)
    (tmp_path / "few.csv").write_text(f"sleep,mood\n{rows}\n")
    command = ["train", "field", str(tmp_path / "few.csv"), "-q", "-o", str(tmp_path / "m")]
    result = run(*command)
    assert result.code == 0
    assert "column 'sleep' = 0 and column 'mood' = 1" in result.err
    assert "(--l2 0.1)" in result.err
    refused = run(*command, "--overwrite", "--estimator", "pmm")
    assert refused.code == 1
    assert "column 'sleep' = 0 and column 'mood' = 1" in refused.err
    assert not run(*command, "--overwrite", "--l2", "0.1").err.count("penalty")


@pytest.mark.parametrize(
    "words",
    [
        "--auxiliary dense",
        "--identity 0.7",
        "--l2-couplings 0.1",
        "--molecule protein",
        "--drop-inserts",
        "--missing",
        "--jobs 2 --estimator pl",
    ],
)
def test_options_without_an_effect_are_refused(samples: Path, tmp_path: Path, words: str) -> None:
    model = tmp_path / "m"
    refused = run(
        "train", "field", str(samples), "--graph", "grid:2x3", "-o", str(model), *words.split()
    )
    assert refused.code == 2
    assert words.split()[0] in refused.err
    assert not model.exists()


def test_a_family_has_its_own_price(tmp_path: Path) -> None:
    (tmp_path / "family.fasta").write_text(">a\nACDE\n>b\nACDF\n")
    words = [str(tmp_path / "family.fasta"), "-o", str(tmp_path / "m"), "--l2", "0.1"]
    refused = run("train", "field", *words)
    assert refused.code == 2
    assert "--l2-couplings" in refused.err
    words = [str(tmp_path / "family.fasta"), "-o", str(tmp_path / "m"), "--l2-couplings", "0.1"]
    refused = run("train", "field", *words, "--estimator", "lap")
    assert refused.code == 2
    assert "an alignment on the complete graph by pl" in " ".join(refused.err.split())


def test_columns_of_gaps_and_strange_letters_are_remarked(tmp_path: Path) -> None:
    family = tmp_path / "family.a2m"
    family.write_text(">a\nACxD\n>b\nAC.D\n>c\nGC.B\n>d\nGC.E\n>e\nGC.E\n")
    found = run("train", "field", str(family), "-q", "-o", str(tmp_path / "m"))
    assert found.code == 0
    assert "2 letters outside the protein alphabet are gaps" in found.err
    assert "1 of 4 columns are gaps in most sequences" in found.err
    again = run("train", "field", str(family), "-q", "--drop-inserts", "-o", str(tmp_path / "m"))
    assert "in most sequences" not in again.err


@pytest.mark.parametrize("estimator", ["pl", "lap"])
def test_bases_are_read_as_rna_and_it_is_said(tmp_path: Path, estimator: str) -> None:
    family, model = tmp_path / "family.fasta", str(tmp_path / "m")
    family.write_text(">a\nACGU-\n>b\nACGUU\n>c\nGCGAN\n")
    options = ["--graph", "chain:5", "--l2", "0.1"] if estimator == "lap" else []
    words = ["-q", "--estimator", estimator, *options, "-o", model]
    found = run("train", "field", str(family), *words)
    assert found.code == 0, found.err
    assert "rna" in found.err
    drawn = run("sample", model, "-n", "5", "--seed", "1").out
    assert set(drawn) <= set("-ACGU\n")
    few = tmp_path / "few.fasta"  # read as the model's own, whatever its letters may be
    few.write_text(">a\nACG--\n")
    scored = run("score", model, str(few), "--method", "pl")
    assert scored.code == 0, scored.err
    assert "alphabet" not in scored.err


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items coded 1 and 2, of which two agree, with some answers missing."""
    generator = np.random.default_rng(0)
    rows = generator.integers(1, 3, (400, 5))
    rows[:, 4] = np.where(generator.random(400) < 0.9, rows[:, 1], rows[:, 4])
    cells = np.where(generator.random(rows.shape) < 0.05, "NA", rows.astype(str))
    path = tmp_path_factory.mktemp("survey") / "survey.csv"
    path.write_text("\n".join(",".join(row) for row in [list("abcde"), *cells.tolist()]) + "\n")
    return path


def test_a_survey_coded_1_and_2_keeps_its_codes(survey: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "m")
    trained = run("train", "field", str(survey), "--graph", "learn", "-o", model)
    assert trained.code == 0, trained.err
    recoded = [line for line in trained.err.splitlines() if "codes 1, 2" in line]
    assert len(recoded) == 1  # told once
    left_out = [line for line in trained.err.splitlines() if "of 400" in line]
    assert left_out  # how many rows the edges were found from
    assert "1 edges found" in trained.err
    shown = run("inspect", model)
    assert "coupling" in shown.out
    assert any(line.split()[:2] == ["b", "e"] for line in shown.out.splitlines())
    assert run("inspect", model, "--json").json()["codes"] == [[1, 2]] * 5
    drawn = run("sample", model, "-n", "40")
    assert set(drawn.out.split()) == {"1", "2"}
    assert run("sample", model, "-n", "40", "-o", str(tmp_path / "new.csv")).code == 0
    header, *rows = (tmp_path / "new.csv").read_text().splitlines()
    assert header == "a,b,c,d,e"
    assert set(",".join(rows).split(",")) == {"1", "2"}
    for verb in ("score", "evaluate"):
        assert run(verb, model, str(survey), "--json").json()["samples"] < 400
    assert run("score", model, str(tmp_path / "new.csv"), "--json").json()["samples"] == 40
    converted = run("convert", model, str(tmp_path / "m.uai"))
    constant = mrflearn.load(model).gauge_constant_
    assert f"{constant:.6g}" in converted.err


def test_edges_that_were_found_outlive_a_failure(survey: Path, tmp_path: Path) -> None:
    options = ["--graph", "learn", "--estimator", "ml", "-o", str(tmp_path / "m"), "-q"]
    kept = str(tmp_path / "checkpoint")  # which there is none of where values are missing
    failed = run("train", "field", str(survey), *options, "--checkpoint", kept)
    assert failed.code == 1
    assert f"--graph edges:{tmp_path / 'm.edges'}" in failed.err
    options[1:4] = [f"edges:{tmp_path / 'm.edges'}", "--estimator", "pl"]
    again = run("train", "field", str(survey), *options, "--json")
    assert again.code == 0, again.err
    assert mrflearn.load(tmp_path / "m").edges_.tolist() == [[1, 4]]


def test_gaps_in_a_dense_graph_are_no_dead_end(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (200, 25)).astype(str)
    rows[::10, 3] = "NA"
    file = tmp_path / "dense.csv"
    file.write_text("\n".join(",".join(row) for row in rows.tolist()) + "\n")
    lap = run("train", "field", str(file), "--estimator", "lap", "-o", str(tmp_path / "m"), "-q")
    assert lap.code == 1
    assert "'pl'" in lap.err
    advised = ["--estimator", "pl", "--l2", "0.1", "-o", str(tmp_path / "m"), "-q", "--json"]
    assert run("train", "field", str(file), *advised).json()["converged"]


def test_a_graph_beyond_any_memory_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "_of_system", lambda: 10**9)
    np.save(tmp_path / "wide.npy", np.zeros((2, 20_000), dtype=np.uint8))
    result = run("train", "field", str(tmp_path / "wide.npy"), "-o", str(tmp_path / "m"), "-q")
    assert result.code == 1
    assert "1 GB is available" in result.err

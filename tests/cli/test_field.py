"""Fields on the command line: train, inspect, score, sample, evaluate, and what is refused."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from mrflearn import load
from mrflearn.describe import tasks_of
from mrflearn.io.alignments import read_alignment
from mrflearn.io.contacts import read_contacts
from mrflearn.io.samples import read_samples
from support.command import run

NAMES = ("left", "right", "alone")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two columns that mostly agree, one that does not care, and one that is no variable."""
    generator = np.random.default_rng(0)
    left = generator.integers(0, 2, 300)
    right = np.where(generator.random(300) < 0.9, left, 1 - left)
    alone = generator.integers(0, 2, 300)
    path = tmp_path_factory.mktemp("field") / "rows.csv"
    rows = zip(left, right, alone, strict=True)
    lines = [f"{a},{b},{c},text" for a, b, c in rows]
    path.write_text("left,right,alone,note\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    output = table.parent / "model"
    done = run("train", "field", str(table), "--keep", ",".join(NAMES), "-q", "-o", str(output))
    assert done.code == 0, done.err
    told = done.facts()
    names = ("variables", "couplings", "samples", "estimator")
    assert [told[name] for name in names] == ["3", "3", "300", "ml"]
    return output


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An alignment whose columns 1 and 6 agree."""
    generator = np.random.default_rng(1)
    letters = np.array(list("-ACDE"))
    rows = generator.integers(0, 5, (200, 7))
    rows[:, 5] = rows[:, 0]
    path = tmp_path_factory.mktemp("family") / "family.fasta"
    text = (f">{i}\n{''.join(letters[row])}\n" for i, row in enumerate(rows))
    path.write_text("".join(text))
    return path


@pytest.fixture(scope="module")
def potts(family: Path) -> Path:
    output = family.parent / "model"
    done = run("train", "field", str(family), "-q", "-o", str(output), "--json")
    assert done.code == 0, done.err
    assert done.json()["couplings"] == 21
    assert "200 sequences count as" in done.err
    return output


def test_inspect_names_the_strongest_edge(model: Path, tmp_path: Path) -> None:
    pictures = [str(tmp_path / "heat.png"), str(tmp_path / "graph.png")]
    shown = run("inspect", str(model), "--plot", pictures[0])
    assert shown.code == 0, shown.err
    assert run("inspect", str(model), "--plot", pictures[1], "--edges").code == 0
    table = tmp_path / "edges.csv"
    assert run("inspect", str(model), "-n", "1", "--edges", "-o", str(table)).code == 0
    header, *rows = csv.reader(table.read_text().splitlines())
    field = load(model)
    assert header == ["variable", "and", "strength"]
    assert [float(row[2]) for row in rows] == field.edge_table()["strength"]
    assert [row[0] for row in rows] == field.edge_table()["variable"]
    assert len(rows) == len(field.edges_)
    refused = run("inspect", str(model), "--edges")
    assert refused.code == 2
    assert "--plot" in refused.err
    told = [line.split()[:2] for line in shown.out.splitlines()]
    header = next(k for k, words in enumerate(told) if words[:1] == ["variable"])
    assert told[header + 1 :][0] == ["left", "right"]
    assert all(Path(picture).stat().st_size > 1000 for picture in pictures)
    answer = run("inspect", str(model), "--json", "-n", "1").json()
    assert answer["names"] == list(NAMES)
    assert answer["edges"][0][:2] == [0, 1]


def test_score_and_evaluate_agree(model: Path, table: Path, tmp_path: Path) -> None:
    columns = ["--keep", ",".join(NAMES)]
    scored = run("score", str(model), str(table), *columns, "--json").json()
    picture = tmp_path / "pictures" / "moments.png"
    answered = run("evaluate", str(model), str(table), *columns, "--plot", str(picture), "--json")
    evaluated = answered.json()
    assert evaluated["method"] == "exact"
    for key in ("log_likelihood_per_sample", "samples"):
        assert evaluated[key] == pytest.approx(scored[key])
    assert evaluated["largest_pair_error"] < 0.02  # of data learned from, without a penalty
    assert picture.exists()
    told = run("evaluate", str(model), str(table), *columns)
    assert "exact" in told.out
    assert "largest pair error" in told.out


def test_rows_with_missing_values_are_left_out_and_told(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("0,1,NA\n0,0,1\n")
    found = run("evaluate", str(model), str(path), "--json")
    assert found.json()["samples"] == found.json()["left_out"] == 1
    assert "1 rows with missing values" in found.err
    path.write_text("0,1,NA\n")
    assert run("evaluate", str(model), str(path)).code == 1


def test_samples_are_rows(model: Path) -> None:
    drawn = run("sample", str(model), "-n", "5", "--seed", "3")
    assert [len(line.split()) for line in drawn.out.splitlines()] == [3] * 5
    assert "exact" in drawn.err


def test_a_csv_of_samples_has_the_names_of_the_columns(model: Path, tmp_path: Path) -> None:
    written = run("sample", str(model), "-n", "5", "-o", str(tmp_path / "new.csv"), "--json")
    assert written.json()["output"] == str(tmp_path / "new.csv")
    first, *rows = (tmp_path / "new.csv").read_text().splitlines()
    assert first.split(",") == list(NAMES)
    drawn = run("sample", str(model), "-n", "5", "--json").json()["samples"]
    assert rows == [",".join(map(str, row)) for row in drawn]
    refused = run("sample", str(model), "-o", str(tmp_path / "new.sto"))
    assert refused.code == 1
    assert ".csv, .npy, .dat, .digits, .txt." in refused.err


@pytest.mark.parametrize("options", [[], ["--graph", "chain:4", "--estimator", "pl", "--l2", "1"]])
def test_samples_of_a_family_are_sequences_of_letters(
    family: Path, tmp_path: Path, options: list[str]
) -> None:
    model, short = str(tmp_path / "m"), tmp_path / "short.fasta"
    lines = (line[: len(line) if line[0] == ">" else 4] for line in family.read_text().split())
    short.write_text("\n".join(lines) + "\n")
    assert run("train", "field", str(short), "-q", "-o", model, *options).code == 0
    drawn = run("sample", model, "-n", "3")
    assert [len(line) for line in drawn.out.splitlines()] == [4] * 3
    assert set("".join(drawn.out.split())) <= set("-ACDEFGHIKLMNPQRSTVWY")
    assert run("sample", model, "-n", "3", "--json").json()["samples"] == drawn.out.split()
    refused = run("sample", model, "-n", "3", "-o", str(tmp_path / "new.phylip"))
    assert refused.code == 1
    assert all(ending in refused.err for ending in (".csv", ".npy", ".txt", ".fasta", ".sto"))
    for name in ("new.fasta", "new.txt", "new.csv", "new.sto", "new.a3m"):
        assert run("sample", model, "-n", "3", "-o", str(tmp_path / name)).code == 0
    fasta = (tmp_path / "new.fasta").read_text().split()
    assert fasta[::2] == [">sample-1", ">sample-2", ">sample-3"]
    assert fasta[1::2] == (tmp_path / "new.txt").read_text().split() == drawn.out.split()
    assert read_alignment(tmp_path / "new.fasta").values.tolist() == (
        read_samples(tmp_path / "new.csv").values.tolist()
    )
    assert (tmp_path / "new.a3m").read_bytes() == (tmp_path / "new.fasta").read_bytes()
    assert (tmp_path / "new.sto").read_text().startswith("# STOCKHOLM 1.0\n")
    assert read_alignment(tmp_path / "new.sto").sequences() == drawn.out.split()
    assert run("score", model, str(tmp_path / "new.fasta")).code == 0


def test_columns_of_a_family_are_counted_from_1_everywhere(potts: Path) -> None:
    shown = run("inspect", str(potts), "-n", "1", "--json").json()
    assert (shown["counted_from"], shown["contacts"][0][:2]) == (1, [1, 6])
    assert shown["names"] == list("1234567")
    assert run("inspect", str(potts), "-n", "1").out.splitlines()[-1].split()[:2] == ["1", "6"]


def test_contacts_of_a_family(potts: Path, tmp_path: Path) -> None:
    matrix = tmp_path / "family.mat"
    shown = run("inspect", str(potts), "-n", "2", "--matrix", str(matrix))
    told = [line.split()[:2] for line in shown.out.splitlines()]
    assert told[told.index(["column", "and"]) + 1] == ["1", "6"]
    scores = read_contacts(matrix)
    assert scores.shape == (7, 7)
    ((first, second, score),) = run("inspect", str(potts), "-n", "1", "--json").json()["contacts"]
    assert (first, second) == (1, 6)
    assert score == pytest.approx(scores[0, 5]) == pytest.approx(scores.max())
    nearer = run("inspect", str(potts), "--apart", "1", "--json").json()
    assert (nearer["apart"], len(nearer["contacts"])) == (1, 20)
    # The same figures in the report and on the page, which have no norms beside them.
    page = (potts / "report.html").read_text()
    assert "All 6 contacts" in page
    assert f"{score:.4f}" in page
    assert "norm" not in page
    (task,) = (own for own in tasks_of(load(potts)) if own.name == "contacts")
    network, table, heat = task("", n=2)
    assert (task.name, heat.meaning) == ("contacts", "contact score")
    assert table.rows[0] == ("1", "6", score)
    assert network.caption == "The 2 strongest of 6 contacts."


def test_an_alignment_is_scored_by_its_letters(potts: Path, family: Path) -> None:
    found = run("score", str(potts), str(family), "--method", "pl", "--json")
    assert found.code == 0, found.err
    assert -7 * np.log(21) < found.json()["log_pseudolikelihood_per_sample"] < 0
    assert run("score", str(potts), str(family), "--json").json() == found.json()


def test_options_for_the_other_kind_of_file_are_refused(
    potts: Path, family: Path, table: Path
) -> None:
    for words, says in (
        ([str(family), "--keep", "1"], "is an alignment, and all of it is used"),
        ([str(table), "--drop-inserts"], "only for alignments"),
        ([str(table), "--molecule", "rna"], "only for alignments"),
    ):
        for verb in ("score", "evaluate"):
            found = run(verb, str(potts), *words)
            assert (found.code, says in found.err) == (2, True), found.err


def test_edges_are_learned_where_they_are_asked_for(table: Path, tmp_path: Path) -> None:
    words = [str(table), "--keep", ",".join(NAMES), "--graph", "learn", "-q", "--json"]
    done = run("train", "field", *words, "--estimator", "ml", "-o", str(tmp_path / "m"))
    assert done.code == 0, done.err
    assert "1 edges found among 3 variables" in done.err
    assert done.json()["couplings"] == 1


@pytest.mark.usefixtures("shared_processes")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_shards_are_learned_from_together(table: Path, tmp_path: Path, jobs: str) -> None:
    rows = np.array([line.split(",")[:3] for line in table.read_text().splitlines()[1:]], int)
    shards = [tmp_path / f"{i}.csv" for i in range(3)]
    for shard, part in zip(shards, np.array_split(rows, 3), strict=True):
        np.savetxt(shard, part, fmt="%d", delimiter=",")
    words = [*map(str, shards), "--estimator", "lap", "-q", "-o", str(tmp_path / "m")]
    done = run("train", "field", *words, "--jobs", jobs)
    assert done.code == 0, done.err
    edges = run("inspect", str(tmp_path / "m"), "--json").json()["edges"]
    assert edges[0][:2] == [0, 1]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["{table}", "--keep", "left,wrong"], "no column 'wrong'"),
        (["{table}", "--keep", "left,right,alone", "--graph", "grid:2x2"], "has 4 variables"),
        (["{table}", "{table}", "--keep", "left,alone", "--estimator", "pl"], "give it samples"),
        (["{family}", "{family}"], "one file"),
        (["{family}", "--molecule", "rna"], "not of the rna alphabet"),
        (["{table}", "--engine", "spark"], "needs --master"),
        (["{table}", "{table}", "--master", "local"], "goes with --engine spark"),
    ],
)
def test_what_cannot_be_learned_is_told_and_nothing_is_written(
    table: Path, family: Path, tmp_path: Path, words: list[str], complaint: str
) -> None:
    filled = [word.format(table=table, family=family) for word in words]
    done = run("train", "field", *filled, "-q", "-o", str(tmp_path / "m"))
    assert done.code == (2 if "--master" in complaint or "--engine" in complaint else 1)
    assert not done.out
    assert complaint in done.err
    assert not (tmp_path / "m").exists()


def test_a_field_without_contacts_says_so(model: Path) -> None:
    for option in (["--apart", "2"], ["--matrix", str(model / "a.mat")]):
        shown = run("inspect", str(model), *option)
        assert shown.code == 1
        assert "has no contacts" in shown.err

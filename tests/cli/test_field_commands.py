"""train, score, sample and inspect on a field, as a user would type them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrflearn.graph.builders import grid
from mrflearn.graph.gauges import ising_parameters, random_ising
from mrflearn.inference.sampling import Drawing
from support.command import run


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("samples") / "grid.csv"
    rows = Drawing()(random_ising(grid(2, 3)), 4000, seed=1).samples.numpy()
    np.savetxt(path, rows, fmt="%d", delimiter=",")
    return path


def test_the_whole_flow(samples: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "m")
    trained = run(
        "train", "field", str(samples), "--graph", "grid:2x3", "--estimator", "ml", "-o", model,
        "-q", "--json",
    ).json()  # fmt: skip
    assert trained["variables"] == 6
    assert trained["couplings"] == 7
    assert trained["converged"]

    exact = run("score", model, str(samples), "--json").json()
    by_sampling = run("score", model, str(samples), "--method", "ais", "--json").json()
    assert exact["samples"] == 4000
    assert by_sampling["log_likelihood_per_sample"] == pytest.approx(
        exact["log_likelihood_per_sample"], abs=0.05
    )

    drawn = run("sample", model, "-n", "3", "--seed", "4")
    assert len(drawn.out.splitlines()) == 3
    assert "exact" in drawn.err
    assert run("sample", model, "-n", "3", "-o", str(tmp_path / "new.npy")).code == 0
    assert np.load(tmp_path / "new.npy").shape == (3, 6)

    edges = run("inspect", model, "--json", "-n", "7").json()["edges"]
    truth = ising_parameters(random_ising(grid(2, 3))).couplings.numpy()
    found = {(a, b): value for a, b, value in edges}
    scope = random_ising(grid(2, 3)).graph.groups[1].scope.tolist()
    errors = [abs(found[a, b] - t) for (a, b), t in zip(scope, truth, strict=True)]
    assert max(errors) < 0.2
    told = [line.split() for line in run("inspect", model).out.splitlines()]
    assert ["variables", "6"] in told
    assert ["couplings", "7"] in told


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("0,1\n0\n", "bad.csv:2"),
        ("0,1\n0,x\n", "bad.csv:2"),
        ("", "bad.csv"),
        ("0,1,0\n1,1,0\n", "6 variables, but the data have 3"),
    ],
)
def test_bad_samples_leave_nothing_behind(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "bad.csv").write_text(content)
    found = run(
        "train", "field", str(tmp_path / "bad.csv"), "--graph", "grid:2x3",
        "-o", str(tmp_path / "m"),
    )  # fmt: skip
    assert found.code == 1
    assert says in found.err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


def test_a_model_that_is_none(tmp_path: Path, samples: Path) -> None:
    found = run("score", str(tmp_path / "absent"), str(samples))
    assert (found.code, found.out) == (1, "")
    assert "does not exist" in found.err


def test_edges_are_not_learned_from_several_files(samples: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "m")
    words = ["train", "field", str(samples), str(samples), "--graph", "learn", "-o", model]
    failed = run(*words, "--estimator", "lap", "-q")
    assert failed.code == 2
    assert "in one file" in failed.err


def test_a_field_too_wide_for_exact_scores_names_the_other_methods(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (200, 45))
    np.savetxt(tmp_path / "wide.csv", rows, fmt="%d", delimiter=",")
    wide, model = str(tmp_path / "wide.csv"), str(tmp_path / "m")
    assert run("train", "field", wide, "--l2", "1", "-q", "-o", model).code == 0
    failed = run("score", model, wide)
    assert failed.code == 1
    assert "--method ais" in failed.err
    assert run("score", model, wide, "--method", "pl").code == 0


def test_scores_leave_rows_with_missing_values_out(samples: Path, tmp_path: Path) -> None:
    model, holes = str(tmp_path / "m"), tmp_path / "holes.csv"
    run("train", "field", str(samples), "--graph", "grid:2x3", "-q", "-o", model)
    holes.write_text("0,1,NA,0,0,1\n1,1,0,0,1,1\n")
    found = run("score", model, str(holes), "--json")
    assert found.json()["samples"] == 1
    assert "1 rows with missing values" in found.err


def test_a_master_needs_the_engine_it_belongs_to(samples: Path, tmp_path: Path) -> None:
    words = [str(samples), "--master", "local[2]", "-q", "-o", str(tmp_path / "m")]
    failed = run("train", "field", *words)
    assert failed.code == 2
    assert "--engine spark" in failed.err


def test_columns_of_files_go_by_their_names(samples: Path, tmp_path: Path) -> None:
    rows = np.loadtxt(samples, delimiter=",", dtype=int)

    def written(name: str, header: str, values: np.ndarray) -> str:
        path = tmp_path / name
        np.savetxt(path, values, fmt="%d", delimiter=",", header=",".join(header), comments="")
        return str(path)

    plain = written("plain.csv", "abcdef", rows[:2000])
    moved = written("moved.csv", "fedcba", rows[2000:, ::-1])
    other = written("other.csv", "abzdef", rows)
    how = ("--graph", "grid:2x3", "--estimator", "ml", "-q")
    model, whole = str(tmp_path / "m"), str(tmp_path / "whole")
    assert run("train", "field", plain, moved, *how, "-o", model).code == 0
    assert run("train", "field", str(samples), *how, "-o", whole).code == 0
    for verb in ("score", "evaluate"):
        figures = [run(verb, model, moved, "--json").json()]
        straight = written("straight.csv", "abcdef", rows[2000:])
        figures += [run(verb, field, straight, "--json").json() for field in (model, whole)]
        values = [own["log_likelihood_per_sample"] for own in figures]
        assert values[0] == values[1] == pytest.approx(values[2], abs=1e-5)
        failed = run(verb, model, other)
        assert failed.code == 1
        assert "other.csv" in failed.err
        assert "'z'" in failed.err
    failed = run("train", "field", plain, other, *how, "-o", str(tmp_path / "n"))
    assert failed.code == 1
    assert "other.csv" in failed.err
    assert "'z'" in failed.err


def test_files_with_missing_values_name_the_option_they_need(samples: Path, tmp_path: Path) -> None:
    holes = tmp_path / "holes.csv"
    holes.write_text("0,1,NA,0,0,1\n1,1,0,0,1,1\n")
    words = [str(samples), str(holes), "--graph", "grid:2x3", "--estimator", "lap", "-q"]
    failed = run("train", "field", *words, "-o", str(tmp_path / "m"))
    assert failed.code == 1
    assert "holes.csv" in failed.err
    assert "Give --missing:" in failed.err
    assert run("train", "field", *words, "--missing", "-o", str(tmp_path / "m")).code == 0


def test_a_wrong_state_is_named_by_its_row_in_the_file_and_its_column(tmp_path: Path) -> None:
    rows = "sleep,mood\n" + "0,1\n1,0\n0,0\n1,1\n" * 5
    new, model = tmp_path / "new.csv", str(tmp_path / "model")
    new.write_text("sleep,mood\nNA,1\n1,NA\n1,5\n")
    for text in (rows, rows.replace("0", "7")):  # states, and codes of states
        (tmp_path / "old.csv").write_text(text)
        learned = run("train", "field", str(tmp_path / "old.csv"), "--overwrite", "-o", model)
        assert learned.code == 0
        for verb in ("score", "evaluate"):
            failed = run(verb, model, str(new))
            assert failed.code == 1
            assert "new.csv: sample row 2 (counted from 0), column 'mood': 5" in failed.err

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mrflearn import MarkovField
from mrflearn.errors import DataError
from mrflearn.execution.executor import Serial
from mrflearn.features.observations import CountShard, Samples, clique_counts
from mrflearn.graph.builders import grid
from mrflearn.io.samples import SampleTable

GRAPH = grid(2, 3)
SCOPES = [(group.scope, GRAPH.shape(group)) for group in GRAPH.groups]
ROWS = np.random.default_rng(1).integers(0, 2, (90, 6))


def write(folder: Path, rows: np.ndarray, parts: int = 3) -> list[Path]:
    """The rows in files of three formats."""
    paths = []
    for number, part in enumerate(np.array_split(rows, parts)):
        suffix = (".csv", ".txt", ".npy")[number % 3]
        paths.append(folder / f"part-{number}{suffix}")
        if suffix == ".npy":
            np.save(paths[-1], part)
        else:
            separator = "," if suffix == ".csv" else " "
            words = [["NA" if n < 0 else str(n) for n in row] for row in part.tolist()]
            paths[-1].write_text("".join(separator.join(row) + "\n" for row in words))
    return paths


def counted(paths: list[Path]) -> list[torch.Tensor]:
    return list(Serial().map_totals(CountShard(SCOPES, GRAPH.states), paths, itemgetter(1)))


def test_shards_add_up_to_the_whole(tmp_path: Path) -> None:
    found = counted(write(tmp_path, ROWS))
    scopes, shapes = zip(*SCOPES, strict=True)
    whole = clique_counts(scopes, shapes, Samples.distinct(torch.as_tensor(ROWS)))
    for shard, counts in zip(found, whole.counts, strict=True):
        assert torch.equal(shard.T.reshape(counts.shape), counts)


@pytest.mark.parametrize("estimator", ["lap", "ml", "pw"])
def test_a_field_from_shards_is_the_field_from_all_rows(tmp_path: Path, estimator: str) -> None:
    there = MarkovField("grid:2x3", estimator=estimator).fit_shards(write(tmp_path, ROWS))
    here = MarkovField("grid:2x3", estimator=estimator).fit(ROWS)
    np.testing.assert_allclose(there.couplings_, here.couplings_, atol=1e-5)


def test_a_field_from_rows_held_is_the_field_from_all_rows() -> None:
    here = MarkovField("grid:2x3", estimator="lap").fit(ROWS)
    with Serial().hold(np.array_split(ROWS, 4)) as held:
        there = MarkovField("grid:2x3", estimator="lap").fit_shards(held)
    np.testing.assert_allclose(there.couplings_, here.couplings_, atol=1e-5)
    names = tuple("abcdef")
    tables = [SampleTable(names, part) for part in np.array_split(ROWS, 3)]
    tables[1] = SampleTable(names[::-1], tables[1].values[:, ::-1])  # the same in another order
    with Serial().hold(tables) as held:
        named = MarkovField("grid:2x3", estimator="lap").fit_shards(held)
    np.testing.assert_allclose(named.couplings_, here.couplings_, atol=1e-5)


def test_missing_values_are_counted_where_they_are_expected(tmp_path: Path) -> None:
    rows = ROWS.copy()
    rows[3, 2] = -1
    paths = write(tmp_path, rows)
    there = MarkovField("grid:2x3", estimator="lap").fit_shards(paths, missing=True)
    here = MarkovField("grid:2x3", estimator="lap").fit(rows)
    np.testing.assert_allclose(there.couplings_, here.couplings_, atol=1e-6)
    with pytest.raises(DataError, match=r"part-0\.csv: .*row 3 .*, column 2.*missing=True.*'lap'"):
        MarkovField("grid:2x3", estimator="lap").fit_shards(paths)
    with pytest.raises(DataError, match="by 'lap' alone"):
        MarkovField("grid:2x3", estimator="ml").fit_shards(paths, missing=True)


def test_bad_shards_are_named(tmp_path: Path) -> None:
    paths = write(tmp_path, ROWS)
    paths[1].write_text("0 1 0 1 2 0\n")
    with pytest.raises(DataError, match=r"part-1\.txt: .*2 is not a state"):
        MarkovField("grid:2x3", states=2, estimator="lap").fit_shards(paths)
    with pytest.raises(DataError, match="no files"):
        MarkovField("grid:2x3", estimator="lap").fit_shards([])


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        ("part-*.csv", "glob"),
        (["part-*.csv"], "glob"),
        ("part-0.csv", r"\['part-0.csv'\]"),
        (Path("part-0.csv"), r"\['part-0.csv'\]"),
        (ROWS, "ndarray in memory goes to fit"),
        (SampleTable(tuple("abcdef"), ROWS), "SampleTable in memory goes to fit"),
        ([ROWS, ROWS], "ndarray"),
        (None, "list of names"),
    ],
)
def test_what_is_no_list_of_files_is_refused(paths: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        MarkovField("grid:2x3", estimator="lap").fit_shards(paths)


def test_files_may_come_one_by_one(tmp_path: Path) -> None:
    paths = write(tmp_path, ROWS)
    there = MarkovField("grid:2x3", estimator="lap").fit_shards(path for path in paths)
    here = MarkovField("grid:2x3", estimator="lap").fit_shards(paths)
    np.testing.assert_array_equal(there.couplings_, here.couplings_)


def test_parquet_shards_are_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {f"x{i}": ROWS[:, i].tolist() for i in range(6)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "rows.parquet")
    found = CountShard(SCOPES, GRAPH.states)(tmp_path / "rows.parquet")
    wanted = counted(write(tmp_path, ROWS))
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def named(path: Path, rows: np.ndarray, names: str) -> Path:
    cells = [",".join(names), *(",".join(map(str, row)) for row in rows.tolist())]
    path.write_text("\n".join(cells) + "\n")
    return path


def test_columns_of_shards_go_by_their_names(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    first = named(tmp_path / "part-0.csv", ROWS[:30], "abcdef")
    second = named(tmp_path / "part-1.csv", ROWS[30:60, ::-1], "fedcba")
    columns = {name: ROWS[60:, i].tolist() for i, name in reversed([*enumerate("abcdef")])}
    parquet.write_table(pyarrow.table(columns), tmp_path / "part-2.parquet")
    shards = [first, second, tmp_path / "part-2.parquet"]
    there = MarkovField("grid:2x3", estimator="lap").fit_shards(shards)
    here = MarkovField("grid:2x3", estimator="lap").fit(ROWS)
    np.testing.assert_allclose(there.couplings_, here.couplings_, atol=1e-6)
    assert there.variable_names_ == list("abcdef")
    named(second, ROWS[30:60], "abzdef")
    with pytest.raises(DataError, match=r"part-1\.csv: column 'z'"):
        MarkovField("grid:2x3", estimator="lap").fit_shards([first, second])

"""Sample tables in four formats: round trips, headers, missing values, chunks, complaints."""

from __future__ import annotations

import tracemalloc
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io import parquet, samples
from mrflearn.io.samples import SampleTable, read_sample_chunks, read_samples, write_samples

NAMES = ("alpha", "b, quoted", 'c "said"', "O'Connor", "é")


def place(folder: Path, text: str, name: str = "table.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@st.composite
def tables(draw: st.DrawFn) -> SampleTable:
    rows, width = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    cells = st.integers(-1, 12)
    values = draw(st.lists(cells, min_size=rows * width, max_size=rows * width))
    names = NAMES[:width] if draw(st.booleans()) else None
    # A zero keeps tables of -1 and 1 from being taken for spins.
    return SampleTable(names, np.array([*values[:-1], 0]).reshape(rows, width))


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz", "table.npy", "table.npy.gz"])
@given(table=tables())
def test_round_trip(tmp_path_factory, name: str, table: SampleTable) -> None:
    path = tmp_path_factory.mktemp("samples") / name
    write_samples(path, table)
    again = read_samples(path)
    np.testing.assert_array_equal(again.values, table.values)
    assert again.values.dtype == np.int8
    assert again.names == (table.names if ".csv" in name else None)


def test_an_array_of_bytes_stays_one_byte_a_state(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 20, (2000, 500)).astype(np.uint8)
    np.save(tmp_path / "table.npy", values)
    tracemalloc.start()
    table = read_samples(tmp_path / "table.npy")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table.values.itemsize == 1
    np.testing.assert_array_equal(table.values, values)
    assert peak < 5 * values.size  # the file, the picked columns, the table


@given(table=tables())
def test_round_trip_as_text(tmp_path_factory, table: SampleTable) -> None:
    path = tmp_path_factory.mktemp("samples") / "table.txt"
    names = tuple(f"x{i}" for i in range(table.values.shape[1])) if table.names else None
    write_samples(path, SampleTable(names, table.values))
    again = read_samples(path, "text")
    np.testing.assert_array_equal(again.values, table.values)
    assert again.names == names


def test_round_trip_as_digits(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 10, (7, 4))
    write_samples(tmp_path / "spikes.txt", SampleTable(None, values), "digits")
    assert (tmp_path / "spikes.txt").read_text().splitlines()[0] == "".join(map(str, values[0]))
    np.testing.assert_array_equal(read_samples(tmp_path / "spikes.txt").values, values)


@pytest.mark.parametrize(
    ("text", "names", "values"),
    [
        ("a,b\n0,1\n", ("a", "b"), [[0, 1]]),
        ("0,1\n1,0\n", None, [[0, 1], [1, 0]]),
        (' a , "b,c"\n0, 1\n', ("a", "b,c"), [[0, 1]]),
        ("\ufeffa,b\r\n0,1\r\n", ("a", "b"), [[0, 1]]),  # as some spreadsheets write it
        ("a,b\nNA,1\n,2\n", ("a", "b"), [[-1, 1], [-1, 2]]),
        ("a,b\n1.0,2.\n", ("a", "b"), [[1, 2]]),
        ("NA,1\n0,1\n", None, [[-1, 1], [0, 1]]),  # no header: a missing value says nothing
        ("a b\n0\tNA\n\n2 3\n", ("a", "b"), [[0, -1], [2, 3]]),
        ("0 1\n10 11\n", None, [[0, 1], [10, 11]]),
        ("0101\n1111\n", None, [[0, 1, 0, 1], [1, 1, 1, 1]]),
        ("0\n1\n", None, [[0], [1]]),
        ("x\n0\n12\n", ("x",), [[0], [12]]),
        ("a,b\n", ("a", "b"), np.zeros((0, 2), dtype=int)),
    ],
)
def test_what_a_table_may_look_like(tmp_path: Path, text: str, names, values) -> None:
    table = read_samples(place(tmp_path, text))
    assert table.names == names
    np.testing.assert_array_equal(table.values, values)


def test_columns_are_picked_by_name_or_number(tmp_path: Path) -> None:
    path = place(tmp_path, "day,a,b\nmonday,0,1\ntuesday,2,3\n", "table.csv")
    table = read_samples(path, columns=["b", 1])
    assert table.names == ("b", "a")
    np.testing.assert_array_equal(table.values, [[1, 0], [3, 2]])
    np.testing.assert_array_equal(
        read_samples(place(tmp_path, "012\n345\n"), columns=[2, 0]).values, [[2, 0], [5, 3]]
    )
    with pytest.raises(DataError, match=r"no column 'c' among 3.*day, a, b"):
        read_samples(path, columns=["c"])
    with pytest.raises(DataError, match="no column 3"):
        read_samples(path, columns=[3])
    with pytest.raises(DataError, match="no columns"):
        read_samples(path, columns=[])


@pytest.mark.parametrize("name", ["table.csv", "table.txt", "table.npy", "digits"])
@pytest.mark.parametrize("rows", [1, 3, 10, 99])
def test_chunks_are_the_table_in_pieces(tmp_path: Path, name: str, rows: int) -> None:
    values = np.random.default_rng(1).integers(0, 3, (10, 4))
    write_samples(
        tmp_path / name, SampleTable(None, values), "digits" if name == "digits" else "auto"
    )
    chunks = list(read_sample_chunks(tmp_path / name, rows=rows))
    assert [len(chunk) for chunk in chunks] == [
        len(values[i : i + rows]) for i in range(0, 10, rows)
    ]
    np.testing.assert_array_equal(np.concatenate([chunk.values for chunk in chunks]), values)


def test_chunks_come_before_the_file_ends(tmp_path: Path) -> None:
    path = place(tmp_path, "a,b\n0,1\n0,wrong\n")
    chunks = read_sample_chunks(path, rows=1)
    assert next(chunks).names == ("a", "b")
    with pytest.raises(DataError, match="'wrong'") as caught:
        next(chunks)
    assert caught.value.line == 3
    with pytest.raises(DataError, match="at least 1"):
        next(read_sample_chunks(path, rows=0))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "no samples"),
        ("\n \n", None, "no samples"),
        ("0,1\n0\n", 2, "1 cells"),
        ("0,1\n\n0,1,2\n", 3, "3 cells"),
        ("0,1\n0,0\n0,-1\n", 3, "Spins are"),
        ("0,1\n0,1.5\n", 2, "'1.5'"),
        ("0,1\n0,1_0\n", 2, "'1_0'"),
        ("-1,1\n0,1\n1,0\n", 1, "Spins are"),
        ("a,b\n0,1\n1,yes\n", 3, "'yes'"),
        ("0,1\n0,-2\n", 2, "'-2'"),
        ("0,1\n0,99999999999\n", 2, "99999999999"),
        ("0,1,x\n0,1,1\n", 1, "mixes"),
        ("a,a\n0,1\n", 1, "named 'a'"),
        ('a,"b\n0,1\n', 1, "quotes"),
        ("0101\n010\n", 2, "3 characters"),
        ("0101\n010x\n", 2, "'x'"),
        ("0 1\n0 1 1\n", 2, "3 cells"),
    ],
)
def test_complaints_name_the_line(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_samples(place(tmp_path, text))
    assert caught.value.line == line
    assert "table.txt" in str(caught.value)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.full((2, 3), 0.5), "float64"),
        (np.array([[np.inf]]), "float64"),
        (np.zeros(3, dtype=int), r"shape \(3,\)"),
        (np.array([[0, -2]]), "-2"),
        (np.array([[0, 2**40]]), str(2**40)),
        (np.array([["a"]]), "<U1"),
    ],
)
def test_arrays_that_are_no_sample_tables(tmp_path: Path, values: np.ndarray, words: str) -> None:
    np.save(tmp_path / "table.npy", values)
    with pytest.raises(DataError, match=words):
        read_samples(tmp_path / "table.npy")


def test_arrays_of_either_order_and_any_integers(tmp_path: Path) -> None:
    values = np.random.default_rng(2).integers(0, 2, (5, 3))
    for array in (np.asfortranarray(values), values.astype(bool), values.astype(">u2")):
        np.save(tmp_path / "table.npy", array)
        np.testing.assert_array_equal(read_samples(tmp_path / "table.npy").values, values)


@pytest.mark.parametrize("name", ["table.csv", "table.txt", "table.npy"])
@pytest.mark.parametrize("rows", [1, 4, 99])
def test_spins_are_states_and_spins_again(tmp_path: Path, name: str, rows: int) -> None:
    states = np.array([[1, 1], [1, 0], [0, 0], [1, 1], [0, 1]])
    write_samples(tmp_path / name, SampleTable(None, states, spins=True))
    again = read_samples(tmp_path / name)
    np.testing.assert_array_equal(again.values, states)
    assert again.spins
    chunks = list(read_sample_chunks(tmp_path / name, rows=rows))
    np.testing.assert_array_equal(np.concatenate([chunk.values for chunk in chunks]), states)
    plain = np.load(tmp_path / name) if name.endswith("npy") else None
    assert plain is None or sorted(set(plain.ravel().tolist())) == [-1, 1]


def test_spins_may_be_missing_in_text_but_not_in_an_array(tmp_path: Path) -> None:
    table = read_samples(place(tmp_path, "-1 1\nNA 1\n"))
    assert table.spins
    assert table.values.tolist() == [[0, 1], [-1, 1]]
    write_samples(tmp_path / "again.csv", table)
    assert (tmp_path / "again.csv").read_text() == "-1,1\nNA,1\n"
    for lost in (table, SampleTable(None, np.array([[-1, 1]]))):
        with pytest.raises(DataError, match="Try csv"):
            write_samples(tmp_path / "again.npy", lost)
    with pytest.raises(DataError, match="no spins"):
        write_samples(tmp_path / "again.txt", table, "digits")
    assert not (tmp_path / "again.npy").exists()


@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize("lowest", [-1, 0])
def test_what_numpy_writes_is_read(tmp_path: Path, kind: type, lowest: int) -> None:
    values = np.random.default_rng(3).choice([lowest, 1], (6, 3)).astype(kind)
    np.savetxt(tmp_path / "table.txt", values)  # 1.000000000000000000e+00 and the like
    np.savetxt(tmp_path / "table.csv", values, delimiter=",")
    np.save(tmp_path / "table.npy", values)
    for name in ("table.txt", "table.csv", "table.npy"):
        table = read_samples(tmp_path / name)
        np.testing.assert_array_equal(table.values, values > 0)
        assert table.spins == (lowest == -1)


def test_nan_is_missing(tmp_path: Path) -> None:
    values = np.array([[0.0, np.nan], [2.0, 1.0]])
    np.savetxt(tmp_path / "table.txt", values)
    np.save(tmp_path / "table.npy", values)
    for name in ("table.txt", "table.npy"):
        assert read_samples(tmp_path / name).values.tolist() == [[0, -1], [2, 1]]


def test_a_damaged_array_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    np.save(path, np.zeros((3, 4), dtype=np.int64))
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"(3, 4)", b"(3, 99999999999)").replace(b" " * 11, b"", 1))
    with pytest.raises(DataError, match=r"cut short|readable"):
        read_samples(path)
    path.write_bytes(whole.replace(b"(3, 4)", b"(-1,4)"))
    with pytest.raises(DataError, match="readable"):
        read_samples(path)
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match="cut short"):
        read_samples(path)
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match="not a readable npy"):
        read_samples(path)


@pytest.mark.parametrize(
    ("names", "name"),
    [
        (("1", "2"), "table.csv"),
        (("a", "a"), "table.csv"),
        (("a", " b"), "table.csv"),
        (("a", "b\nc"), "table.csv"),
        (("a", "b c"), "table.txt"),
    ],
)
def test_names_that_would_not_come_back(tmp_path: Path, names, name: str) -> None:
    with pytest.raises(DataError, match="would be read back as"):
        write_samples(tmp_path / name, SampleTable(names, np.zeros((1, 2), dtype=int)))
    assert not list(tmp_path.iterdir())


def test_digits_hold_neither_gaps_nor_large_states(tmp_path: Path) -> None:
    for value in (-1, 10):
        with pytest.raises(DataError, match="0 to 9"):
            write_samples(tmp_path / "t", SampleTable(None, np.array([[0, value]])), "digits")


def test_a_record_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(DataError, match="2 names"):
        SampleTable(("a", "b"), np.zeros((1, 3), dtype=int))
    with pytest.raises(DataError, match="whole numbers"):
        SampleTable(None, np.zeros((1, 3)))


@pytest.mark.data
def test_the_courts_votes(data_folder: Path) -> None:
    path = data_folder / "inverse-ising" / "rehnquist-court-1994-2004.csv"
    table = read_samples(path)
    assert table.names is not None
    assert table.names[-2:] == ("term", "time")
    votes = read_samples(path, columns=list(range(9))).values
    assert votes.shape == (485, 9)
    complete = (votes >= 0).all(axis=1)
    assert int(complete.sum()) == 464
    split = votes[complete].sum(axis=1)
    assert bool(((split > 0) & (split < 9)).all())


@pytest.mark.data
@pytest.mark.parametrize(("neurons", "distinct", "rate"), [(15, 1501, 0.114), (50, 22919, 0.088)])
def test_the_spikes(data_folder: Path, neurons: int, distinct: int, rate: float) -> None:
    words = read_samples(data_folder / "inverse-ising" / f"spikes{neurons}.txt").values
    assert words.shape == (40_000, neurons)
    assert len(np.unique(words, axis=0)) == distinct
    assert round(float(words.mean()), 3) == rate


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "# spins of run 3\n# seed 1\n0 1\n1 1\n"),
        ("a.csv", "0;1\n1;1\n"),
        ("a.dat", "x;y\n0;1\n\n1;1"),
        ("a.csv", "#made by hand\nx,y\n0,1\n1,1\n"),
    ],
)
def test_remarks_above_and_semicolons(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_samples(tmp_path / name).values.tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize("names", [("#a", "b"), ("a;b",)])
def test_names_that_would_be_lost_are_not_written(tmp_path: Path, names: tuple[str, ...]) -> None:
    table = SampleTable(names, np.zeros((2, len(names)), np.int64))
    with pytest.raises(DataError, match="would be read back as"):
        write_samples(tmp_path / "a.csv", table)


def test_arrays_that_are_no_tables_are_told_what_to_try(tmp_path: Path) -> None:
    np.save(tmp_path / "cube.npy", np.zeros((2, 3, 3), int))
    with pytest.raises(DataError, match=r"reshape\(len\(values\), -1\)"):
        read_samples(tmp_path / "cube.npy")
    np.savez(tmp_path / "several.npz", np.zeros((2, 3), int))
    with pytest.raises(DataError, match="several arrays"):
        read_samples(tmp_path / "several.npz")


@pytest.mark.parametrize("shape", [(10**15, 0), (0, 10**15)])
def test_an_array_of_nothing_is_not_read_row_by_row(shape: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "empty.npy"
    np.save(path, np.zeros((0, 0), np.int64))
    path.write_bytes(
        path.read_bytes().replace(b"(0, 0), }" + b" " * 30, f"{shape}, }}".ljust(39).encode())
    )
    with pytest.raises(DataError, match=r"empty\.npy: .*1000000000000000"):
        read_samples(path)


def test_damaged_parquet_is_refused(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "some.parquet"
    columns = {"a": list(range(50)), "b": [None, 1] * 25}
    parquet.write_table(arrow.table(columns), path, compression="none", use_dictionary=False)
    content = path.read_bytes()
    refused = []
    for place, flip in product(range(4, len(content)), (0x55, 0x83)):  # 0x83: names not in UTF-8
        path.write_bytes(content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :])
        try:
            read_samples(path)
        except DataError as error:
            refused.append(error.path)
    assert set(refused) == {path}


def test_one_name_twice_among_very_many_is_found_at_once(tmp_path: Path) -> None:
    names = [f"x{number}" for number in range(60_000)]
    (tmp_path / "wide.csv").write_text(",".join([*names, names[-1]]) + "\n")
    with pytest.raises(DataError, match=r"wide\.csv:1: .*'x59999'"):
        read_samples(tmp_path / "wide.csv")


@pytest.mark.parametrize("name", ["s.csv", "s.txt", "digits"])
def test_wide_rows_come_in_fewer_at_a_time(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However wide rows are, a chunk of them takes no more memory."""
    monkeypatch.setattr(samples, "CHUNK_CHARACTERS", 1000)
    border = {"s.csv": ",", "s.txt": " ", "digits": ""}[name]
    (tmp_path / name).write_text("".join(border.join("01" * 100) + "\n" for _ in range(20)))
    chunks = list(read_sample_chunks(tmp_path / name))
    assert all(len(chunk.values) * 200 <= 1000 for chunk in chunks)
    assert sum(len(chunk.values) for chunk in chunks) == 20


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_answers_in_words_are_labels(tmp_path: Path, rows: int, monkeypatch: Any) -> None:
    monkeypatch.setattr("mrflearn.io.samples.CHUNK_ROWS", rows)
    text = "sleep,mood,spin,item\nyes,low,-1,2\nno,NA,1,0\n NO ,high,1,NA\nyes,mid,NA,1\n"
    (tmp_path / "answers.csv").write_text(text.replace(" NO ", "no"))
    table = read_samples(tmp_path / "answers.csv")
    assert table.labels == (("no", "yes"), ("high", "low", "mid"), (-1, 1), None)
    assert table.values.tolist() == [[1, 1, 0, 2], [0, -1, 1, 0], [0, 0, 1, -1], [1, 2, -1, 1]]
    write_samples(tmp_path / "again.csv", table)
    again = read_samples(tmp_path / "again.csv")
    assert again.labels == table.labels
    np.testing.assert_array_equal(again.values, table.values)


def test_many_different_words_are_no_answers(tmp_path: Path) -> None:
    lines = "".join(f"person {k},{k % 2}\n" for k in range(300))
    (tmp_path / "people.csv").write_text("name,ill\n" + lines)
    with pytest.raises(DataError, match="'name' has 300"):
        read_samples(tmp_path / "people.csv")
    assert read_samples(tmp_path / "people.csv", columns=["ill"]).values.shape == (300, 1)


@pytest.mark.parametrize(
    ("cells", "line"), [(["yes", "NA", "no", "3"], 5), (["1", "NA", "0", "no"], 5), (["1", "x"], 3)]
)
def test_where_words_and_numbers_meet_is_named(tmp_path: Path, cells: list[str], line: int) -> None:
    path = tmp_path / "mixed.csv"
    path.write_text("\n".join(["a,b", *(f"{cell},1" for cell in cells)]) + "\n")
    with pytest.raises(DataError) as found:
        read_samples(path)
    assert found.value.line == line


@pytest.mark.parametrize("kind", ["digits", "missing", "words", "bytes", "longs with nulls"])
def test_wide_shards_take_memory_by_the_chunk(tmp_path: Path, monkeypatch, kind: str) -> None:
    """At most some 80 bytes a cell of one chunk, however many rows there are."""
    cells, width = 1 << 14, 500
    monkeypatch.setattr(samples, "CHUNK_CHARACTERS", 2 * cells)
    monkeypatch.setattr(parquet, "CHUNK_CELLS", cells)
    generator, peaks = np.random.default_rng(0), []
    for rows in (2 * cells // width, 6 * cells // width):
        values = generator.integers(0, 2, (rows, width))
        if kind in ("bytes", "longs with nulls"):
            pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
            from pyarrow.parquet import write_table

            dtype = np.int8 if kind == "bytes" else np.int64
            mask = generator.random(values.shape) < (0.0 if kind == "bytes" else 0.1)
            columns = {
                str(n): pa.array(own.astype(dtype), mask=lacking)
                for n, (own, lacking) in enumerate(zip(values.T, mask.T, strict=True))
            }
            path = tmp_path / "table.parquet"
            write_table(pa.table(columns), path)
            values = np.where(mask, -1, values)
        else:
            texts = {"digits": ["0", "1"], "missing": ["0", "NA"], "words": ["no", "yes"]}[kind]
            header = ",".join(f"v{n}" for n in range(width))
            lines = (",".join([texts[state] for state in row]) for row in values.tolist())
            path = place(tmp_path, "\n".join([header, *lines]), "table.csv")
            values = np.where(values == 1, -1, 0) if kind == "missing" else values
        seen, row = 0, 0
        with closing(read_sample_chunks(path)) as chunks:
            tracemalloc.start()
            for chunk in chunks:
                assert chunk.values.itemsize == 1
                assert chunk.values.size <= cells
                if kind != "words":  # whose states are numbered chunk by chunk
                    np.testing.assert_array_equal(chunk.values, values[row : row + len(chunk)])
                row, seen = row + len(chunk), seen + 1
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert row == rows
        assert seen >= rows * width // (2 * cells)
    assert peaks[1] < 80 * cells + 400 * width  # a few objects a column
    assert peaks[1] < 1.3 * peaks[0]

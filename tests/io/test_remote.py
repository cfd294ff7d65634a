"""Paths that are URLs: opened by fsspec, known from paths of this machine, in every reader."""

from __future__ import annotations

import bz2
import gzip
import lzma
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from mrflearn import MarkovField, NgramLanguageModel, load
from mrflearn.errors import DataError, MissingExtraError, StorageError
from mrflearn.io.corpus import read_documents
from mrflearn.io.files import joined, read_bytes, read_lines, url_of, write_text
from mrflearn.io.remote import file_system, listing
from mrflearn.io.samples import read_samples
from support.command import run


@pytest.fixture
def memory() -> Iterator[str]:
    """A folder of the memory of this process."""
    system, path = file_system("memory://place")
    yield "memory://place"
    if system.exists(path):
        system.rm(path, recursive=True)


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("s3://bucket/a.csv", "s3://bucket/a.csv"),
        (PurePosixPath("s3://bucket/a.csv"), "s3://bucket/a.csv"),
        (PurePosixPath("hdfs://name:8020/a"), "hdfs://name:8020/a"),
        (PurePosixPath("hdfs:///user/a"), "hdfs:///user/a"),
        ("memory://a/b", "memory://a/b"),
        ("zip://a.csv::s3://bucket/a.zip", "zip://a.csv::s3://bucket/a.zip"),
        ("/home/a.csv", None),
        ("C:/a.csv", None),
        ("a:/b", None),
        ("folder:/file", None),
        (PurePosixPath("folder:/file"), None),
        ("file:///home/a.csv", None),
        ("-", None),
    ],
)
def test_urls_are_told_from_paths_of_this_machine(path: str, url: str | None) -> None:
    assert url_of(path) == url


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_files_at_urls_read_as_files_here(memory: str, tmp_path: Path, pack) -> None:
    content = pack("één\ntwo\n".encode() * 1000)
    here = tmp_path / "a.txt"
    here.write_bytes(content)
    system, _ = file_system(memory)
    system.pipe_file("/place/a.txt", content)
    for path in (here, here.as_uri(), f"file:{here}", f"{memory}/a.txt"):
        assert list(read_lines(path))[:2] == [(1, "één"), (2, "two")]
        assert read_bytes(path) == "één\ntwo\n".encode() * 1000


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_damaged_compression_is_a_data_error(tmp_path: Path, pack) -> None:
    content = pack(np.random.default_rng(0).bytes(100_000))
    for number, damaged in enumerate((content[:-1000], content[:5000] + content[6000:])):
        path = tmp_path / f"{number}.txt"
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=f"{number}.txt: damaged"):
            read_bytes(path)


def test_zstandard_is_read_by_arrow(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = tmp_path / "a.csv.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(b"a,b\n0,1\n1,1\n")
    assert read_samples(path).values.tolist() == [[0, 1], [1, 1]]
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(DataError, match=r"a\.csv\.zst"):
        read_samples(path)


def test_what_is_written_to_a_url_is_there_once_complete(memory: str) -> None:
    with write_text(f"{memory}/deep/a.txt.gz") as stream:
        stream.write("one\n")
        assert not file_system(memory)[0].exists("/place/deep/a.txt.gz")
    assert list(read_lines(f"{memory}/deep/a.txt.gz")) == [(1, "one")]
    with pytest.raises(ZeroDivisionError), write_text(f"{memory}/b.txt") as stream:
        stream.write(str(1 / 0))
    assert listing(f"{memory}/*") == []
    assert listing(f"{memory}/deep") == [f"{memory}/deep/a.txt.gz"]
    assert joined(memory, "deep") == f"{memory}/deep"


def test_errors_name_the_url_and_what_to_install(memory: str, monkeypatch) -> None:
    with pytest.raises(DataError, match=r"memory://place/none\.txt: cannot be read"):
        read_bytes(f"{memory}/none.txt")
    with write_text(f"{memory}/a.csv") as stream:
        stream.write("0,1\n0\n")
    with pytest.raises(DataError, match=r"memory://place/a\.csv:2: 1 cells"):
        read_samples(f"{memory}/a.csv")
    for scheme, package in (("gs", "gcsfs"), ("abfs", "adlfs"), ("s3", "s3fs")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingExtraError, match=rf"^{scheme}://x/y: .*pip install {package}"):
            read_bytes(f"{scheme}://x/y")


def test_shards_and_models_may_be_anywhere(memory: str, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (60, 4))
    shards = []
    for number, part in enumerate(np.array_split(rows, 3)):
        shards.append(f"{memory}/shards/part-{number}.csv")
        with write_text(shards[-1]) as stream:
            stream.writelines(",".join(map(str, row)) + "\n" for row in part.tolist())
    field = MarkovField("grid:2x2", estimator="ml").fit_shards([f"{memory}/shards/part-*.csv"])
    again = MarkovField("grid:2x2", estimator="ml").fit_shards(shards)
    np.testing.assert_array_equal(field.couplings_, again.couplings_)
    np.testing.assert_allclose(
        field.couplings_, MarkovField("grid:2x2", estimator="ml").fit(rows).couplings_, atol=1e-4
    )
    field.save(f"{memory}/field")
    np.testing.assert_array_equal(load(f"{memory}/field").couplings_, field.couplings_)
    with pytest.raises(StorageError, match="memory://place/field"):
        field.save(f"{memory}/field")
    again.save(f"{memory}/field", overwrite=True)
    with pytest.raises(StorageError, match="memory://place/shards exists"):
        field.save(f"{memory}/shards", overwrite=True)
    with pytest.raises(StorageError, match="memory://place/none does not exist"):
        load(f"{memory}/none")
    command = ["train", "field", *shards, "--graph", "grid:2x2", "--estimator", "ml"]
    found = run(*command, "-q", "-o", str(tmp_path / "m"))
    assert found.code == 0, found.err
    np.testing.assert_array_equal(load(tmp_path / "m").couplings_, again.couplings_)


def test_parquet_at_a_url(memory: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow.parquet import write_table

    sink = pa.BufferOutputStream()
    write_table(pa.table({"a": [0, 1, None], "b": ["no", "yes", "no"]}), sink)
    file_system(memory)[0].pipe_file("/place/a.parquet", sink.getvalue().to_pybytes())
    table = read_samples(f"{memory}/a.parquet")
    assert table.names == ("a", "b")
    assert table.values.tolist() == [[0, 0], [1, 1], [-1, 0]]


def test_folders_of_text_are_documents(memory: str) -> None:
    for name, text in (("b", "d e\n"), ("a", "a b\nc\n")):
        with write_text(f"{memory}/texts/{name}.txt") as stream:
            stream.write(text)
    assert list(read_documents(f"{memory}/texts")) == [[["a", "b"], ["c"]], [["d", "e"]]]
    model = NgramLanguageModel(order=2).fit(f"{memory}/texts/a.txt")
    assert "b" in model.vocabulary_


PLAIN = """
import sys
sys.modules["fsspec"] = None
from mrflearn.io.files import read_bytes
from mrflearn.io.samples import read_samples
print(len(read_bytes(sys.argv[1])), read_samples("file:" + sys.argv[1]).values.tolist())
try:
    read_bytes("s3://bucket/a")
except ImportError as missing:
    print(missing)
"""


def test_paths_of_this_machine_need_no_fsspec(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("0,1\n")
    command = [sys.executable, "-c", PLAIN, str(path)]
    found = subprocess.run(command, capture_output=True, text=True)
    lines = found.stdout.splitlines()
    assert lines[0] == "4 [[0, 1]]", found.stderr
    assert "pip install fsspec" in lines[1]

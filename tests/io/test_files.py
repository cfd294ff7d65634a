from __future__ import annotations

import gzip
import io
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from mrflearn.errors import DataError
from mrflearn.io.files import (
    GZIP_FLOOR,
    open_binary,
    read_bytes,
    read_lines,
    read_whole,
    write_binary,
    write_text,
)


def lines_of(path: Path | str) -> list[tuple[int, str]]:
    return list(read_lines(path))


def put(folder: Path, content: bytes, name: str = "file.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_only_newlines_end_a_line(tmp_path):
    path = put(tmp_path, "a\x0cb\x1cc\u2028d\r\n\r\nlast".encode())
    assert lines_of(path) == [(1, "a\x0cb\x1cc\u2028d"), (2, ""), (3, "last")]


def test_a_byte_order_mark_is_no_text_but_a_later_one_is(tmp_path):
    path = put(tmp_path, "\ufeffone\n\ufefftwo\n".encode())
    assert lines_of(path) == [(1, "one"), (2, "\ufefftwo")]
    assert read_whole(path) == "one\n\ufefftwo\n"


def test_gzip_is_known_by_its_content_not_its_name(tmp_path):
    path = put(tmp_path, gzip.compress(b"a\nb\n"))
    assert lines_of(path) == [(1, "a"), (2, "b")]
    assert lines_of(put(tmp_path, b"plain\n", "not-zipped.gz")) == [(1, "plain")]


def test_bad_text_is_named_with_its_line(tmp_path):
    path = put(tmp_path, b"fine\nna\xefve\n")
    with pytest.raises(DataError, match=r"file\.txt:2: byte 0xef .* UTF-8"):
        lines_of(path)
    with pytest.raises(DataError, match=r"file\.txt:2: byte 0xef .* UTF-8"):
        read_whole(path)


@pytest.mark.parametrize("cut", [3, 12, 40, -6, -1])
def test_a_truncated_gzip_is_a_data_error(tmp_path, cut):
    whole = gzip.compress(b"".join(b"%d of many lines\n" % i for i in range(5000)))
    with pytest.raises(DataError, match="damaged gzip"):
        lines_of(put(tmp_path, whole[:cut]))


def test_a_damaged_gzip_is_a_data_error(tmp_path):
    whole = bytearray(gzip.compress(b"".join(b"%d of many lines\n" % i for i in range(5000))))
    whole[len(whole) // 2] ^= 0xFF
    with pytest.raises(DataError, match="damaged gzip"):
        lines_of(put(tmp_path, bytes(whole)))


@pytest.mark.parametrize("name", ["absent.txt", ".", "nul\0name", "n" * 300])
def test_what_cannot_be_opened_is_a_data_error(tmp_path, name):
    with pytest.raises(DataError):
        lines_of(f"{tmp_path}/{name}")


@pytest.mark.parametrize("name", ["absent/file", ".", "nul\0name", "n" * 300])
def test_what_cannot_be_written_is_a_data_error(tmp_path, name):
    with pytest.raises(DataError, match="cannot be written"), write_text(f"{tmp_path}/{name}"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_readers_block_stays_what_it_is(tmp_path):
    with pytest.raises(PermissionError), open_binary(put(tmp_path, b"x")):
        raise PermissionError("of something else")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_may_be_gzipped_and_stays_open(monkeypatch, pack):
    stdin = io.TextIOWrapper(io.BytesIO(pack(b"a b\nc\n")))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert lines_of("-") == [(1, "a b"), (2, "c")]
    assert not stdin.buffer.closed


def test_a_pipe_gives_its_first_line_before_its_end(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen_first = threading.Event()

    def feed() -> None:
        with pipe.open("wb", buffering=0) as stream:
            stream.write(b"first\n")
            assert seen_first.wait(timeout=30)
            stream.write(b"second\n")

    feeder = threading.Thread(target=feed)
    feeder.start()
    lines = read_lines(pipe)
    assert next(lines) == (1, "first")
    seen_first.set()
    assert list(lines) == [(2, "second")]
    feeder.join()


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
@pytest.mark.parametrize("existing", [None, b"old"])
def test_a_failing_write_leaves_things_as_they_were(tmp_path, name, existing):
    path = tmp_path / name
    if existing is not None:
        path.write_bytes(existing)

    def half() -> Iterator[str]:
        yield "half a line"
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"), write_text(path) as stream:
        stream.writelines(half())
    assert [p.name for p in tmp_path.iterdir()] == ([] if existing is None else [name])
    assert existing is None or path.read_bytes() == existing


def test_text_that_is_no_unicode_is_a_data_error_and_leaves_no_file(tmp_path):
    with pytest.raises(DataError, match="surrogates"), write_text(tmp_path / "out") as stream:
        stream.write("fine\n\udcff\n")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_overwritten(tmp_path):
    with pytest.raises(DataError, match="is a folder"), write_binary(tmp_path) as stream:
        stream.write(b"x")
    assert tmp_path.is_dir()


def test_a_full_disk_is_a_data_error():
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(DataError, match="cannot be written"), write_text("/dev/full") as stream:
        stream.write("x")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    with write_text(pipe) as stream:
        stream.write("through\n")
    reader.join()
    assert got == [b"through\n"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_keeps_pointing_at_the_file_that_is_written(tmp_path):
    (tmp_path / "link").symlink_to(put(tmp_path, b"old", "real"))
    with write_binary(tmp_path / "link") as stream:
        stream.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_written_gzip_is_equal_for_equal_content_and_readable_by_others(tmp_path):
    for name in ("a.gz", "b.gz"):
        with write_text(tmp_path / name) as stream:
            stream.write("caf\u00e9\n")
    first, second = ((tmp_path / name).read_bytes() for name in ("a.gz", "b.gz"))
    assert first == second
    assert gzip.decompress(first) == "caf\u00e9\n".encode()


def test_new_files_have_ordinary_permissions(tmp_path):
    (tmp_path / "ordinary").touch()
    with write_text(tmp_path / "ours") as stream:
        stream.write("x")
    ours, ordinary = ((tmp_path / name).stat().st_mode for name in ("ours", "ordinary"))
    assert ours == ordinary


def test_dash_is_standard_output(capsys):
    with write_text("-") as stream:
        stream.write("shown\n")
    assert capsys.readouterr().out == "shown\n"


def test_dash_is_standard_output_for_bytes_too(capsysbinary):
    with write_binary("-") as stream:
        stream.write(b"\x00\xff")
    assert capsysbinary.readouterr().out == b"\x00\xff"


def bomb(folder: Path, size: int) -> Path:
    return put(folder, gzip.compress(b"words of text\n" * (size // 14)), "bomb.gz")


@pytest.mark.parametrize("read", [lines_of, read_whole, read_bytes])
def test_a_gzip_bomb_is_refused_before_it_fills_memory(
    read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bomb(tmp_path, 3 * GZIP_FLOOR)
    with pytest.raises(DataError, match=r"bomb\.gz: .*100 times.*MRFLEARN_MAX_GZIP_RATIO"):
        read(path)
    monkeypatch.setenv("MRFLEARN_MAX_GZIP_RATIO", "2000")
    assert len(read(path)) > 0
    monkeypatch.setenv("MRFLEARN_MAX_GZIP_RATIO", "many")
    with pytest.raises(DataError, match="MRFLEARN_MAX_GZIP_RATIO='many'"):
        read(path)
    assert len(read(put(tmp_path, b"plain text\n", "plain.txt"))) > 0  # of no concern to it


def test_an_ordinary_gzip_file_may_have_any_size(tmp_path: Path) -> None:
    content = Random(0).randbytes(GZIP_FLOOR + 1).replace(b"\n", b" ")
    assert read_bytes(put(tmp_path, gzip.compress(content, 1))) == content


def test_a_line_and_a_file_may_not_be_longer_than_what_memory_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, b"short\n" + b"x" * 100 + b"\n")
    monkeypatch.setenv("MRFLEARN_MAX_LINE", "100")
    with pytest.raises(DataError, match=r"file\.txt:2: .*MRFLEARN_MAX_LINE"):
        lines_of(path)
    monkeypatch.setenv("MRFLEARN_MAX_LINE", "101")
    assert len(lines_of(path)) == 2
    monkeypatch.setenv("MRFLEARN_MAX_FILE", "106")
    with pytest.raises(DataError, match=r"file\.txt: .*MRFLEARN_MAX_FILE"):
        read_whole(path)
    monkeypatch.setenv("MRFLEARN_MAX_FILE", "107")
    assert len(read_whole(path)) == 107


def test_what_killed_processes_left_of_a_file_is_removed_at_the_next_write(tmp_path: Path) -> None:
    target, other = tmp_path / "file.txt", tmp_path / "file.txt2"
    for name in (target, other):
        code = "import os, sys; from mrflearn.io.files import write_binary\n"
        code += "with write_binary(sys.argv[1]) as stream:\n    os.kill(os.getpid(), 9)"
        killed = subprocess.run([sys.executable, "-c", code, str(name)], check=False)
        assert killed.returncode == -9
    (tmp_path / ".file.txt.mrflearn-notes").write_text("not of our making")
    assert len(list(tmp_path.iterdir())) == 3
    with write_binary(target) as first:
        first.write(b"a")
        with write_binary(target) as second:  # the first is still being written
            second.write(b"b")
        assert target.read_bytes() == b"b"
    assert target.read_bytes() == b"a"
    left = {path.name for path in tmp_path.iterdir()}
    assert {"file.txt", ".file.txt.mrflearn-notes"} < left
    assert len(left) == 3  # with that of the other file
    with write_binary(other) as stream:
        stream.write(b"c")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"file.txt", "file.txt2", ".file.txt.mrflearn-notes"}

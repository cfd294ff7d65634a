"""What every reader and writer must do, whatever its format; the formats are in support.formats."""

from __future__ import annotations

import errno
import gzip
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrflearn.errors import DataError
from mrflearn.io import files
from mrflearn.io.files import read_lines
from support.formats import FORMATS, Format
from support.mutations import damaged

every_format = pytest.mark.parametrize("form", FORMATS, ids=str)
zipped_formats = pytest.mark.parametrize("form", [f for f in FORMATS if f.gzipped], ids=str)
streams = pytest.mark.parametrize("form", [f for f in FORMATS if f.stream], ids=str)


@contextmanager
def no_longer_than(seconds: float) -> Iterator[None]:
    """An error in the middle of the block when it takes longer, so that a hang is a failure."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def put(folder: Path, form: Format, content: bytes, name: str = "given") -> Path:
    path = folder / (name + form.suffix)
    path.write_bytes(content)
    return path


def read_or_refuse(form: Format, path: Path) -> object:
    """The records, or None where the reader refuses in the proper way."""
    with no_longer_than(20):
        try:
            return form.read(path)
        except DataError as refusal:
            complaint = str(refusal)
    assert complaint.startswith(str(path)), f"the complaint does not name the file: {complaint}"
    return None


@every_format
def test_what_was_written_reads_back_the_same(form, tmp_path):
    records = form.read(put(tmp_path, form, form.valid))
    first, second = tmp_path / f"first{form.suffix}", tmp_path / f"second{form.suffix}"
    form.write(first, records)
    again = form.read(first)
    assert form.same(again, records)
    form.write(second, again)
    assert first.read_bytes() == second.read_bytes()


@zipped_formats
def test_gzip_reads_as_the_plain_file_does(form, tmp_path):
    plain = form.read(put(tmp_path, form, form.valid))
    assert form.same(form.read(put(tmp_path, form, gzip.compress(form.valid), "zipped")), plain)


@zipped_formats
def test_a_name_in_gz_is_written_zipped(form, tmp_path):
    records = form.read(put(tmp_path, form, form.valid))
    form.write(tmp_path / f"plain{form.suffix}", records)
    form.write(tmp_path / f"zipped{form.suffix}.gz", records)
    zipped = (tmp_path / f"zipped{form.suffix}.gz").read_bytes()
    assert gzip.decompress(zipped) == (tmp_path / f"plain{form.suffix}").read_bytes()


@contextmanager
def endless(pipe: Path, content: bytes) -> Iterator[None]:
    """A named pipe that gives the content again and again to whoever opens it."""
    os.mkfifo(pipe)
    enough = threading.Event()

    def feed() -> None:
        writer = os.open(pipe, os.O_WRONLY)  # waits for the reader
        os.set_blocking(writer, False)
        try:
            while not enough.is_set():
                try:
                    os.write(writer, content)  # all of it or nothing: it is shorter than PIPE_BUF
                except BlockingIOError:
                    enough.wait(0.001)
        except BrokenPipeError:
            pass
        finally:
            os.close(writer)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        yield
    finally:
        enough.set()
        feeder.join(timeout=60)


def has_reader(pipe: Path) -> bool:
    """Whether anybody has the pipe open for reading: a writer that does not wait learns it."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    return True


@streams
def test_an_endless_file_is_read_as_it_comes(form, tmp_path):
    pipe = tmp_path / f"endless{form.suffix}"
    with endless(pipe, form.valid), no_longer_than(60):
        with closing(form.stream(pipe)) as records:
            assert len(list(islice(records, 100))) == 100
            assert has_reader(pipe)
        assert not has_reader(pipe)


@streams
def test_closing_a_reader_closes_its_file_whoever_still_holds_the_lines(
    form, tmp_path, monkeypatch
):
    """Closed by the reader itself, not when the last reference to its lines happens to go."""
    held = []

    def holding(path: Path) -> Iterator[tuple[int, str]]:
        held.append(read_lines(path))
        return held[-1]

    for name, module in list(sys.modules.items()):
        if name.startswith("mrflearn.io.") and vars(module).get("read_lines") is read_lines:
            monkeypatch.setattr(module, "read_lines", holding)
    with closing(form.stream(put(tmp_path, form, form.valid * 3))) as records:
        next(records)
        assert [lines.gi_frame is not None for lines in held] == [True]
    assert [lines.gi_frame for lines in held] == [None]


@every_format
def test_a_missing_file_is_a_data_error(form, tmp_path):
    path = tmp_path / f"absent{form.suffix}"
    with pytest.raises(DataError, match="absent"):
        form.read(path)


@every_format
@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\n",
        b"\x00" * 64,
        bytes(range(256)) * 4,
        "\ufeff".encode() + b"\xff\xfe",
        gzip.compress(bytes(range(256)), mtime=0),
        gzip.compress(b"words of text\n" * 50, mtime=0)[:-9],
        b"\x1f\x8b",
        b"\x93NUMPY\x01\x00",
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    ],
    ids=lambda junk: repr(junk[:12]),
)
def test_junk_is_a_record_or_a_data_error(form, junk, tmp_path):
    read_or_refuse(form, put(tmp_path, form, junk))


@every_format
def test_a_failing_write_leaves_no_file(form, tmp_path, monkeypatch):
    source = put(tmp_path, form, form.valid)
    records = form.read(source)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left"):
        form.write(tmp_path / f"out{form.suffix}", records)
    assert list(tmp_path.iterdir()) == [source]


@every_format
@given(data=st.data())
def test_a_damaged_file_is_records_or_a_data_error(form, data, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    content = data.draw(damaged(form.valid))
    path = put(folder, form, content, "damaged")
    records = read_or_refuse(form, path)
    if records is None:
        return
    again = folder / f"again{form.suffix}"
    try:
        form.write(again, records)
    except DataError:
        return  # the reader is more generous than the writer
    assert form.same(form.read(again), records)


@zipped_formats
def test_a_gzip_bomb_is_refused(form, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "GZIP_FLOOR", 1 << 14)
    bomb = gzip.compress(b" \n" * (1 << 22) + form.valid)
    with no_longer_than(20), pytest.raises(DataError, match="bomb"):
        form.read(put(tmp_path, form, bomb, "bomb"))


def test_a_slice_of_the_fuzzing_run(tmp_path):
    program = Path(__file__).parents[1] / "fuzz.py"
    options = ("--light", "--inputs", "500", "--jobs", "1", "--findings", str(tmp_path))
    done = subprocess.run(
        [sys.executable, str(program), *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "500 inputs" in done.stdout

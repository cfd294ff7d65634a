"""Opening text files, plain or compressed, with `path:line` in every error; writing atomically.

A path may be a URL that fsspec opens.  What is compressed by gzip, bzip2, xz or Zstandard is known
by its first bytes.  What a file may ask of memory is bounded: a line by `MRFLEARN_MAX_LINE` bytes,
what is read at once by `MRFLEARN_MAX_FILE` bytes, and a compressed file by the ratio
`MRFLEARN_MAX_GZIP_RATIO` of its content to its size.  These environment variables set other limits.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, Self, TextIO, TypeVar

from mrflearn.errors import DataError, MissingExtraError, StorageError
from mrflearn.io.remote import file_system, replaced
from mrflearn.io.remote import opened as opened_url

PathLike = str | os.PathLike[str]
URL = re.compile(
    r"((?:[a-z][a-z0-9+.-]+::)*([a-z][a-z0-9+.-]+)):(/+)(.*)", re.IGNORECASE | re.DOTALL
)
Item = TypeVar("Item")
MAGIC = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bzip2": re.compile(rb"BZh[1-9]1AY"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "Zstandard": re.compile(rb"\(\xb5/\xfd"),
}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
BUFFER_BYTES = 1 << 17
PIECE_BYTES = 1 << 20
LIMITS = {
    "MRFLEARN_MAX_LINE": 1 << 26,
    "MRFLEARN_MAX_FILE": 1 << 32,
    "MRFLEARN_MAX_GZIP_RATIO": 100,
}
# Below this size gzip may reach any ratio: small files of one repeated line do.
GZIP_FLOOR = 1 << 22


def url_of(path: PathLike) -> str | None:
    """The URL that a path is; None where it is one of this machine.

    `pathlib` makes `s3:/bucket` of `s3://bucket`, which is read as what it was.
    """
    text = os.fspath(path)
    found = URL.fullmatch(text) if ":/" in text else None
    if found is None or found[2].lower() == "file":
        return None
    if len(found[3]) > 1:
        return text
    from fsspec.registry import available_protocols

    if found[2] not in available_protocols() or isinstance(path, str):
        return None
    host = found[4].partition("/")[0]
    # Of all only Hadoop has URLs that name no host.
    hostless = found[2] == "hdfs" and not ({".", ":"} & set(host))
    return f"{found[1]}:{'///' if hostless else '//'}{found[4]}"


def plain(path: PathLike) -> PathLike:
    """The path without the scheme of this machine's files, `file:`."""
    text = os.fspath(path)
    return re.sub("^/*", "/", text[5:]) if text.lower().startswith("file:/") else path


def joined(path: PathLike, name: str) -> str:
    """The place of that name in a folder."""
    url = url_of(path)
    return str(Path(plain(path), name)) if url is None else f"{url.rstrip('/')}/{name}"


def exists(path: PathLike) -> bool:
    """Whether there is a file or a folder."""
    url = url_of(path)
    if url is None:
        return Path(plain(path)).exists()
    system, own = file_system(url)
    return bool(system.exists(own))


class _Source(io.RawIOBase):
    """The bytes of a stream, counted, whose failures are data errors.

    Only its own reads are translated: an error in the caller's block stays what it is.  Closing it
    leaves the stream below open, for that may be standard input.  The content of a gzip file,
    `zipped`, may not grow out of all proportion to the file.
    """

    def __init__(self, stream: Any, zipped: _Source | None = None, kind: str = "gzip") -> None:
        self._stream, self._kind = stream, kind
        self._zipped = zipped
        self._ratio = 0 if zipped is None else limit("MRFLEARN_MAX_GZIP_RATIO")
        self.seen = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            # read1 hands over what has arrived: a pipe's first lines need not wait for its last.
            data = self._stream.read1(len(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
            problem = (
                f"damaged {self._kind} file ({error}). Was it cut short in a copy or download?"
            )
            raise DataError(problem) from error
        except OSError as error:
            if self._zipped is not None and self._kind != "gzip":  # bz2 and Arrow say so of damage
                problem = f"damaged {self._kind} file ({error}). Was it cut short in a copy?"
                raise DataError(problem) from error
            raise DataError(f"cannot be read: {error}.") from error
        buffer[: len(data)] = data
        self.seen += len(data)
        zipped = self._zipped
        if zipped is not None and self.seen > max(GZIP_FLOOR, self._ratio * zipped.seen):
            raise DataError(
                f"{zipped.seen:,} compressed bytes have become {self.seen:,} bytes, more than "
                f"{self._ratio} times as many. If this is no attack, unzip the file first, or set "
                "MRFLEARN_MAX_GZIP_RATIO to a larger number."
            )
        return len(data)


def limit(name: str) -> int:
    """The bound of that name: the environment's, or the default."""
    given = os.environ.get(name)
    if given is None:
        return LIMITS[name]
    if not (given.isascii() and given.isdigit() and int(given[:18])):
        raise DataError(f"the environment says {name}={given!r}; it is a whole number from 1.")
    return int(given[:18])


@contextmanager
def located(path: PathLike) -> Iterator[None]:
    """Data errors of the block name this file, unless they name one already."""
    try:
        yield
    except DataError as error:
        error.locate(path)
        raise


@contextmanager
def open_binary(path: PathLike) -> Iterator[BinaryIO]:
    """Bytes of a file, URL or pipe, unzipped where they are compressed; `-` is standard input.

    Data errors of the block name the file.
    """
    with located(path), ExitStack() as opened:
        try:
            url = url_of(path)
            raw: Any = sys.stdin.buffer
            if str(path) != "-":
                raw = opened_url(url) if url else Path(plain(path)).open("rb")  # noqa: SIM115
                raw = opened.enter_context(raw)
        except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
            raise DataError(f"cannot be read: {getattr(error, 'strerror', error)}.") from error
        counted = _Source(raw)
        stream: io.BufferedReader[_Source] = io.BufferedReader(counted, BUFFER_BYTES)
        begun = stream.peek(8)
        if kind := next((own for own, magic in MAGIC.items() if magic.match(begun)), None):
            unzipped = opened.enter_context(_unzipped(stream, kind))
            stream = io.BufferedReader(_Source(unzipped, counted, kind), BUFFER_BYTES)
        yield stream


def _unzipped(stream: Any, kind: str) -> Any:
    """The content of a compressed stream."""
    if kind == "gzip":
        return gzip.GzipFile(fileobj=stream)
    if kind == "bzip2":
        return bz2.BZ2File(stream)
    if kind == "xz":
        return lzma.LZMAFile(stream)
    try:
        from pyarrow import CompressedInputStream, PythonFile
    except ImportError as missing:
        raise MissingExtraError(
            "files compressed by Zstandard need pyarrow: pip install 'mrflearn[parquet]'"
        ) from missing
    return io.BufferedReader(CompressedInputStream(PythonFile(stream, "r"), "zstd"))


def ending(path: PathLike) -> str:
    """The ending of a name, in small letters, apart from that of a compression."""
    name = Path(path)
    return Path(name.stem if name.suffix in COMPRESSED else name).suffix.lower()


def read_bytes(path: PathLike) -> bytes:
    """All bytes of a file or pipe, unzipped where they are gzip."""
    most, size, pieces = limit("MRFLEARN_MAX_FILE"), 0, []
    with open_binary(path) as stream:
        while piece := stream.read(PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise DataError(
                    f"holds more than {most:,} bytes, which would all be kept in memory. "
                    "Set MRFLEARN_MAX_FILE to a larger number if there is memory for it."
                )
    return b"".join(pieces)


def binary_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line with its end) for every line of a stream."""
    most, number = limit("MRFLEARN_MAX_LINE"), 0
    while line := stream.readline(most + 1):
        number += 1
        if len(line) > most:
            raise _too_long(most, number)
        yield number, line


def _too_long(most: int, line: int) -> DataError:
    return DataError(
        f"this line has more than {most:,} bytes. Is this a text file? If it is, set "
        "MRFLEARN_MAX_LINE to a larger number.",
        line=line,
    )


def read_lines(path: PathLike) -> Generator[tuple[int, str]]:
    """(line number from 1, line without its end) for every line of a UTF-8 text file.

    Only newline characters end a line: form feeds and Unicode separators are text.  A byte order
    mark at the beginning is no part of the first line.  A caller that may stop before the last line
    closes the generator, and the file with it (`contextlib.closing`, or `Lines`).
    """
    most, number = limit("MRFLEARN_MAX_LINE"), 0
    with open_binary(path) as stream:
        while raw := stream.readline(most + 1):  # not by binary_lines: this is the inner loop
            number += 1
            if len(raw) > most:
                raise _too_long(most, number)
            try:
                line = raw.decode()
            except UnicodeDecodeError as error:
                raise not_text(error, number) from error
            if number == 1:
                line = line.removeprefix("\ufeff")
            yield number, line.rstrip("\r\n")


class Lines:
    """The lines of a UTF-8 text file in a `with` block, and the number of the last one read.

    The block closes the file, and its data errors name the file and that line.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = path
        self.number = 0
        self._numbered = read_lines(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._numbered.close()
        if isinstance(error, DataError):
            error.locate(self.path, self.number or None)

    def __iter__(self) -> Iterator[str]:
        for self.number, line in self._numbered:  # noqa: B020
            yield line


def runs(items: Iterable[Item | None]) -> Iterator[list[Item]]:
    """Lists of neighbouring items that are not empty: what stands between blank lines."""
    run: list[Item] = []
    for item in items:
        if item:
            run.append(item)
        elif run:
            yield run
            run = []
    if run:
        yield run


_tokens = re.compile(r"[^ \t\n\r\f\v]+").findall


def split_tokens(text: str) -> list[str]:
    """What ASCII white space sets apart; no-break and ideographic spaces are part of a token."""
    # No white space but the blank is printable, and split() is several times as fast.
    return text.split() if text.isprintable() else _tokens(text)


JSON_LINES = (".jsonl", ".ndjson")  # endings of files with a record a line


def to_record(line: str) -> Any:
    """What a line of JSON says."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"this line is not JSON ({error}); each record is one line.") from error


def to_number(text: str) -> float:
    """The number that a text stands for; NaN where it is none."""
    try:
        return math.nan if "_" in text else float(text)  # Python would read 1_000 as a number
    except ValueError:
        return math.nan


def read_whole(path: PathLike) -> str:
    """The UTF-8 text of a small file as it stands, line ends and all."""
    raw = read_bytes(path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong = not_text(error, 1 + raw.count(b"\n", 0, error.start))
        wrong.locate(path)
        raise wrong from error


def not_text(error: UnicodeDecodeError, line: int) -> DataError:
    """The error for a line that is not in UTF-8."""
    return DataError(
        f"byte 0x{error.object[error.start]:02x} in this line is not UTF-8 text. Is this a text "
        "file? If it is in another encoding, convert it first (iconv -t utf-8).",
        line=line,
    )


@contextmanager
def write_binary(path: PathLike) -> Iterator[BinaryIO]:
    """A file that appears under its name only when the block ends without an error.

    A name that ends in `.gz` is gzipped (without time stamp, so equal content is equal bytes).
    Pipes and devices are written to as they are, and `-` is standard output.  Data errors of the
    block name the file.
    """
    with located(path):
        try:
            with ExitStack() as opened:
                raw = opened.enter_context(_destination(path))
                if Path(path).suffix == ".gz":
                    zipped = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
                    raw = opened.enter_context(zipped)  # type: ignore[assignment]
                yield raw
        except OSError as error:  # no such place, a full disk, or the pipe's reader has left
            raise DataError(f"cannot be written: {error.strerror or error}.") from error


def _destination(path: PathLike) -> AbstractContextManager[BinaryIO]:
    if str(path) == "-":
        return nullcontext(sys.stdout.buffer)
    if url := url_of(path):
        return replaced(url)
    if "\0" in str(path):
        raise DataError("cannot be written: there is a NUL character in its name.")
    target = Path(plain(path))
    if target.is_dir():
        raise DataError("cannot be written: it is a folder.")
    if target.exists() and not target.is_file():
        # A new file under the name would replace the pipe, or /dev/null, for everybody.
        return target.open("wb")
    return _replacing(Path(os.path.realpath(target)))


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """A new file, which takes the target's name if the block ends well and else is gone."""
    remove_drafts(target)
    temporary, handle = new_draft(target)
    try:
        with os.fdopen(handle, "wb") as raw:
            yield raw
            raw.flush()
            os.fsync(raw.fileno())
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)  # mkstemp makes private files
            # While the file is open it is locked, so that no process takes it for a leftover.
            temporary.replace(target)
        sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def new_draft(target: Path, *, folder: bool = False) -> tuple[Path, int]:
    """A new file or folder beside the target, and an open descriptor that holds a lock on it.

    The system gives the lock back when the process ends, however it ends, so that
    `remove_drafts` can tell what is still being written from what a killed process left.
    """
    while True:
        if folder:
            path = Path(tempfile.mkdtemp(dir=target.parent, prefix=_draft_prefix(target)))
            try:
                handle = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue  # taken for a leftover before it was locked
        else:
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=_draft_prefix(target))
            path = Path(name)
        _lock(handle, wait=True)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return path, handle
        os.close(handle)


def check_folder(folder: Path, target: PathLike) -> None:
    """Raises `StorageError` where no target can be written in the folder; by trying to."""
    try:
        tempfile.TemporaryDirectory(dir=folder, prefix=_draft_prefix(Path(target))).cleanup()
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {folder}: {error.strerror}.") from error


def remove_drafts(target: Path) -> None:
    """Removes drafts of this target that killed processes left; those in use are locked, and stay.

    Where the file system has no locks nothing is removed.
    """
    ours = re.compile(re.escape(_draft_prefix(target)) + "[a-z0-9_]{8}").fullmatch
    try:
        found = [entry.path for entry in os.scandir(target.parent) if ours(entry.name)]
    except OSError:
        return
    for path in found:
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
            try:
                if not _lock(handle, wait=False):
                    continue
                if Path(path).is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    Path(path).unlink()
            finally:
                os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    """Whether a lock was had; Windows and some network file systems have none to give."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _draft_prefix(target: Path) -> str:
    return f".{target.name}.mrflearn-"


def sync_folder(folder: Path) -> None:
    """Brings the names in a folder to the disk, where the file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def write_text(path: PathLike) -> Iterator[TextIO]:
    """Like `write_binary`, for UTF-8 text with newline line ends."""
    with located(path):
        try:
            if str(path) == "-":
                yield sys.stdout
                return
            with write_binary(path) as raw:
                wrapper = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
                try:
                    yield wrapper
                finally:
                    wrapper.detach()  # flushes, and leaves the file to its owner
        except UnicodeEncodeError as error:
            raise DataError(
                f"cannot be written: {error}. Was some text read with errors='surrogateescape'?"
            ) from error


def write_csv(path: PathLike, columns: Mapping[str, Sequence[Any]]) -> None:
    """Writes columns by name as csv."""
    with write_text(path) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows([list(columns), *zip(*columns.values(), strict=True)])

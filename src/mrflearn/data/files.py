"""Opening text files, plain or gzipped, with `path:line` in every complaint; writing atomically."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from mrflearn.errors import DataError

PathLike = str | os.PathLike[str]
GZIP_MAGIC = b"\x1f\x8b"
BUFFER_BYTES = 1 << 17


class _Source(io.RawIOBase):
    """The bytes of a stream, whose failures are data errors that name the path.

    Only its own reads are translated: an error in the caller's block stays what it is.  Closing it
    leaves the stream below open, for that may be standard input.
    """

    def __init__(self, stream: Any, path: PathLike) -> None:
        self._stream = stream
        self._path = path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            # read1 hands over what has arrived: a pipe's first lines need not wait for its last.
            data = self._stream.read1(len(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"damaged gzip file ({error}). Was it cut short in a copy or download?",
                path=self._path,
            ) from error
        except OSError as error:
            raise DataError(f"cannot be read: {error}.", path=self._path) from error
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def open_binary(path: PathLike) -> Iterator[BinaryIO]:
    """Bytes of a file or pipe, unzipped where they are gzip; `-` is standard input."""
    with ExitStack() as opened:
        if str(path) == "-":
            raw: Any = sys.stdin.buffer
        else:
            try:
                raw = opened.enter_context(Path(path).open("rb"))
            except OSError as error:
                raise DataError(f"cannot be read: {error.strerror}.", path=path) from error
            except ValueError as error:  # a NUL character in the name
                raise DataError(f"is no file name: {error}.", path=path) from error
        stream = io.BufferedReader(_Source(raw, path), BUFFER_BYTES)
        if stream.peek(2)[:2] == GZIP_MAGIC:
            unzipped = opened.enter_context(gzip.GzipFile(fileobj=stream))
            stream = io.BufferedReader(_Source(unzipped, path), BUFFER_BYTES)
        yield stream


def read_lines(path: PathLike) -> Generator[tuple[int, str]]:
    """(line number from 1, line without its end) for every line of a UTF-8 text file.

    Only newline characters end a line: form feeds and Unicode separators are text.  A byte order
    mark at the beginning is no part of the first line.  A caller that may stop before the last line
    closes the generator, and the file with it (`contextlib.closing`).
    """
    with open_binary(path) as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise _not_text(error, path, number) from error
            yield number, line.rstrip("\r\n")


def read_whole(path: PathLike) -> str:
    """The UTF-8 text of a small file as it stands, line ends and all."""
    with open_binary(path) as stream:
        raw = stream.read()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_text(error, path, 1 + raw.count(b"\n", 0, error.start)) from error


def _not_text(error: UnicodeDecodeError, path: PathLike, line: int) -> DataError:
    bad = error.object[error.start]
    return DataError(
        f"byte 0x{bad:02x} in this line is not UTF-8 text. Is this a text file? "
        "If it is in another encoding, convert it first (iconv -t utf-8).",
        path=path,
        line=line,
    )


@contextmanager
def write_binary(path: PathLike) -> Iterator[BinaryIO]:
    """A file that appears under its name only when the block ends without an error.

    A name that ends in `.gz` is gzipped (without time stamp, so equal content is equal bytes).
    Pipes and devices are written to as they are, and `-` is standard output.
    """
    if str(path) == "-":
        yield sys.stdout.buffer
        return
    try:
        with ExitStack() as opened:
            raw = opened.enter_context(_destination(path))
            if Path(path).suffix == ".gz":
                zipped = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
                yield opened.enter_context(zipped)  # type: ignore[misc]
            else:
                yield raw
    except OSError as error:  # the disk is full, or the pipe's reader has left
        raise DataError(f"cannot be written: {error}.", path=path) from error


def _destination(path: PathLike) -> AbstractContextManager[BinaryIO]:
    target = Path(path)
    if target.is_dir():
        raise DataError("cannot be written: it is a folder.", path=path)
    try:
        if target.exists() and not target.is_file():
            # A new file under the name would take a pipe or /dev/null away from everybody.
            return target.open("wb")
        target = Path(os.path.realpath(target))
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".mrflearn-")
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"cannot be written: {reason}.", path=path) from error
    return _replacing(target, handle, temporary)


@contextmanager
def _replacing(target: Path, handle: int, temporary: str) -> Iterator[BinaryIO]:
    """The new file, which takes the target's name if the block ends well and else is gone."""
    try:
        with os.fdopen(handle, "wb") as raw:
            yield raw
            raw.flush()
            os.fsync(raw.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # noqa: PTH101 - mkstemp makes private files
        os.replace(temporary, target)  # noqa: PTH105
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def write_text(path: PathLike) -> Iterator[TextIO]:
    """Like `write_binary`, for UTF-8 text with newline line ends."""
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
            f"cannot be written: {error}. Was some text read with errors='surrogateescape'?",
            path=path,
        ) from error

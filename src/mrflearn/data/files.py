"""Opening text files, plain or gzipped, with `path:line` in every complaint; writing atomically."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from mrflearn.errors import DataError

PathLike = str | os.PathLike[str]
GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def open_binary(path: PathLike) -> Iterator[BinaryIO]:
    """Bytes of a file, unzipped where it is gzip; `-` is standard input."""
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        raw = Path(path).open("rb")  # noqa: SIM115 - closed by the block below
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}.", path=path) from error
    with raw:
        try:
            magic = raw.read(2)
            raw.seek(0)
            if magic == GZIP_MAGIC:
                with gzip.GzipFile(fileobj=raw) as unzipped:
                    yield io.BufferedReader(unzipped)
            else:
                yield raw
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"damaged gzip file ({error}).", path=path) from error
        except OSError as error:
            raise DataError(f"cannot be read: {error}.", path=path) from error


def read_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) for every line of a UTF-8 text file.

    Only newline characters end a line: form feeds and Unicode separators are text.
    """
    with open_binary(path) as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"byte {error.start + 1} of this line is not UTF-8 text. Is this a text file? "
                    "If it is in another encoding, convert it first (iconv -t utf-8).",
                    path=path,
                    line=number,
                ) from error
            yield number, line.rstrip("\r\n")


@contextmanager
def write_binary(path: PathLike) -> Iterator[BinaryIO]:
    """A file that appears under its name only when the block ends without an error.

    A name that ends in `.gz` is gzipped (without time stamp, so equal content is equal bytes).
    """
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}.", path=path) from error
    try:
        with os.fdopen(handle, "wb") as raw:
            if target.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as zipped:
                    yield zipped  # type: ignore[misc]
            else:
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
    """Like `write_binary`, for UTF-8 text with newline line ends; `-` is standard output."""
    if str(path) == "-":
        yield sys.stdout
        return
    with write_binary(path) as raw:
        wrapper = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
        yield wrapper
        wrapper.flush()
        wrapper.detach()

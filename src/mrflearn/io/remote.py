"""Paths that are URLs of other places, which fsspec opens: hdfs, s3, abfs, gs, memory and others.

A path of this machine, `file:` or not, never needs fsspec.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from mrflearn.errors import DataError, MissingExtraError, StorageError

PACKAGES = {"fsspec.implementations.arrow": "pyarrow", "fsspec.implementations.sftp": "paramiko"}


def file_system(url: str) -> tuple[Any, str]:
    """What fsspec reaches a URL by, and the path there."""
    scheme = url.partition(":")[0]
    try:
        from fsspec.core import url_to_fs
        from fsspec.registry import known_implementations
    except ImportError as missing:
        raise MissingExtraError(f"{url}: URLs need fsspec: pip install fsspec") from missing
    try:
        found: tuple[Any, str] = url_to_fs(url)
    except ImportError as missing:
        home = known_implementations.get(scheme, {}).get("class", scheme).rpartition(".")[0]
        package = PACKAGES.get(home, home.partition(".")[0])
        raise MissingExtraError(
            f"{url}: paths of {scheme}:// need another package: pip install {package} ({missing})"
        ) from missing
    except Exception as error:  # each kind of place has errors of its own: no host, no credentials
        raise DataError(f"cannot be reached: {_said(error)}.", path=url) from error
    return found


def _said(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__).rstrip(".")


@contextmanager
def opened(url: str) -> Iterator[BinaryIO]:
    """The bytes at a URL, to read; they can be sought in."""
    system, path = file_system(url)
    try:
        stream = system.open(path, "rb")
    except FileNotFoundError as error:
        raise DataError("cannot be read: No such file or directory.", path=url) from error
    except Exception as error:
        raise DataError(f"cannot be read: {_said(error)}.", path=url) from error
    with stream:
        yield stream if hasattr(stream, "read1") else io.BufferedReader(stream)


@contextmanager
def replaced(url: str) -> Iterator[BinaryIO]:
    """A file to write, which goes to the URL when the block ends without an error."""
    with tempfile.TemporaryFile() as draft:
        yield draft
        draft.seek(0)
        system, path = file_system(url)
        system.makedirs(system._parent(path), exist_ok=True)
        with system.open(path, "wb") as stream:
            shutil.copyfileobj(draft, stream)


def listing(url: str) -> list[str]:
    """The files of a folder or of a pattern such as `hdfs://host/shards/*.csv`, by name."""
    system, path = file_system(url)
    if any(sign in path for sign in "*?["):
        found = system.glob(path, detail=True).values()
    elif system.isdir(path):
        found = system.ls(path, detail=True)
    else:
        return [url]
    # The names that come back may lack the host.
    start = url.removesuffix(path) if url.endswith(path) else ""
    names = sorted(own["name"] for own in found if own["type"] == "file")
    return [f"{start}{name}" if start else system.unstrip_protocol(name) for name in names]


def upload(folder: str, url: str) -> None:
    """Puts a folder at a URL, in place of what is there; its files appear one by one."""
    system, path = file_system(url)
    try:
        if system.exists(path):
            system.rm(path, recursive=True)
        system.put(folder.rstrip("/") + "/", path.rstrip("/") + "/", recursive=True)
    except Exception as error:
        raise StorageError(f"{url} cannot be written: {_said(error)}.") from error


def download(url: str, folder: str) -> None:
    """The files of a folder at a URL, in one of this machine."""
    system, path = file_system(url)
    try:
        if not system.isdir(path):
            raise StorageError(f"{url} does not exist; a model is a directory written by `save`.")
        system.get(path.rstrip("/") + "/", folder.rstrip("/") + "/", recursive=True)
    except OSError as error:
        raise StorageError(f"{url} cannot be read: {_said(error)}.") from error

"""Built-in real text: the docstrings of the standard library and of installed packages.

Sources are parsed, never imported.  Every machine has some; the figures vary with the versions.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from mrflearn.datasets.docstring_blocks import paragraphs
from mrflearn.datasets.prose import sentences
from mrflearn.errors import DataError

PACKAGES = ("stdlib", "torch", "numpy", "scipy")
# Tests are repetitive, and tables of characters and help texts are no docstrings.
SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "testing", "idle_test", "site-packages", "dist-packages", "__pycache__"}
    | {"encodings", "pydoc_data", "lib2to3", "turtledemo", "ensurepip"}
)
KEPT_PRIVATE_FOLDERS = frozenset({"_core"})  # where numpy's documented functions live
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Tally:
    """What has been read so far; hand one over to see it grow."""

    files: int = 0
    skipped: list[str] = field(default_factory=list)  # files that could not be parsed
    sentences: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Document:
    """The sentences of one module's docstrings, in the order of the source."""

    module: str
    sentences: tuple[tuple[str, ...], ...]


def docstring_sentences(
    packages: Sequence[str] = PACKAGES, *, lower: bool = True, tally: Tally | None = None
) -> Iterator[tuple[str, ...]]:
    """The tokens of every sentence, no sentence twice, in a stable order, as they are found."""
    for document in docstring_documents(packages, lower=lower, tally=tally):
        yield from document.sentences


def docstring_documents(
    packages: Sequence[str] = PACKAGES, *, lower: bool = True, tally: Tally | None = None
) -> Iterator[Document]:
    """One document for every module that has sentences not seen in a module before it.

    `stdlib` is the standard library; any other name is an importable package.  Files come sorted
    by path within each package, and files that do not parse are listed in the tally.
    """
    tally = Tally() if tally is None else tally
    seen: set[tuple[str, ...]] = set()
    for package in packages:
        root = _root(package)
        for path in _sources(root):
            fresh = tuple(_unseen(_docstrings(path, tally), seen, lower))
            if fresh:
                tally.sentences += len(fresh)
                tally.tokens += sum(map(len, fresh))
                yield Document(_module_name(package, path.relative_to(root)), fresh)


def _unseen(
    docstrings: list[str], seen: set[tuple[str, ...]], lower: bool
) -> Iterator[tuple[str, ...]]:
    """The sentences that are not in `seen` whatever their case, and adds them to it."""
    for paragraph in chain.from_iterable(map(paragraphs, docstrings)):
        for sentence in sentences(paragraph):
            lowered = tuple(token.lower() for token in sentence)
            if lowered not in seen:
                seen.add(lowered)
                yield lowered if lower else tuple(sentence)


def _root(package: str) -> Path:
    if package == "stdlib":
        return Path(sysconfig.get_path("stdlib"))
    found = importlib.util.find_spec(package) if package.isidentifier() else None
    if found is None or not found.submodule_search_locations:
        raise DataError(
            f"there is no installed package '{package}' to read docstrings from. "
            f"Try one of {', '.join(PACKAGES)}."
        )
    return Path(next(iter(found.submodule_search_locations)))


def _sources(root: Path) -> list[Path]:
    def wanted(path: Path) -> bool:
        return not any(
            folder in SKIPPED_FOLDERS
            or (folder.startswith("_") and folder not in KEPT_PRIVATE_FOLDERS)
            for folder in path.relative_to(root).parts[:-1]
        )

    return sorted(path for path in root.rglob("*.py") if wanted(path))


def _module_name(package: str, path: Path) -> str:
    parts = path.with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if package == "stdlib" else (package, *parts))


def _docstrings(path: Path, tally: Tally) -> list[str]:
    try:
        source = path.read_bytes()
        if b'"""' not in source and b"'''" not in source:
            return []
        with _undisturbed():
            tree = ast.parse(source)
            return list(_walk(tree))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        tally.skipped.append(str(path))
        return []
    finally:
        tally.files += 1


def _walk(node: ast.AST) -> Iterator[str]:
    """Docstrings of a node and of what is defined in it; expressions are not descended into."""
    if isinstance(node, (ast.Module, *DEFINITIONS)):
        text = ast.get_docstring(node, clean=False)
        if text:
            yield text
    for block in ("body", "orelse", "handlers", "finalbody"):
        for child in getattr(node, block, ()):
            yield from _walk(child)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No warnings of escapes in other people's strings, no collector amid a million nodes."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if collecting:
            gc.enable()

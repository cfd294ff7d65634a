"""Which code made a row: a hash of the code a measurement imports, and which rows are behind it.

    python experiments/provenance.py            # which outputs and how many rows are up to date
    python experiments/provenance.py --list     # the points that would have to be run again

The files are found by following the `import` statements of the script that measures, through this
library's packages to the modules in which the names are defined.  Modules that are imported by a
computed name (the library does so for its command line and for users' own features) do not count;
nor do comments, docstrings and blank lines, so that what is said about code makes no row stale.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mrflearn._lazy import public_names

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CURRENT = "this code"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def source_hash(script: Path) -> str:
    """Of the code in the files of `files_of(script)`, by their names, when it was first asked."""
    digest = hashlib.sha256()
    for path in sorted(files_of(script.resolve())):
        digest.update(f"{path.relative_to(ROOT)}\0{_code(path)}".encode())
    return digest.hexdigest()[:12]


@cache
def _code(path: Path) -> str:
    return bare_code(path.read_text(encoding="utf-8"))


def bare_code(text: str) -> str:
    """The lines without comments and docstrings, those that are left; the same in every Python."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            for row in range(first.lineno - 1, first.end_lineno or first.lineno):
                lines[row] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


@cache
def files_of(script: Path) -> frozenset[Path]:
    """The script and every file of this repository it imports, directly or not.

    Packages' `__init__`, which only say where names are defined, are followed and left out.
    """
    found, waiting = set[Path](), [script]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _imported(path)
    return frozenset(path for path in found if path.name != "__init__.py")


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """The files named in the import statements of one file, wherever they stand in it."""
    if path.name == "__init__.py":
        return ()  # who imports a name from it gets the module that defines the name
    found: list[Path] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [own for name in node.names for own in _files(name.name, path)]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += _files(node.module, path)
            for name in node.names:
                found += _named(node.module, name.name, path)
    return tuple(found)


def _files(module: str, importer: Path) -> list[Path]:
    """The file of a module of this repository; none of another library's."""
    inside = module.split(".")[0] == "mrflearn"
    for folder in (ROOT / "src",) if inside else (importer.parent, HERE):
        path = folder.joinpath(*module.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.exists():
                return [file]
    return []


def _named(module: str, name: str, importer: Path) -> Iterator[Path]:
    """Where a name that is imported from a package is defined: a submodule, or what it says."""
    for file in _files(module, importer):
        if file.name == "__init__.py":
            home = public_names(file.read_text(encoding="utf-8")).get(name)
            yield from _files(home or f"{module}.{name}", importer)


def state(row: dict[str, Any]) -> str:
    """Whether this code made a row, or which did."""
    code = row.get("code")
    if code and (ROOT / code).exists() and source_hash(ROOT / code) == row.get("source"):
        return CURRENT
    commit = row.get("commit")
    if not commit:
        return "no commit"
    return "uncommitted changes" if commit.endswith("-dirty") else "an older commit"


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The last row of each point."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = {json.dumps(row["point"], sort_keys=True): row for row in map(json.loads, lines)}
    return list(rows.values())


def main(words: Sequence[str] | None = None) -> None:
    """Prints the state of benchmarks' outputs, the counts and with `--list` the points of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="every point not of this code")
    options = parser.parse_args(words)
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")):
        print(f"benchmarks/{path.stem}: {state(json.loads(path.read_text(encoding='utf-8')))}")
    for path in sorted(HERE.glob("*/results-*/rows*.jsonl")):
        rows = rows_of(path)
        counts = Counter(map(state, rows))
        print(f"{path.relative_to(HERE)}: " + ", ".join(f"{n} {s}" for s, n in counts.items()))
        for row in rows if options.list else ():
            if state(row) != CURRENT:
                print(f"  {state(row)} ({row.get('commit')}): {json.dumps(row['point'])}")


if __name__ == "__main__":
    main()

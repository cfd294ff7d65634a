"""Which code made a row: a hash of the code a measurement uses, and which rows are behind it.

    python experiments/provenance.py            # which outputs and how many rows are up to date
    python experiments/provenance.py --list     # the points that would have to be run again

The code is found by following names from the script that measures: functions, classes and constants
of this repository that it names, and those that they name in turn, a class with all its methods.
What is reached by a computed name (the library does so for its command line and for users' own
features) does not count; nor do annotations, comments, docstrings and blank lines, so that neither
what is said about code nor code that has no part in a measurement makes its row stale.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import tokenize
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from mrflearn._lazy import public_names

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CURRENT = "this code"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def source_hash(script: Path) -> str:
    """Of the lines of code in `code_of(script)`, by the names of files, when it was first asked."""
    digest = hashlib.sha256()
    for path, lines in sorted(code_of(script.resolve()).items()):
        digest.update(f"{path.relative_to(ROOT)}\0{lines}".encode())
    return digest.hexdigest()[:12]


def code_of(script: Path) -> dict[Path, str]:
    """By file, the lines that the script uses; of the script itself all."""
    used = set[tuple[Path, ast.stmt]]()
    waiting = [(script, node) for node in _module(script).tree.body]
    while waiting:
        path, node = waiting.pop()
        if (path, node) not in used:
            used.add((path, node))
            waiting += _followed(path, node)
    numbers = dict[Path, set[int]]()
    for path, node in used:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        numbers.setdefault(path, set()).update(range(first - 1, node.end_lineno or first))
    return {
        path: "\n".join(line for n in sorted(own) if (line := _module(path).lines[n]))
        for path, own in numbers.items()
    }


def bare_code(text: str) -> list[str]:
    """The lines of a source, each without comments and docstrings; the same in every Python."""
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
    return [line.rstrip() for line in lines]


@dataclass(frozen=True, eq=False)
class Module:
    """A source: its lines of code, what defines each name, and what runs when it is imported."""

    tree: ast.Module
    lines: list[str]
    definitions: dict[str, list[ast.stmt]]
    always: list[ast.stmt]
    imports: dict[str, tuple[str, str | None]]  # of a name: a module, and which of its names


@cache
def _module(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = Module(tree, bare_code(text), {}, [], {})
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.definitions.setdefault(node.name, []).append(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and (names := _assigned(node)):
            for name in names:
                found.definitions.setdefault(name, []).append(node)
        elif not isinstance(node, (ast.Import, ast.ImportFrom)) and not _said(node):
            found.always.append(node)
    _note_imports(tree, found.imports)
    return found


def _assigned(node: ast.Assign | ast.AnnAssign) -> list[str]:
    """The names that a statement gives values; none where an attribute or an entry gets one."""
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
    plain = [one for t in targets for one in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return [t.id for t in plain if isinstance(t, ast.Name)] if plain else []


def _said(node: ast.stmt) -> bool:
    """Whether a statement is for readers and type checkers alone."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _note_imports(node: ast.AST, imports: dict[str, tuple[str, str | None]]) -> None:
    """Which names the import statements of a module give, wherever they stand in it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for own in child.names:
                bound = own.asname or own.name.partition(".")[0]
                imports[bound] = (own.name if own.asname else bound, None)
        elif isinstance(child, ast.ImportFrom) and child.module:
            for own in child.names:
                imports[own.asname or own.name] = (child.module, own.name)
        elif not isinstance(child, ast.If) or not _said(child):
            _note_imports(child, imports)


class _Names(ast.NodeVisitor):
    """Every name that is read, with the attributes asked of it; annotations are passed over."""

    def __init__(self) -> None:
        self.found = set[tuple[str, ...]]()

    def visit_Name(self, node: ast.Name) -> None:
        self.found.add((node.id,))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain, inside = [node.attr], node.value
        while isinstance(inside, ast.Attribute):
            chain.append(inside.attr)
            inside = inside.value
        if isinstance(inside, ast.Name):
            self.found.add((inside.id, *reversed(chain)))
        else:
            self.visit(inside)

    def visit_arg(self, node: ast.arg) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for child in (*node.decorator_list, node.args, *node.body):
            self.visit(child)


Place: TypeAlias = tuple[Path, ast.stmt]


def _followed(path: Path, node: ast.stmt) -> list[Place]:
    """The statements of this repository that those names stand for."""
    names = _Names()
    names.visit(node)
    return [place for chain in names.found for place in _meant(path, chain)]


def _meant(path: Path, chain: Sequence[str]) -> list[Place]:
    """The statements that define a name in a module, or attributes of a module it names."""
    module, (name, *rest) = _module(path), chain
    if name in module.definitions:
        return [(path, node) for node in (*module.definitions[name], *module.always)]
    if name not in module.imports:
        return []
    home, own = module.imports[name]
    return _of_module(home, [*([] if own is None else [own]), *rest], path)


def _of_module(module: str, chain: Sequence[str], importer: Path) -> list[Place]:
    """What a chain of names means that begins in a module; of the module alone, all of it."""
    for file in _files(module, importer):
        if file.name != "__init__.py":
            return (
                _meant(file, chain) if chain else [(file, node) for node in _module(file).tree.body]
            )
        if chain:
            home = public_names(file.read_text(encoding="utf-8")).get(chain[0])
            inner = _of_module(home, chain, file) if home else []
            return inner or _of_module(f"{module}.{chain[0]}", chain[1:], importer)
    return []


def _files(module: str, importer: Path) -> list[Path]:
    """The file of a module of this repository; none of another library's."""
    inside = module.split(".")[0] == "mrflearn"
    for folder in (ROOT / "src",) if inside else (importer.parent, HERE):
        path = folder.joinpath(*module.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.exists():
                return [file]
    return []


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

"""Which code made a row: a hash of the code a measurement uses, and which rows are behind it.

    python experiments/provenance.py            # which outputs and how many rows are up to date
    python experiments/provenance.py --list     # the points that would have to be run again

The code is found by following names from the script that measures: functions, classes and constants
of this repository that it names, and those that they name in turn.  A method of a class counts
where anything is asked for an attribute of its name, or its class is derived from a library's.
Three things do not count, so that neither what is said about code nor code that has no part in a
measurement makes its row stale: annotations, comments, docstrings and blank lines; what is reached
by a computed name, as the library does for its command line and for users' own features; and, in
experiments, how data are packed for other processes and held there, which decides where something
is computed, not what (tests compare the two).
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
LIBRARY = ROOT / "src" / "mrflearn"
ELSEWHERE = ("execution", "models/held_chains.py", "objectives/distributed.py")
PACKED = ("__getstate__", "__setstate__", "__reduce__")
PLAIN_BASES = ("NamedTuple", "Protocol", "Generic", "ABC", "object", "TypedDict")
Place: TypeAlias = tuple[Path, ast.stmt]
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
    used, asked = set[Place](), set[str]()
    waiting = [(script, node) for node in _module(script).tree.body]
    unasked = dict[str, list[Place]]()  # methods of classes that are used, by name
    elsewhere = tuple(f"{LIBRARY / name}" for name in ELSEWHERE if HERE in script.parents)
    while waiting:
        path, node = waiting.pop()
        if (path, node) in used or str(path).startswith(elsewhere):
            continue
        used.add((path, node))
        if isinstance(node, ast.ClassDef):
            for own in node.body:
                if not isinstance(own, ast.FunctionDef) or _called_from_outside(node, own, path):
                    waiting.append((path, own))
                else:
                    unasked.setdefault(own.name, []).append((path, own))
        chains = _names(node)
        asked.update(name for chain in chains for name in chain[1:])
        waiting += [place for chain in chains for place in _meant(path, chain)]
        waiting += [place for name in asked & unasked.keys() for place in unasked.pop(name)]
    numbers = dict[Path, set[int]]()
    for path, node in used:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        last = node.body[0].lineno - 1 if isinstance(node, ast.ClassDef) else node.end_lineno
        numbers.setdefault(path, set()).update(range(first - 1, last or first))
    return {
        path: "\n".join(line for n in sorted(own) if (line := _module(path).lines[n]))
        for path, own in numbers.items()
    }


def _called_from_outside(owner: ast.ClassDef, method: ast.FunctionDef, path: Path) -> bool:
    """Whether a method may be called where none of this repository's code names it."""
    if method.name in PACKED:
        return False
    special = method.name.startswith("__") and method.name.endswith("__")
    bases = [chain for base in owner.bases for chain in _names(ast.Expr(base))]
    return special or not all(_meant(path, chain) or chain[-1] in PLAIN_BASES for chain in bases)


def bare_code(text: str) -> list[str]:
    """The lines of a source without comments and docstrings; the same in every Python."""
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
    return ["" if line.strip() == "@final" else line.rstrip() for line in lines]


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


def _names(node: ast.AST) -> set[tuple[str, ...]]:
    """Every name that is read, with the attributes asked of it; of a class, but for its body.

    What is asked of anything but a name comes after an empty one.  Annotations are passed over.
    """
    found, waiting = set[tuple[str, ...]](), list[ast.AST]([node])
    while waiting:
        one = waiting.pop()
        chain, inside = list[str](), one
        while isinstance(inside, ast.Attribute):
            chain.append(inside.attr)
            inside = inside.value
        if isinstance(inside, ast.Name):
            found.add((inside.id, *reversed(chain)))
        elif chain:
            found.add(("", *reversed(chain)))
            waiting.append(inside)
        elif isinstance(one, ast.ClassDef):
            waiting += [*one.decorator_list, *one.bases, *one.keywords]
        elif isinstance(one, ast.FunctionDef):
            waiting += [*one.decorator_list, one.args, *one.body]
        elif isinstance(one, ast.AnnAssign):
            waiting += [] if one.value is None else [one.value]
        elif not isinstance(one, ast.arg):
            waiting += ast.iter_child_nodes(one)
    return found


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

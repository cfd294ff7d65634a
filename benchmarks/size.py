"""How large the library is: `make size`.

Lines of code (without blanks, comments and docstrings) and files by package, modules over 600
lines, class names that stand for more than one class, and modules that one other alone imports.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
LONG = 600
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstring_lines(tree: ast.Module) -> set[int]:
    """The lines that docstrings stand on."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines that hold a token of code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(tree))


def imports_of(tree: ast.Module, modules: set[str]) -> set[str]:
    """The modules of the library that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found & modules


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--alone", action="store_true", help="list modules with one importer")
    options = parser.parse_args()
    paths = sorted((SOURCE / "mrflearn").rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    names = {
        path: ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for path in paths
    }
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    long, classes = [], defaultdict(list)
    for path, tree in trees.items():
        parts = path.relative_to(SOURCE / "mrflearn").parts
        package = parts[0] if len(parts) > 1 else "(top)"
        text = path.read_text(encoding="utf-8")
        files[package] += 1
        lines[package] += code_lines(text, tree)
        if text.count("\n") > LONG:
            long.append(f"{names[path]} ({text.count(chr(10))})")
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(names[path])
    print(f"{'package':12} {'files':>6} {'lines of code':>14}")
    for package in sorted(files):
        print(f"{package:12} {files[package]:6} {lines[package]:14,}")
    print(f"{'in all':12} {files.total():6} {lines.total():14,}")
    print(f"modules over {LONG} lines: {', '.join(long) or 'none'}")
    twice = {name: homes for name, homes in classes.items() if len(homes) > 1}
    print(f"public class names defined more than once: {len(twice)}")
    for name, homes in sorted(twice.items()):
        print(f"  {name}: {', '.join(home.removeprefix('mrflearn.') for home in homes)}")
    importers: dict[str, set[str]] = defaultdict(set)
    modules = set(names.values())
    for path, tree in trees.items():
        for own in imports_of(tree, modules) - {names[path]}:
            importers[own].add(names[path])
    alone = {m: next(iter(by)) for m, by in importers.items() if len(by) == 1}
    print(f"modules with a single importer: {len(alone)}")
    if options.alone:
        for module, by in sorted(alone.items()):
            print(f"  {module.removeprefix('mrflearn.')} <- {by.removeprefix('mrflearn.')}")


if __name__ == "__main__":
    main()
